package actors

import (
	"sync/atomic"
	"time"
)

// Timer sends a message to its actor when its time has come. It belongs to one
// incarnation: it ends with it, and only its actor may call its methods. Setting
// it again is cheap: a later deadline does not touch the clock, which looks again
// when it rings early.
type Timer struct {
	Node
	c        *Context
	msg      any
	clock    *time.Timer
	deadline time.Time // zero when it is clear
	rings    time.Time // when clock rings next; zero when it is still
	queued   atomic.Bool
	// In the list of the incarnation's timers whose clock runs.
	next, prev *Timer
}

// NewTimer returns a timer that is clear. It sends msg each time it is due.
func (c *Context) NewTimer(msg any) *Timer { return &Timer{c: c, msg: msg} }

// After sends msg to the actor itself once, after d. It can not be taken back
// but by the end of the incarnation; where that is needed, use NewTimer.
func (c *Context) After(d time.Duration, msg any) {
	c.NewTimer(msg).Set(d)
}

// Set arms the timer to be due after d, in place of what it was set to.
func (t *Timer) Set(d time.Duration) { t.SetAt(time.Now().Add(d)) }

// SetAt arms the timer to be due at deadline.
func (t *Timer) SetAt(deadline time.Time) {
	if t.c.over {
		return
	}
	t.deadline = deadline
	if !t.rings.IsZero() && !t.rings.After(deadline) {
		return // rings in time, and will look again
	}
	if t.rings.IsZero() {
		t.link()
	}
	t.rings = deadline
	wait := time.Until(deadline)
	if t.clock == nil {
		t.clock = time.AfterFunc(wait, t.ring)
	} else {
		t.clock.Reset(wait)
	}
}

// Clear disarms the timer. Nothing it was set to arrives after that. A nil timer is clear.
func (t *Timer) Clear() {
	if t != nil {
		t.deadline = time.Time{}
	}
}

// link puts the timer into its incarnation's list.
func (t *Timer) link() {
	t.next = t.c.times
	if t.next != nil {
		t.next.prev = t
	}
	t.c.times = t
}

// unlink takes it out.
func (t *Timer) unlink() {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		t.c.times = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
}

// still stops the clock, at the end of the incarnation.
func (t *Timer) still() {
	t.unlink()
	t.rings, t.deadline = time.Time{}, time.Time{}
	t.clock.Stop()
}

// ring runs on the clock's goroutine.
func (t *Timer) ring() {
	if t.queued.CompareAndSwap(false, true) {
		t.c.self.Send(t)
	}
}

// due says what to deliver now that the timer has rung: nothing if it was
// cleared, set to later, or belongs to an earlier incarnation (it is still then).
func (t *Timer) due() any {
	t.queued.Store(false)
	if t.rings.IsZero() {
		return nil
	}
	now := time.Now()
	if now.Before(t.deadline) {
		t.rings = t.deadline
		t.clock.Reset(t.deadline.Sub(now))
		return nil
	}
	if now.Before(t.rings) {
		t.clock.Stop() // it was set to earlier with the ring in the mailbox
	}
	t.unlink()
	t.rings = time.Time{}
	if t.deadline.IsZero() {
		t.clock = nil // it has been clear for a while: an idle actor needs no clock
		return nil
	}
	t.deadline = time.Time{}
	return t.msg
}
