package llm_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// busy is an error that is worth a retry, after a wait or at the client's choice.
func busy(after time.Duration) *llm.Error {
	return &llm.Error{Provider: "test", Status: 429, RetryAfter: after, Retryable: true, Err: llm.ErrRateLimit}
}

func TestRetry(t *testing.T) {
	final := &llm.Error{Provider: "test", Status: 401, Err: llm.ErrAuth}
	again := llmtest.Fail(busy(0))
	tests := []struct {
		name     string
		turns    []llmtest.Turn
		opts     *llm.RetryOptions
		want     error
		requests int
		atLeast  time.Duration // of waiting
		atMost   time.Duration
	}{
		{"at once", []llmtest.Turn{llmtest.Say("ok")}, nil, nil, 1, 0, 0},
		{"exactly what the server asks for", []llmtest.Turn{llmtest.Fail(busy(7 * time.Second)), llmtest.Say("ok")}, nil, nil, 2, 7 * time.Second, 7 * time.Second},
		{"growing waits", []llmtest.Turn{again, again, again, llmtest.Say("ok")}, nil, nil, 4, 1750 * time.Millisecond, 5250 * time.Millisecond},
		{"a bound of attempts", []llmtest.Turn{again, again, again}, &llm.RetryOptions{MaxAttempts: 2}, llm.ErrRateLimit, 2, 250 * time.Millisecond, 750 * time.Millisecond},
		{"five by default", []llmtest.Turn{again, again, again, again, again, again}, nil, llm.ErrRateLimit, 5, 3750 * time.Millisecond, 11250 * time.Millisecond},
		{"a bound of each wait", []llmtest.Turn{again, again, again, llmtest.Say("ok")}, &llm.RetryOptions{MaxWait: time.Millisecond, InitialWait: time.Second}, nil, 4, 0, 3 * time.Millisecond},
		{"a server that asks for too much", []llmtest.Turn{llmtest.Fail(busy(time.Hour))}, nil, llm.ErrRateLimit, 1, 0, 0},
		{"an error for good", []llmtest.Turn{llmtest.Fail(final)}, nil, llm.ErrAuth, 1, 0, 0},
		{"an error of another kind", []llmtest.Turn{llmtest.Fail(context.Canceled)}, nil, context.Canceled, 1, 0, 0},
		{"after the first event", []llmtest.Turn{llmtest.Join(llmtest.Say("a"), again)}, nil, llm.ErrRateLimit, 1, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := llmtest.Script(tt.turns...)
				start := time.Now()
				_, err := llm.Generate(t.Context(), llm.Retry(script, tt.opts), hello())
				waited := time.Since(start)
				if !errors.Is(err, tt.want) {
					t.Errorf("Generate: got error %v, want %v", err, tt.want)
				}
				if n := len(script.Requests()); n != tt.requests {
					t.Errorf("Generate: made %d requests, want %d", n, tt.requests)
				}
				if waited < tt.atLeast || waited > tt.atMost {
					t.Errorf("Generate: waited %v, want %v to %v", waited, tt.atLeast, tt.atMost)
				}
			})
		})
	}
}

// TestRetryHook holds that each wait is told before it begins.
func TestRetryHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []llm.Attempt
		m := llm.Retry(llmtest.Script(llmtest.Fail(busy(time.Second)), llmtest.Fail(busy(2*time.Second)), llmtest.Say("ok")),
			&llm.RetryOptions{OnRetry: func(a llm.Attempt) { told = append(told, a) }})
		if _, err := llm.Generate(t.Context(), m, hello()); err != nil {
			t.Fatalf("Generate: %v", err)
		}
		if len(told) != 2 || told[0].Number != 1 || told[1].Number != 2 || told[1].Wait != 2*time.Second || told[0].Model != m.Name() || told[0].Err == nil {
			t.Errorf("OnRetry: got %+v", told)
		}
	})
}

// TestRetryAndContext holds that a wait ends with its context, and that none is begun
// that could not end before it.
func TestRetryAndContext(t *testing.T) {
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			start := time.Now()
			_, err := llm.Generate(ctx, llm.Retry(llmtest.Script(llmtest.Fail(busy(10*time.Second))), nil), hello())
			if !errors.Is(err, llm.ErrRateLimit) || time.Since(start) != 0 {
				t.Errorf("Generate: got error %v after %v, want %v at once", err, time.Since(start), llm.ErrRateLimit)
			}
		})
	})
	t.Run("cancel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(3*time.Second, func() { cancel(cause) })
			start := time.Now()
			_, err := llm.Generate(ctx, llm.Retry(llmtest.Script(llmtest.Fail(busy(10*time.Second))), nil), hello())
			if !errors.Is(err, cause) || time.Since(start) != 3*time.Second {
				t.Errorf("Generate: got error %v after %v, want %v after 3s", err, time.Since(start), cause)
			}
		})
	})
}

// TestRetryLeaving holds that a reader who leaves is not retried behind.
func TestRetryLeaving(t *testing.T) {
	script := llmtest.Script(llmtest.Say("a", "b"), llmtest.Say("c"))
	for range llm.Retry(script, nil).Stream(t.Context(), hello()) {
		break
	}
	if n := len(script.Requests()); n != 1 {
		t.Errorf("Stream: made %d requests, want 1", n)
	}
}
