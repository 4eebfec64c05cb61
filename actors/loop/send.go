// send.go: a call of a server is recorded as dispatched when it is about to be sent, not
// when it begins to wait for that.

package loop

import (
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// ErrNotDispatched ends a call that was not sent because its run has ended.
var ErrNotDispatched = errors.New("not called: the run has ended")

// Messages from the goroutines of calls.
type (
	dispatchWanted struct {
		call    *call
		proceed func(error)
	}
	waitsFor struct {
		call *call
		what string
	}
)

// Dispatch is for a tool that says so, see [Tool].Dispatches: the call is about to be sent.
// It may be once proceed was called with nil, on the run's goroutine: tool.dispatched is
// durable then. With an error it must not be. Proceed must not block; it is not called if
// the context of the call ends before.
func (c *Call) Dispatch(proceed func(error)) {
	if c.call == nil {
		proceed(nil)
		return
	}
	c.run.Send(dispatchWanted{c.call, proceed})
}

// WaitsFor says what the call waits for before it can be sent, and with "" that it does not
// any more. The run's wall time stands still meanwhile: as a rule somebody else's question
// is what is waited for.
func (c *Call) WaitsFor(what string) {
	if c.call != nil {
		c.run.Send(waitsFor{c.call, what})
	}
}

// dispatchOf is the event that says that a call is being made.
func (cl *call) dispatchOf() runlog.Entry {
	return runlog.Entry{Type: store.ToolDispatched, Key: cl.key, Body: &runlog.ToolDispatched{Turn: cl.turn.n, CallID: cl.id, Run: cl.child()}}
}

// dispatchCall lets a call be sent once that is recorded.
func (r *run) dispatchCall(c *actors.Context, m dispatchWanted) {
	cl := m.call
	if r.out != nil || cl.turn != r.turn || cl.phase != sent || cl.dispatched {
		m.proceed(ErrNotDispatched)
		return
	}
	cl.dispatched = true
	r.write(c, func(*actors.Context) {
		if r.out != nil || cl.phase != sent {
			m.proceed(ErrNotDispatched)
			return
		}
		cl.goes = true
		r.pay(cl, true)
		m.proceed(nil)
	}, cl.dispatchOf())
}

// waitFor notes what a call waits for.
func (r *run) waitFor(c *actors.Context, m waitsFor) {
	cl := m.call
	if r.out != nil || cl.turn != r.turn || cl.phase != sent || cl.dispatched || (cl.waits == "") == (m.what == "") {
		return
	}
	cl.waits = m.what
	if m.what == "" {
		r.hold(hold{cl, -1})
		return
	}
	r.hold(hold{cl, 1})
	c.Log().Info("a call waits", "run", r.cfg.ID, "tool", cl.name, "for", m.what)
	r.write(c, nil, runlog.Entry{Type: runlog.ToolWaitingType, Key: cl.key, Body: &runlog.ToolWaiting{
		Turn: cl.turn.n, CallID: cl.id, Tool: cl.name, Server: cl.server(), For: clip.Short(m.what)}})
}

// unsent reports whether a call that was begun was surely not sent.
func (cl *call) unsent() bool { return cl.tool.Dispatches && !cl.goes }

// pay charges a call if it is made, and gives back its room if it is not; once.
func (r *run) pay(cl *call, made bool) {
	switch {
	case cl.hold == nil:
	case made:
		r.spend.made(cl.hold)
	default:
		cl.hold.Release()
	}
	cl.hold = nil
}

// abandon gives a call that has not returned in time its result.
func (r *run) abandon(cl *call, reason string) runlog.Entry {
	if !cl.unsent() {
		return r.lose(cl, reason)
	}
	r.pay(cl, false)
	return r.settle(cl, mcp.ErrorResult("not called: %s", clip.Short(reason)), false)
}
