package llm

import (
	"errors"
	"time"
)

// outages are the errors that are the state of a provider, with their classes; the first that fits counts.
var outages = []struct {
	err   error
	class string
}{
	{ErrCircuitOpen, "circuit"},
	{ErrBusy, "busy"},
	{ErrRateLimit, "rate_limit"},
	{ErrQuota, "quota"},
	{ErrAuth, "auth"},
	{ErrUnreachable, "unreachable"},
	{ErrIdle, "stream"},
	{ErrStreamCut, "stream"},
}

// ofRequest are the errors that the same request would meet again, with their classes.
var ofRequest = []struct {
	err   error
	class string
}{
	{ErrContextLength, "context_length"},
	{ErrNotFound, "not_found"},
	{ErrUnsupported, "unsupported"},
	{ErrInvalidRequest, "invalid_request"},
	{ErrBadCall, "bad_call"},
	{ErrBadResponse, "bad_response"},
	{ErrTooLarge, "too_large"},
}

// Outage reports whether an error is the state of a model's provider and not of the request: the same request does better
// once that has changed, however long it takes. The class is one of these:
//
//	rate_limit   it answers 429
//	quota        the account has no quota left
//	auth         it does not accept the credentials
//	unreachable  it cannot be reached
//	server       it answers with a status from 500, or with an error of its own
//	stream       its answer broke off, or it fell silent
//	circuit      it is left alone after repeated failures
//	busy         too many requests wait for it already
//
// RetryAfter is how long it has asked to wait, zero if it has not. Of an error that wraps those of several models, the
// first outage counts, and the shortest wait. An unknown model, a request that is not valid or too long, and an answer
// that makes no sense are no outage.
func Outage(err error) (class string, retryAfter time.Duration, ok bool) {
	switch e := err.(type) {
	case nil:
		return "", 0, false
	case *Error:
		class = outageOf(e)
		return class, e.RetryAfter, class != ""
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			c, after, is := Outage(one)
			if !is {
				continue
			}
			if !ok {
				class, ok = c, true
			}
			if retryAfter == 0 || after > 0 && after < retryAfter {
				retryAfter = after
			}
		}
		return class, retryAfter, ok
	}
	if inner := errors.Unwrap(err); inner != nil {
		return Outage(inner)
	}
	for _, o := range outages {
		if err == o.err {
			return o.class, 0, true
		}
	}
	return "", 0, false
}

// outageOf is the class of an error that is an outage; empty for any other.
func outageOf(e *Error) string {
	for _, o := range ofRequest {
		if errors.Is(e.Err, o.err) {
			return ""
		}
	}
	for _, o := range outages {
		if errors.Is(e.Err, o.err) {
			return o.class
		}
	}
	if e.Status >= 500 || e.Err == nil && e.Retryable {
		return "server"
	}
	return ""
}

// Class names the kind of an error in a word, for logs and metrics: that of an [Outage]; else "context_length", "not_found",
// "unsupported", "invalid_request", "bad_call", "bad_response" or "too_large"; else "other". It is empty for nil.
func Class(err error) string {
	if err == nil {
		return ""
	}
	if class, _, ok := Outage(err); ok {
		return class
	}
	for _, o := range ofRequest {
		if errors.Is(err, o.err) {
			return o.class
		}
	}
	return "other"
}
