package rest

import (
	"math"
	"strconv"

	"github.com/troupe-dev/troupe/llm"
)

// Usage returns what a turn has cost by the server's numbers, or an estimate from bytes in
// place of an impossible one, such as a prompt of no tokens (Ollama says nothing of
// one that it had in its cache): see [llm.Usage.Plausible].
func Usage(req *llm.Request, input, output, bytes int) llm.Usage {
	return llm.Usage{Input: input, Output: output}.Plausible(llm.EstimateTokens(req), bytes)
}

// Count is a number of tokens as a server tells it. What is no number, or none that can be
// counted, is zero: it is no reason to lose a turn.
type Count int

// UnmarshalJSON implements the interface of encoding/json.
func (c *Count) UnmarshalJSON(data []byte) error {
	*c = 0
	if f, err := strconv.ParseFloat(string(data), 64); err == nil && f > 0 && f == math.Trunc(f) {
		*c = Count(min(f, math.MaxInt32))
	}
	return nil
}

// Sum adds what was counted.
func Sum(n int, c Count) int { return min(n+int(c), math.MaxInt32) }
