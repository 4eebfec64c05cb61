// actor.go: the actor that stands for an invocation whose client was asked.
//
//	             asked                 retried
//	working ─────────────▶ parked ─────────────▶ working
//	   │ returned            │ expired, abandoned
//	   ▼                     ▼
//	  over                 over
//
// While the handler works, requests attach and leave; a task takes their place by
// detach. The actor ends with the invocation. If it fails before, or is stopped, the
// requests that wait get that as their outcome, and the handler's context ends.

package invocation

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Messages.
type (
	// attach lets the same retry wait for the outcome too.
	attach struct {
		request Request
		reply   *actors.Reply[bool]
	}
	// left says that a request does not wait any more.
	left struct {
		request Request
		cause   error
	}
	// question ends a round: the handler asks, and waits in answers unless that is nil.
	question struct {
		round   *Round
		answers *actors.Reply[Answers]
		reply   *actors.Reply[asked]
	}
	// retried brings the answers.
	retried struct {
		request Request
		retry   *Retry
		answers Answers
		reply   *actors.Reply[bool]
	}
	// detach ends a round: the sender concludes those who wait with the outcome, and to, if
	// it is not nil, waits instead.
	detach struct {
		outcome Outcome
		to      Request
		reply   *actors.Reply[[]Request]
	}
	// abandon ends a handler that is parked.
	abandon struct{ cause error }
	// expired is abandon by the clock.
	expired struct{}
	// returned ends the invocation.
	returned struct{ reply *actors.Reply[Ending] }
)

// asked is what comes of a question: the requests to be concluded, none if it came too late,
// and the handlers that had to make room.
type asked struct {
	waiting []Request
	evicted []*Invocation
}

// actor is touched in its Receive only, and by stopped.
type actor struct {
	invocation *Invocation
	call       string                 // its id; empty before the first question
	waiting    []Request              // for the outcome of the round; none while it is parked
	answers    *actors.Reply[Answers] // what the handler waits for; nil while it works
	round      int                    // in which it is parked
	expiry     *actors.Timer          // nil before it was parked
	over       bool
}

// Receive implements [actors.Actor].
func (a *actor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *attach:
		m.reply.Complete(a.attach(m.request), nil)
	case *left:
		a.left(m)
	case *question:
		m.reply.Complete(a.ask(c, m), nil)
	case *retried:
		m.reply.Complete(a.resume(c, m), nil)
	case *detach:
		m.reply.Complete(a.detach(m), nil)
	case *abandon:
		a.abandon(c, m.cause)
	case expired:
		a.abandon(c, a.calls().opts.Abandoned)
	case *returned:
		a.end(c, m)
	}
}

func (a *actor) calls() *Calls { return a.invocation.calls }

// attach reports whether there will be an outcome to wait for.
func (a *actor) attach(r Request) bool {
	if !a.open() {
		return false
	}
	a.waiting = append(a.waiting, r)
	a.invocation.newest.Store(&r)
	return true
}

func (a *actor) left(m *left) {
	i := slices.Index(a.waiting, m.request)
	if i < 0 {
		return // it is concluded already, or is being
	}
	a.waiting = slices.Delete(a.waiting, i, i+1)
	if m.request != a.invocation.first {
		a.calls().opts.Go(m.request.Release)
	}
	if len(a.waiting) == 0 {
		a.invocation.End(m.cause)
	} else if a.invocation.Current() == m.request {
		last := a.waiting[len(a.waiting)-1]
		a.invocation.newest.Store(&last)
	}
}

// open reports whether a round can end: requests wait, and the handler is not to end.
func (a *actor) open() bool { return len(a.waiting) > 0 && a.invocation.Cause() == nil }

// take returns the requests that wait, for the sender of a message to conclude.
func (a *actor) take() []Request {
	waiting := a.waiting
	a.waiting = nil
	if slices.Contains(waiting, a.invocation.first) {
		a.invocation.taken.Store(true)
	}
	return waiting
}

func (a *actor) ask(c *actors.Context, m *question) asked {
	if !a.open() {
		return asked{}
	}
	a.call = m.round.Call
	evicted := a.calls().asked(a.invocation, m.round)
	if m.answers != nil {
		a.answers, a.round = m.answers, m.round.Round
		if a.expiry == nil {
			a.expiry = c.NewTimer(expired{})
		}
		wait := a.calls().opts.ParkFor
		if until := m.round.Expiry; !until.IsZero() { // the token's end
			wait = min(wait, max(time.Until(until), 0))
		}
		a.expiry.Set(wait)
	}
	return asked{a.take(), evicted}
}

// resume reports false if the handler is not parked for the retry any more.
func (a *actor) resume(c *actors.Context, m *retried) bool {
	if a.answers == nil || a.round != m.retry.Round {
		return false
	}
	if cause := a.invocation.Cause(); cause != nil {
		a.abandon(c, cause)
		return false
	}
	if !a.calls().use(a.invocation, m.retry) {
		return false
	}
	a.expiry.Clear()
	a.waiting = append(a.waiting, m.request)
	a.invocation.newest.Store(&m.request)
	a.answers.Complete(m.answers, nil)
	a.answers = nil
	return true
}

func (a *actor) detach(m *detach) []Request {
	if !a.open() {
		return nil
	}
	if m.to == nil {
		return a.take()
	}
	a.calls().note(a.call, a.invocation, m.outcome)
	waiting := a.take()
	a.waiting = []Request{m.to}
	a.invocation.newest.Store(&m.to)
	return waiting
}

// abandon ends a parked handler by its context: it is never left to run on.
func (a *actor) abandon(c *actors.Context, cause error) {
	if a.answers == nil {
		return
	}
	a.over = true
	a.leave(cause)
	c.Stop()
}

// leave gives a parked handler the cause in place of answers.
func (a *actor) leave(cause error) {
	a.invocation.End(cause)
	if a.answers != nil {
		a.calls().left(a.call, a.invocation)
		a.answers.Complete(nil, cause)
		a.answers = nil
	}
}

func (a *actor) end(c *actors.Context, m *returned) {
	e := Ending{Others: a.waiting, call: a.call, cancelled: a.invocation.Cause() != nil}
	a.over, a.waiting = true, nil
	a.leave(a.calls().opts.Finished) // another goroutine of the handler may still ask
	m.reply.Complete(e, nil)
	c.Stop()
}

// stopped answers for an actor that did not come to its end.
func (a *actor) stopped(err error) {
	if a.over {
		return
	}
	if err == nil {
		err = actors.ErrStopped
	}
	a.over = true
	waiting, cause := a.take(), err
	if a.answers != nil {
		cause = fmt.Errorf("%w: %w", a.calls().opts.Abandoned, err)
	}
	a.leave(cause)
	if len(waiting) > 0 {
		a.calls().opts.Go(func() {
			for _, r := range waiting {
				r.Conclude(Outcome{Err: err})
			}
		})
	}
}
