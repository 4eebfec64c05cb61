package llm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

func TestOutage(t *testing.T) {
	all := func(errs ...error) error { return errors.Join(errs...) }
	of := func(err error) *llm.Error { return &llm.Error{Provider: "p", Err: err} }
	tests := []struct {
		err   error
		class string // empty for none
		after time.Duration
	}{
		{&llm.Error{Status: 429, Err: llm.ErrRateLimit, Retryable: true, RetryAfter: 48 * time.Second}, "rate_limit", 48 * time.Second},
		{&llm.Error{Status: 429, Err: llm.ErrQuota}, "quota", 0},
		{&llm.Error{Status: 401, Err: llm.ErrAuth}, "auth", 0},
		{&llm.Error{Status: 403, Err: llm.ErrAuth}, "auth", 0},
		{&llm.Error{Err: fmt.Errorf("%w: refused", llm.ErrUnreachable)}, "unreachable", 0},
		{&llm.Error{Status: 503, Retryable: true, RetryAfter: time.Second}, "server", time.Second},
		{&llm.Error{Status: 501}, "server", 0},
		{&llm.Error{Message: "overloaded", Retryable: true}, "server", 0},
		{of(llm.ErrStreamCut), "stream", 0},
		{of(llm.ErrIdle), "stream", 0},
		{&llm.Error{Err: llm.ErrCircuitOpen, RetryAfter: time.Minute}, "circuit", time.Minute},
		{of(llm.ErrBusy), "busy", 0},
		{fmt.Errorf("asking: %w", of(llm.ErrAuth)), "auth", 0},
		{llm.ErrUnreachable, "unreachable", 0},

		{nil, "", 0},
		{&llm.Error{Status: 404, Err: llm.ErrNotFound}, "", 0},
		{&llm.Error{Status: 400, Err: llm.ErrInvalidRequest}, "", 0},
		{&llm.Error{Status: 500, Err: llm.ErrInvalidRequest}, "", 0},
		{&llm.Error{Status: 413, Err: llm.ErrContextLength}, "", 0},
		{of(llm.ErrUnsupported), "", 0},
		{&llm.Error{Err: llm.ErrBadCall, Retryable: true}, "", 0},
		{&llm.Error{Err: llm.ErrBadResponse, Retryable: true}, "", 0},
		{of(llm.ErrTooLarge), "", 0},
		{&llm.Error{Message: "invalid_request"}, "", 0},
		{context.Canceled, "", 0},
		{errors.New("anything else"), "", 0},

		{all(&llm.Error{Err: llm.ErrUnreachable}, &llm.Error{Err: llm.ErrRateLimit, RetryAfter: time.Minute}, &llm.Error{Err: llm.ErrCircuitOpen, RetryAfter: time.Second}), "unreachable", time.Second},
		{all(of(llm.ErrNotFound), of(llm.ErrAuth)), "auth", 0},
		{all(of(llm.ErrNotFound), of(llm.ErrContextLength)), "", 0},
	}
	for _, tt := range tests {
		class, after, ok := llm.Outage(tt.err)
		if class != tt.class || after != tt.after || ok != (tt.class != "") {
			t.Errorf("Outage(%v): got %q, %v, %v, want %q, %v", tt.err, class, after, ok, tt.class, tt.after)
		}
	}
}
