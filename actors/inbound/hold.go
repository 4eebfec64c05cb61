package inbound

import "time"

// held is what a call knows of the times at which its deadline stood still. It is
// guarded by the call's mu.
type held struct {
	holds int
	since time.Time     // the first of them
	spent time.Duration // in those that are over
	fired bool          // the timer has, meanwhile: nothing sets it again but a message
}

// released is sent to the call's actor: the deadline is a later one now.
type released struct{ call *Call }

// Hold makes the deadline of the call stand still until release is called: a person
// is asked for its sake, and that is not the handler's time. Holds nest. Release
// may be called from any goroutine, and more than once.
func (c *Call) Hold() (release func()) {
	c.mu.Lock()
	h := &c.lazily().held
	if h.holds++; h.holds == 1 {
		h.since = time.Now()
	}
	c.mu.Unlock()
	over := false
	return func() {
		if c.release(h, &over) {
			c.actor.Ref().Send(&released{call: c})
		}
	}
}

// release ends a hold, unless it is over already, and reports whether the actor has to set its
// timer: else that is still set, to a time before the deadline.
func (c *Call) release(h *held, over *bool) (set bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *over {
		return false
	}
	*over = true
	if h.holds--; h.holds > 0 {
		return false
	}
	h.spent += time.Since(h.since)
	set, h.fired = h.fired, false
	return set
}

// Held returns how long the holds were that are over.
func (c *Call) Held() time.Duration {
	if c.extra.Load() == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lazily().held.spent
}

// due returns when the call must have its outcome, and whether that stands still now.
func (c *Call) due() (at time.Time, still bool) {
	at = c.begun.Add(c.request.Deadline)
	if c.extra.Load() == nil {
		return at, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dueOf(&c.lazily().held)
}

// fired is due for an actor whose timer has fired: when the deadline goes on again the actor
// gets a message.
func (c *Call) fired() (at time.Time, still bool) {
	if c.extra.Load() == nil {
		return c.due()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.lazily().held
	at, h.fired = c.dueOf(h)
	return at, h.fired
}

// dueOf is called with mu held.
func (c *Call) dueOf(h *held) (at time.Time, still bool) {
	at = c.begun.Add(c.request.Deadline + h.spent)
	if h.holds > 0 {
		at = at.Add(time.Since(h.since))
	}
	return at, h.holds > 0
}
