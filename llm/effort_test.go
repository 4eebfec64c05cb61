package llm_test

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
)

func TestEffortNearest(t *testing.T) {
	tests := []struct{ effort, taken, want string }{
		{"", "low high", ""},
		{"high", "", ""},
		{"medium", "none low medium high", "medium"},
		{"none", "none low medium high", "none"},
		{"none", "minimal low", "minimal"},
		{"none", "low medium high", "low"},
		{"minimal", "none low medium high", "low"},
		{"minimal", "none", "none"},
		{"low", "none high", "high"},
		{"xhigh", "low medium high", "high"},
		{"xhigh", "high max", "high"},
		{"max", "none low medium high xhigh", "xhigh"},
		{"medium", "low high", "low"},
	}
	for _, tt := range tests {
		var taken []llm.Effort
		for _, e := range strings.Fields(tt.taken) {
			taken = append(taken, llm.Effort(e))
		}
		if got := llm.Effort(tt.effort).Nearest(taken); string(got) != tt.want {
			t.Errorf("%q of %q: got %q, want %q", tt.effort, tt.taken, got, tt.want)
		}
	}
}
