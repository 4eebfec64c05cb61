// callee.go: the actor that stands for one request at a time.
//
//	      begin              done
//	idle ───────▶ in flight ──────▶ idle
//	                  │ cancel, deadline    done
//	                  └──────────────────▶ settled ──────▶ idle
//
// It stops when it fails, when its parent stops, and when there are more idle
// ones than are needed. The outcome of the request it has then is that failure
// or stop.

package inbound

import (
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Messages. The first is the *Call itself. It and done are parts of the Call,
// which is fresh for each request: in the actor they would be queued again before
// the last one was read. The others name the call they are for, by which a late
// one is recognised.
type (
	done struct {
		//lint:ignore U1000 its method links the message into the mailbox
		node
		err error
	}
	cancel struct {
		call *Call
		err  *cancelledError
	}
	deadline struct{}
	paceTick struct{}
)

// callee is the actor. What is its own is touched in Receive only.
type callee struct {
	actors.Worker
	table *Table

	call    *Call         // nil when idle
	timer   *actors.Timer // the deadline; nil until a request has one
	pacer   *actors.Timer // when held progress may go; nil until there is some
	settled bool          // call has its outcome, its handler still runs
	pacing  bool          // pacer is set

	assigned *Call // the call it was taken for, until it is put back; the table's lock guards it
}

// Receive implements [actors.Actor].
func (a *callee) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *Call:
		a.begin(c, m)
	case *done:
		if a.call != nil && m == &a.call.done {
			a.end(m.err)
		}
	case *cancel:
		if a.inFlight(m.call) {
			a.settle(fromPeer, m.err)
		}
	case *report:
		if a.inFlight(m.call) {
			a.take(c, m)
		}
	case deadline:
		a.deadline()
	case *released:
		if a.inFlight(m.call) {
			at, _ := m.call.due()
			a.timer.SetAt(at)
		}
	case paceTick:
		a.paced(c)
	}
}

// inFlight reports whether a message about call still matters.
func (a *callee) inFlight(call *Call) bool { return a.call == call && !a.settled }

func (a *callee) begin(c *actors.Context, call *Call) {
	a.call, a.settled = call, false
	if at, ok := call.Deadline(); ok {
		if a.timer == nil {
			a.timer = c.NewTimer(deadline{})
		}
		a.timer.SetAt(at)
	}
}

// deadline ends the call, unless its clock stands still or has: then it is set again.
func (a *callee) deadline() {
	if a.call == nil || a.settled {
		return
	}
	switch at, still := a.call.fired(); {
	case still: // a message comes when it goes on
	case time.Now().Before(at):
		a.timer.SetAt(at)
	default:
		a.settle(fromElsewhere, &deadlineError{At: at})
	}
}

// settle gives the call an outcome while its handler runs. A task writes the
// answer: the handler's goroutine may hang.
func (a *callee) settle(by origin, err error) {
	a.settled = true
	a.table.freeID(a.call)
	if a.call.settle(by, err) {
		a.Ref().Go(a.call.conclude)
	}
}

// end makes the actor idle: the handler has ended. A panic of it is raised
// again, for supervision to see.
func (a *callee) end(err error) {
	call := a.call
	if a.timer != nil {
		a.timer.Clear()
	}
	if p, ok := err.(*actors.PanicError); ok {
		a.table.retire(a, p)
		panic(p)
	}
	call.postHeld()
	a.call = nil
	// The id is free before the peer can have seen the answer. Once it is in the
	// list the actor may be taken, but its next message waits for this one.
	keep := a.table.putBack(a)
	call.settle(fromHandler, err)
	if !keep {
		a.Ref().Stop()
	}
}
