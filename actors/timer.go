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
	deadline time.Duration // by the system's clock; 0 when it is clear
	rings    time.Duration // when the clock rings next; 0 when it is still
	// In the list of the incarnation's timers that are not still.
	next, prev *Timer
	place      int // in the clock's heap, from 1; 0 if it is not there; the clock's
	queued     atomic.Bool
}

// NewTimer returns a timer that is clear. It sends msg each time it is due.
func (c *Context) NewTimer(msg any) *Timer {
	t := new(Timer)
	t.Init(c, msg)
	return t
}

// Init makes a zero timer one of c's that is clear, as [Context.NewTimer] does: for one that is a part of its actor.
func (t *Timer) Init(c *Context, msg any) { t.c, t.msg = c, msg }

// After sends msg to the actor itself once, after d. Only the end of the
// incarnation takes it back; use NewTimer where more is needed.
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
	t.deadline = t.clock().at(deadline)
	if t.rings != 0 && t.rings <= t.deadline {
		return // rings in time, and will look again
	}
	if t.rings == 0 {
		t.link()
	}
	t.clock().set(t, t.deadline)
}

// Clear disarms the timer. Nothing it was set to arrives after that. A nil timer is clear.
func (t *Timer) Clear() {
	if t != nil {
		t.deadline = 0
	}
}

// End clears the timer and takes it off the clock, which keeps one that is only cleared until it would have
// rung. It may be set again. A nil timer has ended.
func (t *Timer) End() {
	if t != nil && t.rings != 0 {
		t.still()
	}
}

func (t *Timer) clock() *clock { return &t.c.System().clock }

// link puts the timer into its incarnation's list.
func (t *Timer) link() {
	t.next = t.c.times
	if t.next != nil {
		t.next.prev = t
	}
	t.c.times = t
}

// still takes the timer out of the list and off the clock: it is over, or its
// incarnation is.
func (t *Timer) still() {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		t.c.times = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
	t.deadline = 0
	t.clock().still(t)
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
	if t.rings == 0 {
		return nil
	}
	if t.clock().now() < t.deadline {
		t.clock().set(t, t.deadline)
		return nil
	}
	cleared := t.deadline == 0
	t.still() // it may ring again: set to earlier with the ring in the mailbox
	if cleared {
		return nil
	}
	return t.msg
}
