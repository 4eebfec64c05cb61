package call

import (
	"encoding/json"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// Default limits of a call.
const (
	DefaultIdle = 60 * time.Second
	DefaultMax  = 10 * time.Minute
)

// Request is one logical request. It must not be changed until its outcome.
type Request struct {
	Method string
	// Params is the JSON object of the parameters without _meta. Nil is none.
	Params json.RawMessage
	// Meta holds further members of the parameters' _meta; those of the
	// connection and the progress token are added to it. Nil is none.
	Meta mcp.Meta
	// Name repeats params.name, params.uri or params.taskId for the transport.
	Name string
	// Headers are the parameters that the transport mirrors.
	Headers []mcp.Header
	// Idle ends the call after so long without an answer or progress, Max after
	// so long at all. Zero means DefaultIdle and DefaultMax, negative means no
	// limit.
	Idle, Max time.Duration
	// OnProgress asks the peer for progress and takes it, on the goroutine that waits, or
	// with a completion on one of the system's, in order. At most 64 reports wait for it;
	// of more the oldest are dropped.
	OnProgress func(Progress)
	// Safe says that the request may be carried out twice, so that it is sent
	// again if the connection was lost before the answer came.
	Safe bool
	// Early sends the request as soon as there is a transport, before both sides
	// have agreed on a version. Such a request never waits for a connection.
	Early bool
	// ResultTypes are the values of resultType that are understood beside complete
	// and input_required, because their extension was declared.
	ResultTypes []string
	// Before, if set, is called once, when there is a connection for the first attempt and
	// nothing of the request is written yet: the attempt is written after proceed(nil). An
	// error ends the call with that error, unsent. Proceed counts once, from any goroutine,
	// and may come before Before returns, which must not block. The limits of the call run
	// meanwhile.
	Before func(proceed func(error))
	// Follow, if set, looks at each answer before it becomes the outcome, and may
	// ask for another attempt. It runs in the call's actor: it must not block, and
	// a panic in it ends this call alone.
	Follow func(Answer) Step
	// Late, if set, gets the result of an attempt that was answered after the call
	// had ended; nothing else is done with such a one. In return the attempt is not
	// withdrawn with notifications/cancelled, which a request that asks for a task
	// must not be. It runs on a goroutine of the system.
	Late func(Result)
	// Tag is the caller's own: [Table.Out] gives it back, and the link sees it. The method
	// Ends(error) of a tag is called when its call fails, before others can see that the call
	// has ended: in the call's actor, while Table.Out still has the call. It must not block. A
	// call whose actor failed has an outcome without it. The method Ended() of a tag is called once each of its calls has
	// its outcome, on any goroutine; it must not block either.
	Tag any
}

// Progress is one report of how far a request has come.
type Progress struct {
	Progress float64
	Total    *float64 // nil when it is not known
	Message  string   // for people; cut off after 1 KiB
}

// Result is what a request was answered with.
type Result struct {
	Raw  json.RawMessage // an object; the receiver's to keep
	Type string          // its resultType; "" is complete
}

// timeouts returns the limits with their defaults; zero is none.
func (r *Request) timeouts() (idle, most time.Duration) {
	return limit(r.Idle, DefaultIdle), limit(r.Max, DefaultMax)
}

func limit(d, standard time.Duration) time.Duration {
	switch {
	case d == 0:
		return standard
	case d < 0:
		return 0
	}
	return d
}

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
	// Retry is the next attempt: the same method, with a new id.
	Retry *Retry
	// Wait does something that takes a while: a person is asked, a task is watched.
	// It must not block, and calls resume once, from any goroutine, with the next
	// step. Abort, which may be nil, is called instead when the call ends before:
	// resume then does nothing.
	Wait func(resume func(Step)) (abort func(cause error))
	// Clocks says that the call's maximum goes on while it waits; otherwise it stands
	// still, as it must while a person is asked. The limit without progress is an
	// attempt's, and does not run between attempts.
	Clocks bool
	// Token keeps the progress token of the attempt valid during Wait, as a task of
	// 2025-11-25 goes on with it.
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

// apply returns the request with what the retry puts in its place.
func (r *Retry) apply(req *Request) *Request {
	out := *req
	if r.Params != nil {
		out.Params = r.Params
	}
	if r.Meta != nil {
		out.Meta = r.Meta
	}
	if r.Headers != nil {
		out.Headers = r.Headers
	}
	if r.Method != "" {
		out.Method, out.Name = r.Method, r.Name
	}
	return &out
}
