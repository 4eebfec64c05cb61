package call

import (
	"encoding/json"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// Default limits of a call (TIME-04).
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
	// Name repeats params.name, params.uri or params.taskId for the transport (HDR-03).
	Name string
	// Headers are the parameters that the transport mirrors (HDR-20).
	Headers []mcp.Header
	// Idle ends the call after so long without an answer or progress, Max after
	// so long at all (TIME-01, TIME-03). Zero means DefaultIdle and DefaultMax,
	// negative means no limit.
	Idle, Max time.Duration
	// OnProgress asks the peer for progress and takes it (PROG-01), on the
	// goroutine that waits, or with a completion on one of the system's, in order. At most
	// 64 reports wait for it; of more the oldest are dropped.
	OnProgress func(Progress)
	// Safe says that the request may be carried out twice, so that it is sent
	// again if the connection was lost before the answer came.
	Safe bool
	// Early sends the request as soon as there is a transport, before both sides
	// have agreed on a version. Such a request never waits for a connection.
	Early bool
	// ResultTypes are the values of resultType that are understood beside complete
	// and input_required, because their extension was declared (BASE-12).
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
	// must not be (CANC-05). It runs on a goroutine of the system.
	Late func(Result)
	// Tag is the caller's own: [Table.Out] gives it back, and the link sees it.
	Tag any
}

// Progress is one report of how far a request has come (PROG-02).
type Progress struct {
	Progress float64
	Total    *float64 // nil when it is not known
	Message  string   // for people; cut off after 1 KiB
}

// Result is what a request was answered with.
type Result struct {
	Raw  json.RawMessage // an object; the receiver's to keep
	Type string          // its resultType; "" is complete (BASE-11)
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
