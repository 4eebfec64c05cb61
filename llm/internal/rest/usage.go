package rest

import "github.com/troupe-dev/troupe/llm"

// Usage returns what a turn has cost by the server's numbers. One that can not be true is
// estimated from bytes: a prompt of no tokens (Ollama says nothing of one that it had in
// its cache), or no output where there were bytes of it.
func Usage(req *llm.Request, input, output, bytes int) llm.Usage {
	u := llm.Usage{Input: max(0, input), Output: max(0, output)}
	if u.Input == 0 {
		u.Input, u.Estimated = llm.EstimateTokens(req), true
	}
	if u.Output == 0 && bytes > 0 {
		u.Output, u.Estimated = llm.EstimateBytes(bytes), true
	}
	return u
}
