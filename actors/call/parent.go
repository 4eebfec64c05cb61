package call

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Drained is sent to the parent after [Table.Drain], when the last call has its
// outcome.
type Drained struct{}

// Messages of a table to its parent.
type (
	spawnWanted struct{} // calls await actors
	flushWanted struct{} // calls wait although there is a connection
	trimWanted  struct{} // actors have become idle
	trimDue     struct{}
)

// trimAfter is how long an actor may be idle and unneeded.
const trimAfter = 5 * time.Second

// Receive handles what a table sends to its parent, the actor of the connection,
// which passes on every message it gets. It reports whether the message was the
// table's own.
func (t *Table) Receive(c *actors.Context, msg any) bool {
	switch m := msg.(type) {
	case actors.Started:
		t.mu.Lock()
		t.parent, t.parentErr = c.Self(), nil
		t.mu.Unlock()
		t.spawn(c)
		return false
	case actors.Stopping:
		t.mu.Lock()
		t.parentErr = m.Err
		t.mu.Unlock()
		return false
	case *spawnWanted:
		t.spawn(c)
	case *flushWanted:
		c.System().Go(c.Self().Path(), t.flush)
	case *trimWanted:
		c.After(trimAfter, trimDue{})
	case trimDue:
		if t.trim() {
			c.After(trimAfter, trimDue{})
		}
	default:
		return false
	}
	return true
}

// spawn makes an actor for each call that awaits one. A task writes their first
// attempts: a parent does no I/O.
func (t *Table) spawn(c *actors.Context) {
	t.mu.Lock()
	calls := t.starting
	t.starting = nil
	t.mu.Unlock()
	var out []attempt
	for i, call := range calls {
		s, err := t.newSlot(c)
		if err != nil {
			for _, call := range calls[i:] {
				t.refuse(call, err)
			}
			break
		}
		switch a, err := t.launchNew(call, s); {
		case err != nil:
			t.refuse(call, err)
			s.ref.Stop() // it has no call
		case a.n > 0, a.before:
			out = append(out, a)
		}
	}
	if len(out) > 0 {
		c.System().Go(c.Self().Path(), func() {
			for _, a := range out {
				if a.before {
					t.prepare(a.call)
				} else {
					t.write(a)
				}
			}
		})
	}
}

func (t *Table) newSlot(c *actors.Context) (*slot, error) {
	s := &slot{table: t}
	ref, err := c.Spawn(actors.Spec{Kind: actors.KindCall, Inline: true, New: s.newActor, OnStop: s.gone})
	t.mu.Lock()
	s.ref = ref
	t.mu.Unlock()
	return s, err
}

// launchNew lends a fresh actor to a call that awaited one. The error is why it
// can not: the actor was stopped already, or the connection was lost meanwhile and
// the call is not one that waits for the next.
func (t *Table) launchNew(c *Call, s *slot) (attempt, error) {
	t.mu.Lock()
	var err error
	switch {
	case s.dead:
		err = killed(c.req)
	case c.req.Early && !t.canSend(c.req):
		err = &LostError{Method: c.req.Method, Unsent: true, Err: t.why}
	}
	if err != nil {
		t.mu.Unlock()
		return attempt{}, err
	}
	a := t.assign(c, s)
	t.mu.Unlock()
	c.begin = begin{call: c, sent: a.n > 0}
	a.ref.Send(&c.begin)
	t.told(c, a.ref)
	if a.n == 0 && !a.before {
		t.wanted()
	}
	return a, nil
}

// killed is the outcome of a call whose actor was stopped from outside.
func killed(req *Request) error {
	return fmt.Errorf("%s: the call was stopped: %w", req.Method, actors.ErrStopped)
}

// refuse ends a call that got no actor.
func (t *Table) refuse(c *Call, err error) {
	t.mu.Lock()
	drained := t.done()
	t.mu.Unlock()
	c.complete(Result{}, err)
	drained.Send(Drained{})
}

// gone is called once for each actor that has stopped, whatever the reason: it
// answers for the call the actor was lent to.
func (s *slot) gone(failure error) {
	t := s.table
	t.mu.Lock()
	s.dead = true
	c := s.call
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
		err = killed(c.req)
	}
	t.mu.Unlock()
	t.settle(c, end, Result{}, err)
}

// trim stops the actors that nobody needed since it was last called, and reports
// whether there are more.
func (t *Table) trim() (more bool) {
	t.mu.Lock()
	n := min(t.unneeded, len(t.idle))
	old := append([]*slot(nil), t.idle[:n]...)
	t.idle = append(t.idle[:0:0], t.idle[n:]...)
	t.unneeded = len(t.idle)
	more = t.unneeded > 0
	t.trimming = more
	if !more && len(t.byID) == 0 {
		t.byID = nil // its room is that of the busiest moment
	}
	t.mu.Unlock()
	for _, s := range old {
		s.ref.Stop()
	}
	return more
}
