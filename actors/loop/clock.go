package loop

import (
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// hold is a message from a call: a run that it has started waits for a human, or does
// not any more.
type hold struct {
	call *call
	n    int // 1 or -1
}

// Hold stops the clock of the run's wall time while the run that this call has
// started waits for a human (TIME-05), until the function that it returns is called,
// once or more often, or the call returns.
func (c *Call) Hold() (release func()) {
	if c.call == nil {
		return func() {}
	}
	c.run.Send(hold{c.call, 1})
	var once sync.Once
	return func() { once.Do(func() { c.run.Send(hold{c.call, -1}) }) }
}

func (r *run) hold(m hold) {
	cl := m.call
	if r.out != nil || cl.turn != r.turn || cl.phase != sent || cl.held+m.n < 0 {
		return
	}
	if m.n > 0 {
		r.stopClock()
	}
	cl.held += m.n
	r.held += m.n
	if m.n < 0 {
		r.startClock()
	}
}

// letGo ends what a call that has returned still holds.
func (r *run) letGo(cl *call) {
	if cl.held > 0 {
		r.held -= cl.held
		cl.held = 0
		r.startClock()
	}
}

// stopClock makes the wall time stand still, before somebody is waited for.
func (r *run) stopClock() {
	if len(r.asks) == 0 && r.held == 0 {
		r.wallLeft = time.Until(r.wallEnds)
		r.wall.Clear()
	}
}

// startClock lets it go on once nobody is.
func (r *run) startClock() {
	if len(r.asks) == 0 && r.held == 0 && r.out == nil {
		r.wallEnds = time.Now().Add(r.wallLeft)
		r.wall.SetAt(r.wallEnds)
	}
}

// outcomes are the events of a call that has returned: what it has come to, and what
// follows from that.
func (r *run) outcomes(c *actors.Context, m *toolReturned) []runlog.Entry {
	out := []runlog.Entry{r.outcomeOf(c, m)}
	out = append(out, m.guards.Entries(m.call.key)...)
	if !m.call.made { // it has brought nothing
		return out
	}
	return append(out, r.taint(m.call)...)
}

// timer makes a timer that is seldom needed when it first is.
func timer(c *actors.Context, t *actors.Timer, msg any) *actors.Timer {
	if t == nil {
		t = c.NewTimer(msg)
	}
	return t
}

// startGrace begins the time that calls have to end in.
func (r *run) startGrace(c *actors.Context) {
	r.grace = timer(c, r.grace, graceOver{})
	r.grace.Set(r.cfg.Grace)
}
