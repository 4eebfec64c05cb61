package call

import (
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// actor works on one call at a time.
//
//	      begin, sent                 response, cancel, deadline,
//	idle ─────────────▶ in flight ──── connection lost ────────▶ idle
//	  │ begin,            ▲    │ connection lost, and
//	  │ no connection     │    │ safe or not yet written
//	  └────────────▶ waiting ◀─┘
//	                      │ resend: in flight, with a new id
//	                      └ cancel, deadline ──────────────────▶ idle
//
// It is run inline: it decides, and whoever sent to it does the writing.
type actor struct {
	slot  *slot
	timer *actors.Timer

	call    *Call // nil when idle
	attempt int32 // 0 while it was never sent
	waiting bool  // for a connection

	start, last time.Duration // of the call; of its newest sign of life, by the table's clock
	idle, most  time.Duration // its limits, 0 for none
	reached     float64       // the newest progress
	reported    bool          // there was one
}

// Messages. Those about an attempt are dropped when another has begun.
type (
	begin struct {
		actors.Node
		call *Call
		sent bool // it has an id and is about to be written, as its first attempt
	}
	cancel struct {
		actors.Node
		call  *Call
		cause error
	}
	response struct {
		actors.Node
		call    *Call
		attempt int32
		result  Result
		err     error
	}
	progressReceived struct {
		actors.Node
		call    *Call
		attempt int32
		Progress
	}
	connectionLost struct { // also: could not be written
		actors.Node
		call    *Call
		attempt int32
		gen     uint64
		err     error
	}
	resend struct {
		actors.Node
		call    *Call
		attempt int32
	}
	unavailable struct { // there will be no connection soon
		actors.Node
		call *Call
		err  error
	}
	deadline struct{}
)

// Receive implements [actors.Actor].
func (a *actor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *begin:
		a.begin(c, m)
	case *response:
		if a.inFlight(m.call, m.attempt) {
			a.finish(c, m.result, m.err)
		}
	case *progressReceived:
		if a.inFlight(m.call, m.attempt) {
			a.progress(m.Progress)
		}
	case *cancel:
		if m.call == a.call {
			a.finish(c, Result{}, m.cause)
		}
	case *connectionLost:
		if a.inFlight(m.call, m.attempt) {
			a.lost(c, m)
		}
	case *resend:
		if m.call == a.call && a.waiting {
			a.waiting, a.attempt, a.last, a.reported = false, m.attempt, a.slot.table.now(), false
		}
	case *unavailable:
		if m.call == a.call && a.waiting {
			a.finish(c, Result{}, &LostError{Method: a.call.req.Method, Unsent: a.attempt == 0, Err: m.err})
		}
	case deadline:
		a.deadline(c)
	}
}

func (a *actor) inFlight(call *Call, attempt int32) bool {
	return call == a.call && !a.waiting && attempt == a.attempt
}

func (a *actor) begin(c *actors.Context, m *begin) {
	a.call, a.waiting, a.attempt, a.reported = m.call, !m.sent, 0, false
	if m.sent {
		a.attempt = 1
	}
	a.idle, a.most = m.call.req.timeouts()
	if a.idle == 0 && a.most == 0 {
		return
	}
	a.start = a.slot.table.now()
	a.last = a.start
	if a.timer == nil {
		a.timer = c.NewTimer(deadline{})
	}
	due, _ := a.due()
	a.timer.SetAt(a.slot.table.epoch.Add(due))
}

// due returns when the call has had enough time, and whether for want of progress.
func (a *actor) due() (at time.Duration, idle bool) {
	if a.most > 0 {
		at = a.start + a.most
	}
	if quiet := a.last + a.idle; a.idle > 0 && (a.most == 0 || quiet < at) {
		return quiet, true
	}
	return at, false
}

// deadline looks whether the time is up. Progress has not touched the timer: it
// is here that a later deadline is noticed (TIME-03).
func (a *actor) deadline(c *actors.Context) {
	if a.call == nil {
		return
	}
	at, idle := a.due()
	if a.slot.table.now() < at {
		a.timer.SetAt(a.slot.table.epoch.Add(at))
		return
	}
	err := &TimeoutError{Method: a.call.req.Method, After: a.most, Idle: idle, Unsent: a.waiting && a.attempt == 0}
	if idle {
		err.After = a.idle
	}
	if a.waiting {
		err.Err = a.slot.table.whyNone()
	}
	a.finish(c, Result{}, err)
}

// progress is a sign of life if it has grown (PROG-08).
func (a *actor) progress(p Progress) {
	if a.reported && !(p.Progress > a.reached) {
		a.slot.table.stats.oddProgress.Add(1)
		return
	}
	a.reported, a.reached = true, p.Progress
	if a.idle > 0 {
		a.last = a.slot.table.now()
	}
	a.call.progress.push(p)
}

// lost decides whether the call waits for the next connection.
func (a *actor) lost(c *actors.Context, m *connectionLost) {
	unsent := a.call.unsent(a.attempt)
	again := (unsent || a.call.req.Safe) && !a.call.req.Early && a.attempt < maxAttempts
	switch {
	case errors.Is(m.err, ErrBusy), errors.Is(m.err, ErrTooLong): // no other connection follows
		a.finish(c, Result{}, m.err)
	case again && a.slot.table.park(a.call, m.gen):
		a.waiting = true
	default:
		a.finish(c, Result{}, &LostError{Method: a.call.req.Method, Unsent: unsent, Err: m.err})
	}
}

// finish gives the outcome and is the only way back to idle. Its last act makes
// the actor available to another call.
func (a *actor) finish(c *actors.Context, result Result, err error) {
	call := a.call
	a.call, a.waiting = nil, false
	if a.timer != nil {
		a.timer.Clear()
	}
	if !a.slot.table.finish(call, a.slot, result, err) {
		c.Stop()
	}
}
