package call

import (
	"fmt"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
)

// wait is one Wait of a call. Its address is its identity.
type wait struct {
	clocks bool
	token  bool        // progress is still taken
	called atomic.Bool // resume was
	result Result      // the answer before it
	err    error
	abort  func(error)
}

// answer takes the answer of an attempt: the call's outcome, unless its Follow
// has something else in mind.
func (a *actor) answer(c *actors.Context, result Result, err error) {
	follow := a.call.req.Follow
	if follow == nil {
		a.finish(c, result, err)
		return
	}
	a.state = between
	a.step(c, follow(Answer{Attempt: int(a.attempt), Result: result, Err: err, Left: a.left()}), result, err)
}

// step does what Follow wants after an answer.
func (a *actor) step(c *actors.Context, s Step, result Result, err error) {
	switch {
	case s.Retry != nil && s.Retry.After > 0:
		a.pauseFor(c, s.Retry)
	case s.Retry != nil:
		a.again(c, s.Retry)
	case s.Wait != nil:
		a.waitFor(c, s, &wait{clocks: s.Clocks, token: s.Token, result: result, err: err})
	case s.Outcome != nil:
		a.finish(c, s.Outcome.Result, s.Outcome.Err)
	default:
		a.finish(c, result, err)
	}
}

// tooMany ends a call that has no end.
func (a *actor) tooMany(c *actors.Context) {
	a.finish(c, Result{}, fmt.Errorf("%s: %w", a.call.req.Method, ErrTooManyAttempts))
}

// pauseFor waits before another attempt.
func (a *actor) pauseFor(c *actors.Context, r *Retry) {
	if err := a.table.setAside(a.call); err != nil {
		a.finish(c, Result{}, err)
		return
	}
	a.call.more.next, a.call.more.pause = r, a.table.now()+r.After
	a.look(c)
}

// goOn is the end of a pause: of one that was asked for, or of the one after which
// a parked request may use the connection on which it has failed.
func (a *actor) goOn(c *actors.Context) {
	x := a.call.more
	next := x.next
	x.next, x.pause = nil, 0
	if next != nil {
		a.again(c, next)
		return
	}
	a.table.lift(a.call)
	a.look(c)
}

// again lets the call wait for its turn to be sent, which comes at once if there
// is a connection.
func (a *actor) again(c *actors.Context, r *Retry) {
	if a.attempt >= maxAttempts {
		a.tooMany(c)
		return
	}
	a.state = waiting
	a.fresh()
	if err := a.table.again(a.call, r); err != nil {
		a.finish(c, Result{}, err)
		return
	}
	a.look(c)
}

// waitFor begins a Wait. A panic in it fails the actor, and so ends the call.
func (a *actor) waitFor(c *actors.Context, s Step, w *wait) {
	if a.waits++; a.waits > maxAttempts {
		a.tooMany(c)
		return
	}
	if err := a.table.setAside(a.call); err != nil {
		a.finish(c, Result{}, err)
		return
	}
	a.call.more.wait = w
	if s.Token {
		a.table.keepToken(a.call)
	}
	a.look(c)
	self := a.Ref()
	w.abort = s.Wait(func(s Step) {
		if w.called.CompareAndSwap(false, true) {
			self.Send(&resumed{wait: w, step: s})
		}
	})
}

// resumed ends a Wait.
func (a *actor) resumed(c *actors.Context, m *resumed) {
	a.call.more.wait = nil
	a.look(c)
	a.step(c, m.step, m.wait.result, m.wait.err)
}

// keepsToken reports whether the call waits, and its peer may still tell of progress.
func (a *actor) keepsToken(c *Call) bool {
	return c == a.call && a.state == between && c.more != nil && c.more.wait != nil && c.more.wait.token
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

// setAside keeps a call that is between two attempts. The error is why it is
// not kept.
func (t *Table) setAside(c *Call) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return t.closed
	}
	c.needMore()
	t.unlist(c)
	t.aside.push(c)
	return nil
}

// unlist says that the call awaits no answer. It is called under the lock. Most
// often the call was taken out with its answer; not if it could not be written.
func (t *Table) unlist(c *Call) {
	if c.id != 0 {
		delete(t.byID, c.id)
		c.id = 0
	}
}

// moreOf returns the call's more.
func (t *Table) moreOf(c *Call) *more {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.needMore()
}

// needMore is called under the lock, by the call's actor.
func (c *Call) needMore() *more {
	if c.more == nil {
		c.more = new(more)
	}
	return c.more
}

// again lets a call wait to be sent with what r says.
func (t *Table) again(c *Call, r *Retry) error {
	t.mu.Lock()
	now := t.canSend(c.req)
	var err error
	switch {
	case t.closed != nil:
		err = t.closed
	case c.req.Early && !now:
		err = &LostError{Method: c.req.Method, Err: t.why}
	default:
		c.needMore()
		t.unlist(c)
		c.more.retry, c.more.notOn, c.follows = r, 0, true
		t.waiting.push(c)
	}
	t.mu.Unlock()
	switch {
	case err != nil:
	case now:
		t.flushSoon()
	default:
		t.wanted()
	}
	return err
}

// lift lets a parked call use the connection on which it has failed.
func (t *Table) lift(c *Call) {
	t.mu.Lock()
	c.more.notOn = 0
	now := t.canSend(c.req)
	t.mu.Unlock()
	if now {
		t.flushSoon()
	}
}

// aborted tells a Wait that its call has ended.
func (t *Table) aborted(c *Call, abort func(error), cause error) {
	_, err := actors.Guard(func() (struct{}, error) { abort(cause); return struct{}{}, nil })
	if err != nil {
		t.sys.Log().Error("the end of a call's wait panicked", "method", c.req.Method, "error", err)
	}
}
