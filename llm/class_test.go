package llm_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/llm"
)

func TestClass(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{nil, ""},
		{&llm.Error{Status: 401, Err: llm.ErrAuth}, "auth"},
		{&llm.Error{Status: 429, Err: llm.ErrQuota}, "quota"},
		{fmt.Errorf("turn 3: %w", &llm.Error{Status: 429, Err: llm.ErrRateLimit}), "rate_limit"},
		{&llm.Error{Status: 503, Retryable: true}, "server"},
		{&llm.Error{Message: "overloaded", Retryable: true}, "server"},
		{fmt.Errorf("reading: %w", llm.ErrIdle), "stream"},
		{&llm.Error{Status: 418}, "other"},
		{&llm.Error{Status: 502, Err: llm.ErrBadResponse}, "bad_response"},
		{context.DeadlineExceeded, "other"},
	}
	for _, tt := range tests {
		if got := llm.Class(tt.err); got != tt.want {
			t.Errorf("Class(%v): got %q, want %q", tt.err, got, tt.want)
		}
	}
}
