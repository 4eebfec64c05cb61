package call

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// trimAfter is how long an actor may be idle and unneeded.
const trimAfter = 5 * time.Second

// poolOwner is the table as its pool sees it.
type poolOwner Table

// Lock implements [sync.Locker].
func (o *poolOwner) Lock() { o.mu.Lock() }

// Unlock implements [sync.Locker].
func (o *poolOwner) Unlock() { o.mu.Unlock() }

// Worker implements [actors.PoolOwner].
func (o *poolOwner) Worker() (*actor, actors.Spec) {
	a := &actor{table: (*Table)(o)}
	return a, actors.Spec{Kind: actors.KindCall, Inline: true, New: func() actors.Actor { return a }}
}

// Rest implements [actors.PoolOwner]: the room of the index is that of the busiest moment.
func (o *poolOwner) Rest() {
	if len(o.byID) == 0 {
		o.byID = nil
	}
}

// Lost implements [actors.PoolOwner]: the call of an actor that failed or was stopped
// has its outcome.
func (o *poolOwner) Lost(a *actor, failure error) {
	t := (*Table)(o)
	t.mu.Lock()
	c := a.assigned
	if c == nil {
		t.mu.Unlock()
		return
	}
	end := t.detach(c)
	err := t.closed
	switch {
	case err != nil:
	case failure != nil:
		err = fmt.Errorf("%s: %w", c.req.Method, failure)
	case t.parentErr != nil:
		err = &LostError{Method: c.req.Method, Err: t.parentErr}
	default:
		err = fmt.Errorf("%s: the call was stopped: %w", c.req.Method, actors.ErrStopped)
	}
	t.mu.Unlock()
	t.settle(c, end, Result{}, err)
}

// launch begins a call whose actor was started, or refuses it for the reason why there is
// none. It is called under the lock, and what it returns without.
func (t *Table) launch(c *Call, free *actor, err error) (then func()) {
	switch {
	case err != nil && t.closed != nil:
		err = t.closed
	case err == nil && c.req.Early && !t.canSend(c.req): // the connection was lost meanwhile
		t.pool.Retire(free)
		err = &LostError{Method: c.req.Method, Unsent: true, Err: t.why}
	}
	if err != nil {
		drained := t.done()
		return func() {
			c.complete(Result{}, err)
			drained.Send(Drained{})
			if free != nil {
				free.Ref().Stop()
			}
		}
	}
	a := t.assign(c, free)
	return func() {
		c.begin = begin{call: c, sent: a.n > 0}
		a.ref.Send(&c.begin)
		t.told(c, a.ref)
		if a.n > 0 || a.before {
			t.writeSoon(a)
		} else {
			t.wanted()
		}
	}
}

// writeSoon has a task write an attempt: a parent does no I/O. The attempts of one task are
// written in order; a further task may write at the same time.
func (t *Table) writeSoon(a attempt) {
	t.mu.Lock()
	t.unwritten = append(t.unwritten, a)
	first, parent := len(t.unwritten) == 1, t.pool.Parent()
	t.mu.Unlock()
	if first {
		parent.Go(t.writeAll)
	}
}

func (t *Table) writeAll() {
	t.mu.Lock()
	all := t.unwritten
	t.unwritten = nil
	t.mu.Unlock()
	for _, a := range all {
		if a.before {
			t.prepare(a.call)
		} else {
			t.write(a)
		}
	}
}
