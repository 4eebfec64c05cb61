package inbound

import (
	"cmp"
	"context"
	"slices"
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
	// Trim is how long an idle actor is kept that nobody needs. Zero means 5 s.
	Trim time.Duration
	// Deadline bounds the time from acceptance to outcome of a request that does
	// not say otherwise. Zero means none.
	Deadline time.Duration
	// Context carries values to the handlers; its end is not watched. Nil means
	// context.Background().
	Context context.Context
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
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

// Drained is sent to the parent, after [Table.Drain], once no handler runs and
// every answer is written.
type Drained struct{}

// Messages to the parent.
type (
	// spawn asks for an actor for call.
	spawn struct {
		table *Table
		call  *Call
		reply actors.Reply[struct{}]
	}
	trim struct{ table *Table }
)

// Table knows the requests in flight of one connection and the actors that wait
// for the next ones. Its methods may be used from any goroutine, except where
// they say otherwise; nothing blocks under its lock.
type Table struct {
	opts   Options
	parent actors.Ref
	sys    *actors.System
	clock  *actors.Timer // the parent's: the next trim; nil before the first actor
	over   chan struct{} // closed by Close

	mu       sync.Mutex
	idle     []*callee        // the last to have worked on top
	unneeded int              // of idle: how many nobody has needed since the last trim
	ids      map[mcp.ID]*Call // nil before the first
	actors   []*callee        // all but those being started
	unsaid   int              // calls whose answer is not written yet
	live     int              // actors, and those being started
	flying   int              // actors that are lent
	drained  bool
	drain    bool
	closed   bool
}

// NewTable returns a table that takes requests once it is bound.
func NewTable(opts *Options) *Table {
	return &Table{opts: opts.withDefaults(), over: make(chan struct{})}
}

// Bind makes the actor that handles a message with c the parent of the table's
// actors. It is called once, from the parent's Receive, before any Begin.
func (t *Table) Bind(c *actors.Context) { t.BindTo(c.System(), c.Self()) }

// BindTo is [Table.Bind] outside of a Receive.
func (t *Table) BindTo(sys *actors.System, parent actors.Ref) { t.parent, t.sys = parent, sys }

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
	taken, err := t.take(c)
	if err != nil {
		return err
	}
	if !taken {
		if err := t.askForActor(c); err != nil {
			return err
		}
	}
	c.actor.self.Send(c)
	return nil
}

// take lends an idle actor to the call. False means that one is to be started.
func (t *Table) take(c *Call) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.drain || t.sys == nil {
		return false, ErrClosed
	}
	id := c.request.key()
	if _, used := t.ids[id]; used {
		return false, ErrDuplicateID
	}
	n := len(t.idle)
	if n == 0 && t.live >= t.opts.Limit {
		return false, ErrBusy
	}
	if !id.IsZero() {
		if t.ids == nil {
			t.ids = make(map[mcp.ID]*Call)
		}
		t.ids[id] = c
	}
	t.flying++
	t.unsaid++
	if n == 0 {
		t.live++
		return false, nil
	}
	a := t.idle[n-1]
	t.idle[n-1] = nil
	t.idle = t.idle[:n-1]
	t.unneeded = min(t.unneeded, n-1)
	lend(a, c)
	return true, nil
}

// lend is called under the lock.
func lend(a *callee, c *Call) {
	a.lent = c
	c.actor = a
}

// askForActor lets the parent start an actor, and waits for it.
func (t *Table) askForActor(c *Call) error {
	m := &spawn{table: t, call: c}
	t.parent.Send(m)
	timeout := time.NewTimer(spawnWait)
	defer timeout.Stop()
	select {
	case <-m.reply.Done():
	case <-t.over: // the parent will not see the message, or its next incarnation will
		m.reply.Complete(struct{}{}, ErrClosed)
	case <-t.parent.Stopped():
		m.reply.Complete(struct{}{}, ErrClosed)
	case <-timeout.C:
		m.reply.Complete(struct{}{}, ErrBusy)
	}
	_, err := m.reply.Result()
	if err != nil {
		t.forget(c)
	}
	return err
}

// forget takes back what take has counted for a call that gets no actor.
func (t *Table) forget(c *Call) {
	t.update(func() {
		t.unlist(c)
		t.live--
		t.flying--
		t.unsaid--
	})
}

// said counts off a call whose answer is written.
func (t *Table) said() { t.update(func() { t.unsaid-- }) }

// Receive handles the messages to the parent that are meant for the table, and
// reports whether msg was one. It is called from the parent's Receive.
func (t *Table) Receive(c *actors.Context, msg any) (handled bool) {
	switch m := msg.(type) {
	case *spawn:
		if m.table != t {
			return false
		}
		t.spawn(c, m)
	case trim:
		if m.table != t {
			return false
		}
		t.trim()
	case actors.ChildStopped: // the actor itself has told the table
		return m.Ref.Kind() == actors.KindInbound
	default:
		return false
	}
	return true
}

// spawn starts an actor for a call that waits for it.
func (t *Table) spawn(c *actors.Context, m *spawn) {
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	if closed {
		m.reply.Complete(struct{}{}, ErrClosed)
	}
	if m.reply.Completed() {
		return
	}
	a := &callee{table: t}
	ref, err := c.Spawn(actors.Spec{Kind: actors.KindInbound, Inline: true, New: func() actors.Actor { return a }})
	if err != nil {
		m.reply.Complete(struct{}{}, ErrClosed)
		return
	}
	t.mu.Lock()
	a.place = len(t.actors)
	t.actors = append(t.actors, a)
	lend(a, m.call)
	first := len(t.actors) == 1
	t.mu.Unlock()
	if t.clock == nil {
		t.clock = c.NewTimer(trim{t})
	}
	if first {
		t.clock.Set(t.opts.Trim)
	}
	if !m.reply.Complete(struct{}{}, nil) { // the caller has left, and taken its counts along
		t.update(func() {
			a.lent = nil
			t.remove(a)
		})
		ref.Stop()
	}
}

// trim stops the actors that nobody has needed since it last looked.
func (t *Table) trim() {
	t.mu.Lock()
	n := min(t.unneeded, len(t.idle))
	stop := slices.Clone(t.idle[:n])
	t.idle = slices.Delete(t.idle, 0, n)
	t.unneeded = len(t.idle)
	for _, a := range stop {
		t.strikeOut(a)
	}
	more := len(t.actors) > 0
	t.mu.Unlock()
	for _, a := range stop {
		a.self.Stop()
	}
	if more {
		t.clock.Set(t.opts.Trim)
	}
}

// ChildFailed completes the request of an actor that failed or stopped. It is
// called from the parent's ChildFailed, and does nothing for other children.
func (t *Table) ChildFailed(_ *actors.Context, child actors.Ref, err error) {
	t.mu.Lock()
	var failed *callee
	for _, a := range t.actors {
		if a.self == child {
			failed = a
		}
	}
	t.mu.Unlock()
	if failed != nil {
		t.strike(failed, err)
	}
}

// strike takes an actor out for good and completes the call it was lent to. It
// may come more than once, and from several goroutines.
func (t *Table) strike(a *callee, err error) {
	var c *Call
	t.update(func() { c = t.strikeOut(a) })
	if c != nil && c.settle(fromElsewhere, err) {
		t.sys.Go(t.parent.Path(), c.conclude)
	}
}

// strikeOut is called under the lock. It returns the call that was lost, if any.
func (t *Table) strikeOut(a *callee) *Call {
	if a.struck {
		return nil
	}
	t.live--
	t.remove(a)
	if i := slices.Index(t.idle, a); i >= 0 {
		t.idle = slices.Delete(t.idle, i, i+1)
	}
	c := a.lent
	if c != nil {
		a.lent = nil
		t.flying--
		t.unlist(c)
	}
	return c
}

// remove takes an actor out of the list of all. It is called under the lock.
func (t *Table) remove(a *callee) {
	last := len(t.actors) - 1
	t.actors[a.place] = t.actors[last]
	t.actors[a.place].place = a.place
	t.actors[last] = nil
	t.actors = t.actors[:last]
	a.struck = true
}

// putBack makes an actor idle and reports whether it is kept.
func (t *Table) putBack(a *callee) (keep bool) {
	t.update(func() {
		if a.struck {
			return
		}
		t.unlist(a.lent)
		a.lent = nil
		t.flying--
		if keep = len(t.idle) < t.opts.Idle && !t.drain; keep {
			t.idle = append(t.idle, a)
		} else {
			t.live--
			t.remove(a)
		}
	})
	return keep
}

// release lets the id be used again: its request is about to be answered.
func (t *Table) release(c *Call) {
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

// update changes the table, and tells the parent when the last request of a drain
// is over.
func (t *Table) update(change func()) {
	t.mu.Lock()
	change()
	tell := t.drain && !t.drained && t.flying == 0 && t.unsaid == 0
	t.drained = t.drained || tell
	t.mu.Unlock()
	if tell {
		t.parent.Send(Drained{})
	}
}

// Cancel ends the request with the id as the peer wishes, and reports whether
// there is one. An unknown id is nothing to worry about (CANC-06).
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
		c.settle(fromPeer, &CancelledError{Reason: reason})
	default:
		a.self.Send(&cancel{call: c, err: &CancelledError{Reason: reason}})
	}
	return true
}

// Drain takes no more requests, and sends [Drained] to the parent as soon as
// none is left.
func (t *Table) Drain() { t.update(func() { t.drain = true }) }

// Close takes no more requests and ends those in flight with a [ClosedError]
// that has the cause. Handlers are not waited for: the actor of a request stops when
// its handler has ended, the others stop at once. The parent calls it when it stops,
// or when what the requests came on is gone. The channel is closed once all of those
// are answered; it is nil if there were none.
func (t *Table) Close(cause error) (answered <-chan struct{}) {
	var lost []*Call
	t.mu.Lock()
	if !t.closed {
		close(t.over)
	}
	t.closed, t.drain, t.drained = true, true, true
	idle := t.idle
	t.idle = nil
	for len(t.actors) > 0 {
		if c := t.strikeOut(t.actors[len(t.actors)-1]); c != nil {
			lost = append(lost, c)
		}
	}
	t.mu.Unlock()
	for _, a := range idle {
		a.self.Stop()
	}
	if len(lost) == 0 {
		return nil
	}
	err := &ClosedError{Cause: cause}
	for _, c := range lost {
		c.settle(fromElsewhere, err)
	}
	all := make(chan struct{})
	t.sys.Go(t.parent.Path(), func() {
		defer close(all)
		for _, c := range lost {
			c.conclude()
		}
	})
	return all
}

// Stats counts what a table holds.
type Stats struct {
	Actors   int // idle, lent and being started
	Idle     int
	InFlight int // lent, and waiting for an actor
	IDs      int // that can be cancelled
}

// Stats counts what the table holds at this moment.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Actors: t.live, Idle: len(t.idle), InFlight: t.flying, IDs: len(t.ids)}
}
