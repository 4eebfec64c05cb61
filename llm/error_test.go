package llm_test

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

func TestErrorText(t *testing.T) {
	tests := []struct {
		err  llm.Error
		want string
	}{
		{llm.Error{Provider: "openai", Model: "m", Status: 429, Code: "rate_limit_exceeded", Message: "slow down", RetryAfter: 3 * time.Second, Err: llm.ErrRateLimit},
			"openai/m: status 429: rate_limit_exceeded: too many requests: slow down (retry after 3s)"},
		{llm.Error{Provider: "ollama", Err: llm.ErrUnreachable}, "ollama: the server cannot be reached"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("Error: got %q, want %q", got, tt.want)
		}
	}
}
