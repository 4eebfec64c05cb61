package call

import (
	"encoding/json"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// Answer is what one attempt was answered with: a result, or an error of the peer
// or of this package.
type Answer struct {
	Attempt int // from 1; those that were sent again for a lost connection count
	Result  Result
	Err     error
	// Left is what was left of the call's maximum; 0 without one.
	Left time.Duration
}

// Step says how a call goes on after an answer. The zero value makes that answer
// the outcome. At most one of Retry and Wait is set.
type Step struct {
	// Retry is the next attempt: the same method, with a new id (MRTR-11, URL-41).
	Retry *Retry
	// Wait does something that takes a while: a person is asked, a task is watched.
	// It must not block, and calls resume once, from any goroutine, with the next
	// step. Abort, which may be nil, is called instead when the call ends before:
	// resume then does nothing.
	Wait func(resume func(Step)) (abort func(cause error))
	// Clocks says that the call's maximum goes on while it waits; otherwise it stands
	// still, as it must while a person is asked (TIME-05). The limit without progress
	// is an attempt's, and does not run between attempts (MRTR-16).
	Clocks bool
	// Token keeps the progress token of the attempt valid during Wait, as a task of
	// 2025-11-25 goes on with it (PROG-06).
	Token bool
	// Outcome, if set, takes the place of the answer.
	Outcome *Outcome
}

// Retry is another attempt of a call.
type Retry struct {
	// Params and Meta take the place of the request's; nil keeps them.
	Params  json.RawMessage
	Meta    mcp.Meta
	Headers []mcp.Header // takes the place of the request's; nil keeps them
	// After is a pause before the attempt.
	After time.Duration
	// Method, if set, takes the place of the request's, with Name: a task is read
	// instead of the call it came from.
	Method, Name string
}

// Outcome is what a call ends with.
type Outcome struct {
	Result Result
	Err    error
}
