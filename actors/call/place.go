// place.go: where a call stands in its table while it awaits no answer, and its moves
// between these places; and what is kept for calls that are held or have ended.

package call

import (
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// queue is a list of calls that do not await an answer, the oldest first. A call is
// in one queue at most.
type queue struct {
	first, last *Call
	n           int
}

func (q *queue) push(c *Call) {
	c.leave()
	c.prev, c.next, c.in = q.last, nil, q
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
	q.n++
}

// leave takes the call out of the queue it is in, if any.
func (c *Call) leave() {
	q := c.in
	if q == nil {
		return
	}
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next, c.in = nil, nil, nil
	q.n--
}

// unlist says that the call awaits no answer. It is called under the lock. Most
// often the call was taken out with its answer; not if it could not be written.
func (c *Call) unlist() {
	if c.id != 0 {
		delete(c.table.byID, c.id)
		c.id = 0
	}
}

// park lets the call wait for the connection that comes after generation gen. It
// reports false if there will be none.
func (c *Call) park(gen uint64) bool {
	t := c.table
	t.mu.Lock()
	if t.closed != nil {
		t.mu.Unlock()
		return false
	}
	delete(t.byID, c.id)
	c.id, c.needMore().notOn = 0, gen
	t.waiting.push(c)
	late := t.ready && t.gen > gen // that connection is there already
	t.mu.Unlock()
	if late {
		t.flushSoon()
	} else {
		t.want()
	}
	return true
}

// setAside keeps the call, which is between two attempts. The error is why it is
// not kept.
func (c *Call) setAside() error {
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return t.closed
	}
	c.needMore()
	c.unlist()
	t.aside.push(c)
	return nil
}

// again lets the call wait to be sent with what r says.
func (c *Call) again(r *Retry) error {
	t := c.table
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
		c.unlist()
		c.more.retry, c.more.notOn, c.follows = r, 0, true
		t.waiting.push(c)
	}
	t.mu.Unlock()
	switch {
	case err != nil:
	case now:
		t.flushSoon()
	default:
		t.want()
	}
	return err
}

// lift lets a parked call use the connection on which it has failed.
func (c *Call) lift() {
	t := c.table
	t.mu.Lock()
	c.more.notOn = 0
	now := t.canSend(c.req)
	t.mu.Unlock()
	if now {
		t.flushSoon()
	}
}

// prepares sets the call aside whose Before comes first, and reports whether it does. It is
// called under the lock, for a call that could be sent now.
func (c *Call) prepares() bool {
	if c.req.Before == nil || c.prepared {
		return false
	}
	c.prepared = true
	c.table.aside.push(c)
	return true
}

// prepare calls Before. A panic in it ends the call.
func (c *Call) prepare() {
	var called atomic.Bool
	proceed := func(err error) {
		if called.CompareAndSwap(false, true) {
			c.proceed(err)
		}
	}
	if _, err := actors.Guard(func() (struct{}, error) { c.req.Before(proceed); return struct{}{}, nil }); err != nil {
		proceed(err)
	}
}

// proceed sends a prepared call, if it has not ended, on whatever connection there is.
func (c *Call) proceed(err error) {
	if err != nil {
		c.Cancel(err)
		return
	}
	t := c.table
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
		t.want()
	}
}

// told notes that a call's actor knows of it now, which hears what it has missed: the
// call may have been given up before, or the connection that it waits for be there.
func (c *Call) told(ref actors.Ref) {
	t := c.table
	t.mu.Lock()
	c.begun = true
	cancelled, waits := c.giveUp, c.in == &t.waiting
	now := waits && t.canSend(c.req)
	t.mu.Unlock()
	if cancelled != nil {
		ref.Send(cancelled)
	}
	switch {
	case now:
		t.flushSoon()
	case waits:
		t.want()
	}
}

// keepToken lets progress with the token of the call's newest attempt reach it
// (PROG-06).
func (c *Call) keepToken() {
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.actor == nil || c.token == 0 {
		return
	}
	if t.tokens == nil {
		t.tokens = make(map[int64]*Call)
	}
	t.tokens[c.token] = c
}

// maxLate bounds the calls whose late answers are still wanted.
const maxLate = 1000

// lateAnswers are the functions that take results of calls that have ended, by the ids of
// the attempts. The table's lock guards it.
type lateAnswers map[int64]func(Result)

// expect keeps the function of a call that has ended and awaits an answer.
func (l *lateAnswers) expect(c *Call) {
	if c.req.Late == nil || len(*l) >= maxLate {
		return
	}
	if *l == nil {
		*l = make(lateAnswers)
	}
	(*l)[c.id] = c.req.Late
}

// take returns the function for a message, nil if there is none.
func (l lateAnswers) take(id mcp.ID) func(Result) {
	n, ok := id.Int64()
	if !ok {
		return nil
	}
	f := l[n]
	delete(l, n)
	return f
}

// passLate calls a function with a result that comes too late.
func passLate(sys *actors.System, f func(Result), r Result, err error) {
	if f != nil && err == nil {
		sys.Go("a late answer", func() { f(r) })
	}
}

// hold keeps the clocks of some calls still. It is guarded by the table's lock.
type hold struct {
	gen   uint64
	calls map[*Call]struct{}
	older *hold // in the list of the table
}

// add holds the call. Its actor looks when the call begins or goes on; one that
// works on the call already is to be told.
func (h *hold) add(c *Call) {
	if _, has := h.calls[c]; !has {
		h.calls[c] = struct{}{}
		c.holds.Add(1)
	}
}

func (h *hold) remove(c *Call) {
	if _, has := h.calls[c]; has {
		delete(h.calls, c)
		c.holds.Add(-1)
	}
}
