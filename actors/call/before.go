package call

import (
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
)

// prepares sets a call aside whose Before comes first, and reports whether it does. It is
// called under the lock, for a call that could be sent now.
func (t *Table) prepares(c *Call) bool {
	if c.req.Before == nil || c.prepared {
		return false
	}
	c.prepared = true
	t.aside.push(c)
	return true
}

// prepare calls Before. A panic in it ends the call.
func (t *Table) prepare(c *Call) {
	var called atomic.Bool
	proceed := func(err error) {
		if called.CompareAndSwap(false, true) {
			t.proceed(c, err)
		}
	}
	if _, err := actors.Guard(func() (struct{}, error) { c.req.Before(proceed); return struct{}{}, nil }); err != nil {
		proceed(err)
	}
}

// proceed sends a prepared call, if it has not ended, on whatever connection there is.
func (t *Table) proceed(c *Call, err error) {
	if err != nil {
		c.Cancel(err)
		return
	}
	t.mu.Lock()
	if c.actor == nil { // it has ended
		t.mu.Unlock()
		return
	}
	t.waiting.push(c)
	now := t.canSend(c.req)
	t.mu.Unlock()
	if now {
		t.flushSoon()
	} else {
		t.wanted()
	}
}
