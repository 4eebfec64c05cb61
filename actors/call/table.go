package call

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// Options changes how a table works; nil is the same as the zero value.
type Options struct {
	// Limit bounds the pending calls, MaxWaiting those of them that wait for a
	// connection. Zero means 4096 and 1024. Beyond them calls end with [ErrBusy].
	Limit, MaxWaiting int
	// MaxIdle bounds the idle actors that are kept for the next calls; all are
	// stopped when they have not been needed for some seconds. Zero means 64.
	MaxIdle int
	// Wanted, if set, is called when a call begins to wait for a connection. It
	// must not block.
	Wanted func()
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Limit = cmp.Or(d.Limit, 4096)
	d.MaxWaiting = cmp.Or(d.MaxWaiting, 1024)
	d.MaxIdle = cmp.Or(d.MaxIdle, 64)
	return d
}

// Table holds the calls of one connection. Its methods may be used from any
// goroutine, but not from the Receive of one of its own calls.
type Table struct {
	sys   *actors.System
	opts  Options
	epoch time.Time // its clock starts here
	stats counters

	current atomic.Uint64 // the generation that has a link; 0 without one

	mu sync.Mutex // guards what follows; nothing is sent under it, and no goroutine waits

	pool      actors.Pool[*actor]
	parentErr error // what the connection's actor failed with; nil while it works

	pending   int                    // calls that have no outcome yet
	byID      map[int64]*Call        // those that await an answer; nil while nothing goes on
	waiting   queue                  // those that await a connection
	aside     queue                  // those between two attempts
	open      []*hold                // of all calls that are out
	tokens    map[int64]*Call        // of calls that wait and still take progress; nil at first
	unwritten []attempt              // first ones of calls whose actors have just been started
	late      map[int64]func(Result) // what to do with answers to calls that have ended; nil at first
	lastID    int64

	link     mcp.Link // nil without a connection
	gen      uint64   // of the transport
	ready    bool     // calls may go out; before, early ones only
	version  mcp.Version
	members  []byte // of the _meta of every request
	why      error  // there is no connection
	draining bool
	closed   error // why no calls are taken any more
}

type counters struct{ late, oddProgress, resent atomic.Int64 }

// Stats counts what a table has seen.
type Stats struct {
	Pending         int   // calls without an outcome
	Waiting         int   // of them, those that wait for a connection
	Late            int64 // answers that no call waited for (BASE-15)
	DroppedProgress int64 // progress that was not increasing, or for an unknown token
	Resent          int64 // attempts after the first
}

// NewTable returns a table without a connection.
func NewTable(sys *actors.System, opts *Options) *Table {
	t := &Table{sys: sys, opts: opts.withDefaults(), epoch: time.Now()}
	t.pool.Init((*poolOwner)(t), trimAfter)
	return t
}

// Bind makes an actor the parent of the calls' actors: that of the connection, when it
// starts or later, and again when it starts anew. It must not be an inline one. Calls
// that were made before begin now.
func (t *Table) Bind(parent actors.Ref) {
	t.mu.Lock()
	t.parentErr = nil
	t.mu.Unlock()
	t.pool.Bind(parent)
}

// Unbind says that the parent stops because of err, nil for no failure.
func (t *Table) Unbind(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parentErr = err
}

// Stats returns the counters.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{
		Pending: t.pending, Waiting: t.waiting.n,
		Late: t.stats.late.Load(), DroppedProgress: t.stats.oddProgress.Load(), Resent: t.stats.resent.Load(),
	}
}

func (t *Table) now() time.Duration { return time.Since(t.epoch) }

// Start begins a request and returns its handle. Done, if not nil, is called once with the
// outcome, on a goroutine of the system, and so is OnProgress, before it: this is what actors
// use. A panic in OnProgress ends the call and is its error, an [*actors.PanicError]. A call
// that is refused has its outcome when Start returns.
func (t *Table) Start(req *Request, done func(Result, error)) *Call {
	return t.startUntil(context.Background(), req, done)
}

// Go is [Table.Start] with a context: when that ends the call is cancelled, and the error is
// the cause of ctx. Thousands may be under way, none of which holds a goroutine. The request
// is the table's from now on.
func (t *Table) Go(ctx context.Context, req *Request, done func(Result, error)) {
	t.startUntil(ctx, req, done)
}

// Do carries out a request and waits for its outcome. When ctx ends the call is
// cancelled, and the error is the cause of ctx.
func (t *Table) Do(ctx context.Context, req *Request) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	o := &struct { // one object, with a copy: the caller's request stays on its stack
		Call
		request Request
	}{Call: Call{table: t, progress: newProgressQueue(req)}, request: *req}
	o.req = &o.request
	t.start(&o.Call)
	return o.Wait(ctx)
}

func (t *Table) startUntil(ctx context.Context, req *Request, done func(Result, error)) *Call {
	if done == nil {
		c := &Call{table: t, req: req}
		t.start(c)
		return c
	}
	o := &struct {
		Call
		then completion
	}{Call: Call{table: t, req: req}, then: completion{done: done}}
	c := &o.Call
	c.completion = &o.then
	if req.OnProgress != nil {
		c.progress = new(progressQueue)
	}
	if ctx.Done() != nil {
		o.then.leave = actors.AfterDone(ctx, func() { c.Cancel(context.Cause(ctx)) })
	}
	if ctx.Err() != nil {
		c.complete(Result{}, context.Cause(ctx))
		return c
	}
	t.start(c)
	return c
}

// start accepts a call and gives it to an actor, or refuses it.
func (t *Table) start(c *Call) {
	t.mu.Lock()
	if err := t.refusal(c.req); err != nil {
		t.mu.Unlock()
		c.complete(Result{}, err)
		return
	}
	t.pending++
	free := t.pool.Take()
	if free == nil {
		t.pool.Await(func(free *actor, err error) func() { return t.launch(c, free, err) })
		t.mu.Unlock()
		t.pool.Grow()
		return
	}
	a := t.assign(c, free)
	c.begun = c.completion == nil // no context can have cancelled it yet
	t.mu.Unlock()
	c.begin = begin{call: c, sent: a.n > 0}
	a.ref.Send(&c.begin)
	if c.completion != nil {
		t.told(c, a.ref)
	}
	switch {
	case a.before:
		t.prepare(c)
	case a.n > 0:
		t.write(a)
	default:
		t.wanted()
	}
}

// told notes that a call's actor knows of it now, which hears what it has missed: the
// call may have been given up before.
func (t *Table) told(c *Call, ref actors.Ref) {
	t.mu.Lock()
	c.begun = true
	cancelled := c.giveUp
	t.mu.Unlock()
	if cancelled != nil {
		ref.Send(cancelled)
	}
}

// wanted says that a call waits for a connection.
func (t *Table) wanted() {
	if t.opts.Wanted != nil {
		t.opts.Wanted()
	}
}

// refusal is why a call is not accepted, or nil.
func (t *Table) refusal(req *Request) error {
	switch {
	case t.closed != nil:
		return t.closed
	case t.draining:
		return ErrClosed
	case t.pending >= t.opts.Limit:
		return ErrBusy
	case t.canSend(req):
		return nil
	case req.Early:
		return &LostError{Method: req.Method, Unsent: true, Err: t.why}
	case t.waiting.n >= t.opts.MaxWaiting:
		return ErrBusy
	}
	return nil
}

func (t *Table) canSend(req *Request) bool { return t.link != nil && (t.ready || req.Early) }

// attempt is what is needed to write one attempt of a call. The actor is told
// of it before, so that the answer is not handled first.
type attempt struct {
	call    *Call
	ref     actors.Ref
	n       int32 // 0: the call waits for a connection
	id      int64
	gen     uint64
	link    mcp.Link
	members []byte
	retry   *Retry
	follows bool
	before  bool // the request's Before comes first
}

// assign has the actor work on the call and gives the call an id, or lets it wait.
func (t *Table) assign(c *Call, free *actor) attempt {
	free.assigned, c.actor = c, free
	switch {
	case !t.canSend(c.req):
		t.waiting.push(c)
	case t.prepares(c):
		return attempt{call: c, ref: free.Ref(), before: true}
	default:
		return t.nextAttempt(c)
	}
	return attempt{call: c, ref: free.Ref()}
}

// nextAttempt gives the call an id that no call has had (BASE-04).
func (t *Table) nextAttempt(c *Call) attempt {
	t.lastID++
	c.attempt++
	c.id = t.lastID
	c.wire.Store(wireState(c.attempt, unwritten))
	if t.byID == nil {
		t.byID = make(map[int64]*Call)
	}
	t.byID[c.id] = c
	if c.token != 0 {
		delete(t.tokens, c.token)
	}
	c.token = c.id
	for _, h := range t.open {
		if h.gen == t.gen {
			h.add(c)
		}
	}
	a := attempt{
		call: c, ref: c.actor.Ref(), n: c.attempt, id: c.id, gen: t.gen, link: t.link, members: t.members, follows: c.follows,
	}
	if c.more != nil {
		a.retry = c.more.retry
	}
	c.follows = false
	return a
}

// write hands one attempt to the transport, unless it was withdrawn meanwhile.
func (t *Table) write(a attempt) {
	c := a.call
	if !c.claim(a.n) {
		return
	}
	id, req := mcp.IntID(a.id), c.req
	if a.retry != nil {
		req = a.retry.apply(req)
	}
	var token mcp.ProgressToken
	if c.progress != nil {
		token = id // unique as the id is (PROG-01), and another for each attempt (MRTR-16)
	}
	b := borrow()
	defer giveBack(b)
	frame, err := appendRequest((*b)[:0], id, req, a.members, token)
	*b = frame
	if err != nil {
		a.ref.Send(&response{call: c, attempt: a.n, err: err})
		return
	}
	err = a.link.Send(mcp.Outgoing{
		Frame: frame, Kind: mcp.KindRequest, ID: id, Method: req.Method, Name: req.Name, Headers: req.Headers, Tag: req.Tag,
	})
	if err != nil {
		c.wire.CompareAndSwap(wireState(a.n, writing), wireState(a.n, unwritten))
		a.ref.Send(&connectionLost{call: c, attempt: a.n, gen: a.gen, err: err})
	} else if !c.wrote(a.n) {
		t.sys.Go("cancelling a call", func() { sendCancelled(a.link, id, "cancelled", req.Tag) })
	} else if t.current.Load() != a.gen {
		// Lost may have told the actor before it knew of this attempt.
		a.ref.Send(&connectionLost{call: c, attempt: a.n, gen: a.gen, err: t.whyNone()})
	}
}

// cancel sends the call's cancel message, or ends a call that has no actor yet.
func (t *Table) cancel(m *cancel) {
	c := m.call
	t.mu.Lock()
	var ref actors.Ref
	if c.begun && c.actor != nil {
		ref = c.actor.Ref()
	}
	c.giveUp = m // its actor is told once it knows of the call
	t.mu.Unlock()
	ref.Send(m)
}

// park lets a call wait for the connection that comes after generation gen. It
// reports false if there will be none.
func (t *Table) park(c *Call, gen uint64) bool {
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
		t.wanted()
	}
	return true
}

// finish settles the call of an actor and makes the actor idle again. It reports
// false if the actor is not to be kept.
func (t *Table) finish(c *Call, a *actor, result Result, err error) (kept bool) {
	t.mu.Lock()
	end := t.detach(c)
	if !a.Retired() && t.closed == nil {
		kept = t.pool.Put(a, t.opts.MaxIdle)
	}
	t.mu.Unlock()
	t.settle(c, end, result, err)
	return kept
}

// ending is what is left to do for a call that was taken out of the table.
type ending struct {
	again   bool     // it was out already
	id      int64    // it awaited an answer to this
	attempt int32    //
	link    mcp.Link // that the newest attempt may have gone out on
	wait    *wait    // that it was in
	drained actors.Ref
}

// detach takes a call out of the table.
func (t *Table) detach(c *Call) ending {
	if c.actor == nil {
		return ending{again: true}
	}
	end := ending{id: c.id, attempt: c.attempt, link: t.link}
	if c.more != nil {
		end.wait = c.more.wait
	}
	c.actor.assigned, c.actor = nil, nil
	if c.id != 0 {
		delete(t.byID, c.id)
		t.expectLate(c)
		c.id = 0
	}
	delete(t.tokens, c.token)
	c.leave()
	for _, h := range t.open {
		h.remove(c)
	}
	end.drained = t.done()
	return end
}

// done counts a call less, and returns who is to hear that it was the last one.
func (t *Table) done() (drained actors.Ref) {
	if t.pending--; t.pending == 0 && t.draining {
		return t.pool.Parent()
	}
	return actors.Ref{}
}

// settle gives a call its outcome, and takes it back from the peer if that still
// works on it.
func (t *Table) settle(c *Call, end ending, result Result, err error) {
	if end.again {
		return
	}
	if c.req.Late != nil {
		t.unsentLate(c, end)
	} else if end.id != 0 && end.link != nil && !c.withdraw(end.attempt) {
		// Not on this goroutine: it may be a clock's or the one that reads.
		id, link, why := mcp.IntID(end.id), end.link, reason(err)
		t.sys.Go("cancelling a call", func() { sendCancelled(link, id, why, c.req.Tag) })
	}
	if end.wait != nil && end.wait.abort != nil {
		t.aborted(c, end.wait.abort, err)
	}
	c.complete(result, err)
	end.drained.Send(Drained{})
}

func sendCancelled(link mcp.Link, id mcp.ID, why string, tag any) {
	b := borrow()
	defer giveBack(b)
	*b = appendCancelled((*b)[:0], id, why)
	// A link that does not take it is as good as lost: the peer will notice.
	_ = link.Send(mcp.Outgoing{Frame: *b, Kind: mcp.KindNotification, Method: mcp.NotificationCancelled, Cancels: id, Tag: tag})
}
