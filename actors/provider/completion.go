package provider

import (
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/llm"
)

// completion is the actor of one request: it decides what becomes of it.
//
//	          granted               attemptEnded: a retry helps
//	waiting ───────────▶ streaming ─────────────────────────────▶ pausing
//	   │ ▲                  │                                       │ │
//	   │ └──────────────────┼───────────── retryDue ────────────────┘ │
//	   │ refused            │ attemptEnded: whole, or failed for good │
//	   │ (pausing, too)     ▼                                         │
//	   └──── cancelled ─▶ over ◀────────── cancelled, left ───────────┘
//
// It is run inline. The goroutine that ranges over the stream does what it says: see
// ticket.
type completion struct {
	t       *ticket
	timer   *actors.Timer // nil until the first retry
	policy  *llm.Backoff  // nil likewise
	attempt int           // the number of the newest
	last    error         // what it failed with
}

// Messages.
type (
	granted struct { // it may go out
		actors.Node
		probe bool
	}
	refused struct { // the circuit is open
		actors.Node
		after time.Duration
		err   error // what the provider's last failure was
	}
	attemptEnded struct { // by itself
		actors.Node
		err      error
		panicked bool // the model has, with err
		passed   bool // something of it has reached the reader
		restarts bool // the reader can do with a beginning anew
	}
	retryDue  struct{}
	cancelled struct{ actors.Node } // its context has ended
	left      struct{ actors.Node } // its reader has
)

// Receive implements [actors.Actor].
func (a *completion) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *granted:
		a.attempt++
		a.t.decide(decision{kind: proceed, probe: m.probe})
	case *refused:
		a.refused(c, m)
	case *attemptEnded:
		a.attemptEnded(c, m)
	case retryDue:
		a.t.parent.Send(&want{a.t})
	case *cancelled, *left:
		c.Stop()
	}
}

func (a *completion) attemptEnded(c *actors.Context, m *attemptEnded) {
	if m.panicked {
		panic(m.err) // supervision's business, not an error path of its own
	}
	if s := a.t.provider.owes(a.t); s != nil {
		s.ref.Send(&ended{a.t, judge(m.err)}) // before its reader hears of it, who may come again
	}
	a.last = m.err
	wait, again := time.Duration(0), false
	if m.err != nil && (!m.passed || m.restarts) {
		wait, again = a.next(m.err)
	}
	if !again {
		a.over(c, m.err)
		return
	}
	a.pause(c, wait, m.err, m.passed)
}

// refused waits for the circuit as for a server that says when to come back, unless
// another provider can take the request.
func (a *completion) refused(c *actors.Context, m *refused) {
	e := a.t.provider.wrap(a.t.model, ErrCircuitOpen)
	if m.err != nil {
		e.Message = "the last failure was: " + m.err.Error()
	}
	e.Retryable, e.RetryAfter = true, m.after
	a.attempt++
	wait, again := a.next(e)
	if !again || a.t.observer().Fallback {
		if a.last != nil {
			e.Message = "its own failure was: " + a.last.Error()
		}
		a.over(c, e)
		return
	}
	a.pause(c, wait, e, false)
}

// next asks the policy whether another attempt follows.
func (a *completion) next(err error) (time.Duration, bool) {
	if a.policy == nil {
		a.policy = a.t.provider.opts.Retry.Backoff()
	}
	return a.policy.Next(&a.t.ctx, a.attempt, err)
}

func (a *completion) pause(c *actors.Context, wait time.Duration, err error, restart bool) {
	if a.timer == nil {
		a.timer = c.NewTimer(retryDue{})
	}
	a.timer.Set(wait)
	a.t.decide(decision{kind: retry, restart: restart, told: llm.Attempt{
		Model: a.t.model.Name(), Number: a.attempt, Err: err, Wait: wait}})
}

// over tells the reader, who waits for it unless all went well.
func (a *completion) over(c *actors.Context, err error) {
	if err != nil {
		a.t.decide(decision{kind: over, err: err})
	}
	c.Stop()
}
