package llm

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// What an [*Error] can be, for errors.Is.
var (
	ErrStreamCut      = errors.New("the stream ended before the turn was complete")
	ErrIdle           = errors.New("the server fell silent")
	ErrUnreachable    = errors.New("the server cannot be reached")
	ErrContextLength  = errors.New("the conversation is longer than the model's context")
	ErrAuth           = errors.New("the server does not accept the credentials")
	ErrQuota          = errors.New("the account has no quota left")
	ErrRateLimit      = errors.New("too many requests")
	ErrNotFound       = errors.New("the model or the endpoint does not exist")
	ErrUnsupported    = errors.New("the model or the client does not support this")
	ErrInvalidRequest = errors.New("the request is not valid")
	ErrBadCall        = errors.New("the model wrote a call that is not valid")
	ErrBadResponse    = errors.New("the server's answer is not what its API promises")
	ErrTooLarge       = errors.New("the server's answer is too large")
	// ErrBusy and ErrCircuitOpen are of a client that does not ask the server at the moment: see package
	// actors/provider.
	ErrBusy        = errors.New("too many requests are waiting for the provider")
	ErrCircuitOpen = errors.New("the provider is left alone after repeated failures")
)

// Error is a turn that failed. It never holds a key, and Message is bounded.
type Error struct {
	// Provider and Model say who failed, such as "openai" and "gpt-5-mini".
	Provider, Model string
	// Status is the HTTP status, zero where there was none or where the error came
	// in a stream that had begun well.
	Status int
	// Code is the server's own code or type, such as "insufficient_quota".
	Code string
	// Message is the server's text, at most 1 KiB, or what the client found.
	Message string
	// RetryAfter is how long the server asked to wait. Zero means it did not.
	RetryAfter time.Duration
	// Retryable says that the same request may do better later.
	Retryable bool
	// Err is one of the values above, or wraps one beside the cause. It may be nil.
	Err error
}

// Error names the model, the status, the code and the message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider)
	if e.Model != "" {
		b.WriteString("/" + e.Model)
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
	}
	if e.Code != "" {
		fmt.Fprintf(&b, ": %s", e.Code)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (retry after %v)", e.RetryAfter)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
