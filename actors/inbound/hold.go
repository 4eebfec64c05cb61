package inbound

import (
	"sync"
	"time"
)

// held is what a call knows of the times at which its deadline stood still. It is
// guarded by the call's mu.
type held struct {
	holds int
	since time.Time     // the first of them
	spent time.Duration // in those that are over
}

// released is sent to the call's actor: the deadline is a later one now.
type released struct{ call *Call }

// Hold makes the deadline of the call stand still until release is called: a person
// is asked for its sake, and that is not the handler's time. Holds nest. Release
// may be called from any goroutine, and more than once.
func (c *Call) Hold() (release func()) {
	if c.request.Deadline <= 0 {
		return func() {}
	}
	c.mu.Lock()
	h := &c.lazily().held
	if h.holds++; h.holds == 1 {
		h.since = time.Now()
	}
	c.mu.Unlock()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		if h.holds--; h.holds == 0 {
			h.spent += time.Since(h.since)
		}
		c.mu.Unlock()
		c.actor.Ref().Send(&released{call: c})
	})
}

// due returns when the call must have its outcome, and whether that stands still now.
func (c *Call) due() (at time.Time, still bool) {
	at = c.begun.Add(c.request.Deadline)
	if c.extra.Load() == nil {
		return at, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.lazily().held
	at = at.Add(h.spent)
	if h.holds > 0 {
		at = at.Add(time.Since(h.since))
	}
	return at, h.holds > 0
}
