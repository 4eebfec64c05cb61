package inbound

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// Options changes how a table works; nil is the same as the zero value.
type Options struct {
	// Limit bounds the requests in flight, those with a hung handler included.
	// Zero means 1000.
	Limit int
	// Idle bounds the actors kept for the next requests. Zero means 64.
	Idle int
	// Trim is how long an idle actor is kept that is not needed. Zero means 5 s.
	Trim time.Duration
	// Deadline bounds the time from acceptance to outcome of a request that does
	// not say otherwise. Zero means none.
	Deadline time.Duration
	// Context carries values to the handlers; its end is not watched. Nil means
	// context.Background().
	Context context.Context
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.Limit = cmp.Or(d.Limit, 1000)
	d.Idle = cmp.Or(d.Idle, 64)
	d.Trim = cmp.Or(d.Trim, 5*time.Second)
	if d.Context == nil {
		d.Context = context.Background()
	}
	return d
}

// spawnWait bounds the wait for a parent that does not answer.
const spawnWait = 10 * time.Second

// Table knows the requests in flight of one connection, and has the actors that stand
// for them. Its methods may be used from any goroutine, except where they say otherwise;
// nothing blocks under its lock.
type Table struct {
	opts Options

	mu         sync.Mutex // guards what follows, for the goroutines of transports, handlers and actors alike
	pool       actors.Pool[*callee]
	ids        map[mcp.ID]*Call // nil while there are none
	unanswered int              // calls whose answer is not written yet
	drain      func()           // takes the end of the last request; nil before Drain
	drained    bool             // drain was called, or is not to be
	closed     bool
}

// NewTable returns a table that takes requests once it is bound.
func NewTable(opts *Options) *Table {
	t := &Table{opts: opts.withDefaults()}
	t.pool.Init((*poolOwner)(t), t.opts.Trim)
	return t
}

// Bind makes an actor the parent of the table's actors, before any Begin: when it starts,
// or later. It must not be an inline one.
func (t *Table) Bind(parent actors.Ref) { t.pool.Bind(parent) }

// Serve runs one request to its end on the goroutine of the caller: [Table.Begin]
// and [Call.Run]. An error means that the request was not accepted, and that the
// caller has to answer it.
func (t *Table) Serve(c *Call, h Handler, r Request) error {
	if err := t.Begin(c, h, r); err != nil {
		return err
	}
	c.Run()
	return nil
}

// Begin accepts a request: an actor stands for it from here on, and a later
// [Table.Cancel] finds it. The caller runs it with [Call.Run], on any goroutine.
// The error is [ErrDuplicateID], [ErrBusy] or [ErrClosed]; then nothing more
// happens to the call. Begin must not be called from a Receive.
func (t *Table) Begin(c *Call, h Handler, r Request) error {
	r.Deadline = cmp.Or(r.Deadline, t.opts.Deadline)
	c.handler, c.request, c.begun = h, r, time.Now()
	switch taken, err := t.take(c); {
	case err != nil:
		return err
	case !taken:
		if err := t.await(c); err != nil {
			return err
		}
	}
	c.actor.Ref().Send(c)
	return nil
}

// take assigns an idle actor to the call. False means that one is to be started.
func (t *Table) take(c *Call) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.drain != nil || t.pool.Parent().IsZero() {
		return false, ErrClosed
	}
	id := c.request.key()
	if _, used := t.ids[id]; used {
		return false, ErrDuplicateID
	}
	a := t.pool.Take()
	if a == nil && t.pool.Busy() >= t.opts.Limit {
		return false, ErrBusy
	}
	if !id.IsZero() {
		if t.ids == nil {
			t.ids = make(map[mcp.ID]*Call)
		}
		t.ids[id] = c
	}
	t.unanswered++
	if a == nil {
		return false, nil
	}
	a.assigned, c.actor = c, a
	return true, nil
}

// await waits until an actor was started for the call. The parent answers at once, unless
// it waits for its restart.
func (t *Table) await(c *Call) error {
	var started actors.Reply[struct{}]
	t.mu.Lock()
	t.pool.Await(func(a *callee, err error) (then func()) {
		if err != nil {
			return func() { started.Complete(struct{}{}, ErrClosed) }
		}
		a.assigned, c.actor = c, a
		return func() {
			if !started.Complete(struct{}{}, nil) { // the caller has left
				t.update(func() {
					a.assigned = nil
					t.pool.Retire(a)
				})
				a.Ref().Stop()
			}
		}
	})
	t.mu.Unlock()
	t.pool.Grow()
	ctx, cancel := context.WithTimeoutCause(context.Background(), spawnWait, ErrBusy)
	defer cancel()
	_, err := started.Wait(ctx)
	if err != nil && !started.Complete(struct{}{}, err) {
		_, err = started.Result() // it came at the last moment
	}
	if err != nil {
		t.update(func() {
			t.unlist(c)
			t.unanswered--
		})
	}
	return err
}

// answered counts off a call whose answer is written.
func (t *Table) answered() { t.update(func() { t.unanswered-- }) }

// putBack makes an actor idle and reports whether it is kept.
func (t *Table) putBack(a *callee) (kept bool) {
	t.update(func() {
		if a.Retired() {
			return
		}
		t.unlist(a.assigned)
		a.assigned = nil
		keep := t.opts.Idle
		if t.drain != nil {
			keep = 0
		}
		kept = t.pool.Put(a, keep)
	})
	return kept
}

// retire takes an actor out for good and completes the call that it is assigned to. It
// may come more than once, and from several goroutines.
func (t *Table) retire(a *callee, err error) {
	var c *Call
	t.update(func() {
		t.pool.Retire(a)
		c = t.unassign(a)
	})
	if c != nil && c.settle(fromElsewhere, err) {
		t.pool.Parent().Go(c.conclude)
	}
}

// unassign returns the call that an actor will not work on any more, nil if there is
// none. It is called under the lock.
func (t *Table) unassign(a *callee) *Call {
	c := a.assigned
	if c != nil {
		a.assigned = nil
		t.unlist(c)
	}
	return c
}

// freeID lets the id be used again: its request is about to be answered.
func (t *Table) freeID(c *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlist(c)
}

// unlist is called under the lock.
func (t *Table) unlist(c *Call) {
	if id := c.request.key(); t.ids[id] == c {
		delete(t.ids, id)
	}
}

// update changes the table, and ends a drain when its last request is over.
func (t *Table) update(change func()) {
	t.mu.Lock()
	change()
	over := t.drain != nil && !t.drained && t.pool.Busy() == 0 && t.unanswered == 0
	t.drained = t.drained || over
	t.mu.Unlock()
	if over {
		t.drain()
	}
}

// poolOwner is the table as its pool sees it.
type poolOwner Table

// Lock implements [sync.Locker].
func (o *poolOwner) Lock() { o.mu.Lock() }

// Unlock implements [sync.Locker].
func (o *poolOwner) Unlock() { o.mu.Unlock() }

// Worker implements [actors.PoolOwner].
func (o *poolOwner) Worker() (*callee, actors.Spec) {
	a := &callee{table: (*Table)(o)}
	return a, actors.Spec{Kind: actors.KindInbound, Inline: true, New: func() actors.Actor { return a }}
}

// Lost implements [actors.PoolOwner]: the request of an actor that failed or was stopped
// has its outcome.
func (o *poolOwner) Lost(a *callee, failure error) {
	if failure == nil {
		failure = actors.ErrStopped
	}
	(*Table)(o).retire(a, failure)
}

// Rest implements [actors.PoolOwner].
func (o *poolOwner) Rest() {}

// Cancel ends the request with the id as the peer wishes, and reports whether
// there is one. An unknown id is nothing to worry about.
func (t *Table) Cancel(id mcp.ID, reason string) bool {
	t.mu.Lock()
	c := t.ids[id]
	var a *callee
	if c != nil {
		a = c.actor
	}
	t.mu.Unlock()
	switch {
	case c == nil:
		return false
	case a == nil: // its actor is being started
		c.settle(fromPeer, &cancelledError{Reason: reason})
	default:
		a.Ref().Send(&cancel{call: c, err: &cancelledError{Reason: reason}})
	}
	return true
}

// Drain takes no more requests, and calls then as soon as no handler runs and every answer
// is written, on any goroutine, which it must not block. It is called once.
func (t *Table) Drain(then func()) { t.update(func() { t.drain = then }) }

// Close takes no more requests and ends those in flight with an
// error that is [ErrClosed] and wraps the cause. Handlers are not waited for: the actor of a request stops when
// its handler has ended, the others stop at once. The parent calls it when it stops,
// or when what the requests came on is gone. The channel is closed once all of those
// are answered; it is nil if there were none.
func (t *Table) Close(cause error) (answered <-chan struct{}) {
	var lost []*Call
	var idle []*callee
	t.mu.Lock()
	t.closed, t.drained = true, true
	for _, a := range t.pool.RetireAll() {
		if c := t.unassign(a); c != nil {
			lost = append(lost, c)
		} else {
			idle = append(idle, a)
		}
	}
	t.mu.Unlock()
	t.pool.Refuse(ErrClosed)
	for _, a := range idle {
		a.Ref().Stop()
	}
	if len(lost) == 0 {
		return nil
	}
	err := &closedError{Cause: cause}
	for _, c := range lost {
		c.settle(fromElsewhere, err)
	}
	all := make(chan struct{})
	t.pool.Parent().Go(func() {
		defer close(all)
		for _, c := range lost {
			c.conclude()
		}
	})
	return all
}

// Listed counts the requests in flight that can be cancelled by their ids.
func (t *Table) Listed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ids)
}
