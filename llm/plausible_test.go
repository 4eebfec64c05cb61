package llm_test

import (
	"math"
	"testing"

	"github.com/troupe-dev/troupe/llm"
)

// What can be true of a server's numbers counts, and else an estimate (SECA-43).
func TestPlausible(t *testing.T) {
	tests := []struct {
		said         llm.Usage
		input, bytes int
		want         llm.Usage
	}{
		{llm.Usage{Input: 12, Output: 3}, 10, 12, llm.Usage{Input: 12, Output: 3}},
		{llm.Usage{Input: 12, Output: 3, Estimated: true}, 10, 12, llm.Usage{Input: 12, Output: 3, Estimated: true}},
		{llm.Usage{Input: 12}, 10, 0, llm.Usage{Input: 12}},
		{llm.Usage{Input: 900, Output: 9000}, 10, 12, llm.Usage{Input: 900, Output: 9000}}, // thinking that is not shown
		{llm.Usage{Input: 12, Output: 3}, 10, 300, llm.Usage{Input: 12, Output: 3}},
		{llm.Usage{}, 10, 12, llm.Usage{Input: 10, Output: 3, Estimated: true}},
		{llm.Usage{Input: -5, Output: -5}, 10, 12, llm.Usage{Input: 10, Output: 3, Estimated: true}},
		{llm.Usage{Input: 1 << 62, Output: 1 << 62}, 10, 12, llm.Usage{Input: 10, Output: 3, Estimated: true}},
		{llm.Usage{Input: math.MaxInt, Output: math.MinInt}, 10, 12, llm.Usage{Input: 10, Output: 3, Estimated: true}},
		{llm.Usage{Input: 1, Output: 1}, 10_000, 40_000, llm.Usage{Input: 10_000, Output: 10_000, Estimated: true}},
		{llm.Usage{Input: 1000, Output: 2000}, 10_000, 40_000, llm.Usage{Input: 1000, Output: 2000}},
		{llm.Usage{}, math.MaxInt, 0, llm.Usage{Input: 1 << 30, Estimated: true}},
	}
	for _, tt := range tests {
		if got := tt.said.Plausible(tt.input, tt.bytes); got != tt.want {
			t.Errorf("%+v.Plausible(%d, %d): got %+v, want %+v", tt.said, tt.input, tt.bytes, got, tt.want)
		}
	}
}
