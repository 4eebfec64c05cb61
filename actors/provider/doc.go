// Package provider supervises language models: one actor for each backend, one for
// each request that has to wait, or has to be made again.
// It serves mcpclient, mcpserver and agent, and promises no compatibility.
//
//	llm (Group) ─┬─ provider "ollama" ─┬─ completion
//	             │                     └─ completion
//	             └─ provider "openai" ─── completion
//
//	g, err := provider.Open(sys, nil)
//	m := g.Model(ollama.New("qwen3:8b", nil)) // an llm.Model like any other
//
// A provider says when a request may go out: so many at once, so many a minute, none
// for a while after a row of failures. A completion decides what becomes of one
// request: whether and when another attempt follows, and that it ends. The work itself,
// reading the stream, is done by the goroutine that ranges over it, so there is no
// buffer between the model and its reader, and the reader's pace is the model's.
//
// A request that finds a place free, while no other waits, the circuit is closed and the
// provider has no rate, takes the place at once and has no completion: its goroutine calls
// the model. If that fails, the provider starts a completion, which decides what follows.
//
// # What is promised
//
//   - Every stream ends in exactly one way: complete, with one error, or left by its
//     reader. A killed completion, a crashed provider and a closed group are errors of
//     the streams they had, and of no others.
//   - A reader who leaves and a context that ends free the place at once, whether the
//     request was waiting, streaming or between two attempts.
//   - A failed attempt is made again as [llm.RetryOptions] say, after exactly the time
//     the server asked for; after the first event only for a reader who has set
//     [llm.Observer].Restart. Waiting for another attempt takes no place.
//   - Waiting requests are served in the order in which they came, those that were
//     out before them first. Of waiting there is no bound but the request's context.
//   - A provider that does nothing costs neither a goroutine nor a timer.
//
// Tests need an [actors.System] and llm/llmtest.
package provider
