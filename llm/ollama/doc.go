// Package ollama is a [llm.Model] of an Ollama server's own API.
//
//	m := ollama.New("qwen3:8b", nil)            // OLLAMA_HOST, or 127.0.0.1:11434
//	s := ollama.NewServer(nil)                  // what is there?
//	models, err := s.Models(ctx)
//
// Requests and answers have the types of Ollama's api package. Sending and reading is
// done here: that package's client takes a cut connection, an ended context and an
// empty status 500 for success, and allocates 8 MB for each stream. A turn has
// completed when a line with "done": true was seen.
//
// Ollama keeps only a part of a tool's JSON schema; what would be lost goes into
// descriptions, where the model can read it. Arguments must be validated by the code that
// runs the tool, as always.
//
// All types may be used by many goroutines at once, and start none.
package ollama
