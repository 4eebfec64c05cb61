package call

import (
	"cmp"
	"context"
	"fmt"
	"math"
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
	d := *cmp.Or(o, new(Options))
	d.Limit = cmp.Or(d.Limit, 4096)
	d.MaxWaiting = cmp.Or(d.MaxWaiting, 1024)
	d.MaxIdle = cmp.Or(d.MaxIdle, 64)
	return d
}

// Table holds the calls of one connection. Its methods may be used from any
// goroutine, but not from the Receive of one of its own calls.
type Table struct {
	sys    *actors.System
	wanted func() // see [Options]; may be nil
	stats  counters

	current atomic.Uint64 // the generation that has a link; 0 without one

	mu sync.Mutex // guards what follows; nothing is sent under it, and no goroutine waits

	backlog *[]attempt // the first of calls whose actors have just been started; nil without any

	limit, maxWaiting, maxIdle int32 // see [Options]

	ready bool // calls may go out; before, early ones only

	pool      actors.Pool[*actor]
	parentErr error // what the connection's actor failed with; nil while it works

	pending int             // calls that have no outcome yet
	byID    map[int64]*Call // those that await an answer; nil while nothing goes on
	waiting queue           // those that await a connection
	aside   queue           // those between two attempts
	open    *hold           // the newest of all calls that are out; nil without any
	tokens  map[int64]*Call // of calls that wait and still take progress; nil at first
	late    lateAnswers     // of calls that have ended; nil at first
	lastID  int64

	link    mcp.Link // nil without a connection
	gen     uint64   // of the transport
	version mcp.Version
	members []byte // of the _meta of every request
	why     error  // there is no connection
	drained func() // takes the end of the last call; nil before Drain
	closed  error  // why no calls are taken any more

	assigned func() // of tests: a call has its actor, which does not know of it yet
}

type counters struct{ late, oddProgress, resent atomic.Int64 }

// Stats counts what a table has seen.
type Stats struct {
	Pending         int   // calls without an outcome
	Waiting         int   // of them, those that wait for a connection
	Late            int64 // answers that no call waited for
	DroppedProgress int64 // progress that was not increasing, or for an unknown token
	Resent          int64 // attempts after the first
}

// NewTable returns a table without a connection.
func NewTable(sys *actors.System, opts *Options) *Table {
	o := opts.withDefaults()
	t := &Table{sys: sys, wanted: o.Wanted, limit: most(o.Limit), maxWaiting: most(o.MaxWaiting), maxIdle: most(o.MaxIdle)}
	t.pool.Init((*poolOwner)(t), trimAfter)
	return t
}

func most(n int) int32 { return int32(min(n, math.MaxInt32)) }

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

// now is by the clock of the table, which starts with the system.
func (t *Table) now() time.Duration { return time.Since(t.sys.Began()) }

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
func (t *Table) Go(ctx context.Context, req *Request, done func(Result, error)) *Call {
	return t.startUntil(ctx, req, done)
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
	// No context can have cancelled the call of Do yet, and write looks whether the connection
	// was lost before its actor knew of it.
	c.begun = c.completion == nil && a.n > 0
	told := c.begun
	t.mu.Unlock()
	if t.assigned != nil {
		t.assigned()
	}
	c.begin = begin{call: c, sent: a.n > 0}
	a.ref.Send(&c.begin)
	if !told {
		c.told(a.ref)
	}
	switch {
	case a.before:
		c.prepare()
	case a.n > 0:
		a.write()
	}
}

// want says that a call waits for a connection.
func (t *Table) want() {
	if t.wanted != nil {
		t.wanted()
	}
}

// refusal is why a call is not accepted, or nil.
func (t *Table) refusal(req *Request) error {
	switch {
	case t.closed != nil:
		return t.closed
	case t.drained != nil:
		return ErrClosed
	case t.pending >= int(t.limit):
		return ErrBusy
	case t.canSend(req):
		return nil
	case req.Early:
		return &LostError{Method: req.Method, Unsent: true, Err: t.why}
	case t.waiting.n >= int(t.maxWaiting):
		return ErrBusy
	}
	return nil
}

func (t *Table) canSend(req *Request) bool { return t.link != nil && (t.ready || req.Early) }

// assign has the actor work on the call and gives the call an id, or lets it wait.
func (t *Table) assign(c *Call, free *actor) attempt {
	free.assigned, c.actor = c, free
	switch {
	case !t.canSend(c.req):
		t.waiting.push(c)
	case c.prepares():
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
	for h := t.open; h != nil; h = h.older {
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

// launch begins a call whose actor was started, or refuses it for the reason why there is
// none. It is called under the lock, and what it returns without.
func (t *Table) launch(c *Call, free *actor, err error) (then func()) {
	switch {
	case err != nil && t.closed != nil:
		err = t.closed
	case err == nil && c.req.Early && !t.canSend(c.req): // the connection was lost meanwhile
		t.pool.Retire(free)
		err = &LostError{Method: c.req.Method, Unsent: true, Err: t.why}
	}
	if err != nil {
		drained := t.done()
		return func() {
			c.complete(Result{}, err)
			drained()
			if free != nil {
				free.Ref().Stop()
			}
		}
	}
	a := t.assign(c, free)
	return func() {
		c.begin = begin{call: c, sent: a.n > 0}
		a.ref.Send(&c.begin)
		c.told(a.ref)
		if a.n > 0 || a.before {
			t.writeLater(a)
		}
	}
}

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

// write hands the attempt to the transport, unless it was withdrawn meanwhile.
func (a attempt) write() {
	c, t := a.call, a.call.table
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

func sendCancelled(link mcp.Link, id mcp.ID, why string, tag any) {
	b := borrow()
	defer giveBack(b)
	*b = appendCancelled((*b)[:0], id, why)
	// A link that does not take it is as good as lost: the peer will notice.
	_ = link.Send(mcp.Outgoing{Frame: *b, Kind: mcp.KindNotification, Method: mcp.NotificationCancelled, Cancels: id, Tag: tag})
}

// writeLater has a task write an attempt: a parent does no I/O. A task writes all that there are, in
// their order; one that is added meanwhile may be written at the same time by another task,
// as any two calls may be: a link takes frames from several goroutines, and calls have no
// order among each other.
func (t *Table) writeLater(a attempt) {
	t.mu.Lock()
	begin, parent := t.backlog == nil, t.pool.Parent()
	if begin {
		t.backlog = new([]attempt)
	}
	*t.backlog = append(*t.backlog, a)
	t.mu.Unlock()
	if begin {
		parent.Go(t.writeFirst)
	}
}

func (t *Table) writeFirst() {
	t.mu.Lock()
	all := t.backlog
	t.backlog = nil
	t.mu.Unlock()
	for _, a := range *all {
		if a.before {
			a.call.prepare()
		} else {
			a.write()
		}
	}
}

// finish settles the call of an actor and makes the actor idle again. It reports
// false if the actor is not to be kept.
func (t *Table) finish(c *Call, a *actor, result Result, err error) (kept bool) {
	t.mu.Lock()
	end := t.detach(c)
	if !a.Retired() && t.closed == nil {
		kept = t.pool.Put(a, int(t.maxIdle))
	}
	t.mu.Unlock()
	end.settle(result, err)
	return kept
}

// detach takes a call out of the table.
func (t *Table) detach(c *Call) ending {
	if c.actor == nil {
		return ending{}
	}
	end := ending{call: c, id: c.id, attempt: c.attempt, link: t.link}
	if c.more != nil {
		end.wait = c.more.wait
	}
	c.actor.assigned, c.actor = nil, nil
	if c.id != 0 {
		delete(t.byID, c.id)
		t.late.expect(c)
		c.id = 0
	}
	delete(t.tokens, c.token)
	c.leave()
	for h := t.open; h != nil; h = h.older {
		h.remove(c)
	}
	end.drained = t.done()
	return end
}

// done counts a call less, and returns what is to be called then, without the lock.
func (t *Table) done() (then func()) {
	if t.pending--; t.pending == 0 && t.drained != nil {
		return t.drained
	}
	return func() {}
}

// ending is what is left to do for a call that was taken out of the table.
type ending struct {
	call    *Call    // nil if it was out already
	id      int64    // it awaited an answer to this
	attempt int32    //
	link    mcp.Link // that the newest attempt may have gone out on
	wait    *wait    // that it was in
	drained func()
}

// settle gives a call its outcome, and takes it back from the peer if that still
// works on it.
func (end ending) settle(result Result, err error) {
	c := end.call
	if c == nil {
		return
	}
	t := c.table
	if c.req.Late != nil {
		if end.id != 0 && c.unsent(end.attempt) { // no answer comes
			t.mu.Lock()
			delete(t.late, end.id)
			t.mu.Unlock()
		}
	} else if end.id != 0 && end.link != nil && !c.withdraw(end.attempt) {
		// Not on this goroutine: it may be a clock's or the one that reads.
		id, link, why := mcp.IntID(end.id), end.link, reason(err)
		t.sys.Go("cancelling a call", func() { sendCancelled(link, id, why, c.req.Tag) })
	}
	if end.wait != nil && end.wait.abort != nil {
		end.abort(err)
	}
	c.complete(result, err)
	end.drained()
}

// abort tells a Wait that its call has ended.
func (end ending) abort(cause error) {
	_, err := actors.Guard(func() (struct{}, error) { end.wait.abort(cause); return struct{}{}, nil })
	if err != nil {
		end.call.table.sys.Log().Error("the end of a call's wait panicked", "method", end.call.req.Method, "error", err)
	}
}

// trimAfter is how long an actor may be idle and unneeded.
const trimAfter = 5 * time.Second

// poolOwner is the table as its pool sees it.
type poolOwner Table

// Lock implements [sync.Locker].
func (o *poolOwner) Lock() { o.mu.Lock() }

// Unlock implements [sync.Locker].
func (o *poolOwner) Unlock() { o.mu.Unlock() }

// Worker implements [actors.PoolOwner].
func (o *poolOwner) Worker() (*actor, actors.Spec) {
	a := &actor{table: (*Table)(o)}
	return a, actors.Spec{Kind: actors.KindCall, Inline: true, New: func() actors.Actor { return a }}
}

// Rest implements [actors.PoolOwner]: the room of the index is that of the busiest moment.
func (o *poolOwner) Rest() {
	if len(o.byID) == 0 {
		o.byID = nil
	}
}

// Lost implements [actors.PoolOwner]: the call of an actor that failed or was stopped
// has its outcome.
func (o *poolOwner) Lost(a *actor, failure error) {
	t := (*Table)(o)
	t.mu.Lock()
	c := a.assigned
	if c == nil {
		t.mu.Unlock()
		return
	}
	end := t.detach(c)
	err := t.closed
	switch {
	case err != nil:
	case failure != nil:
		err = fmt.Errorf("%s: %w", c.req.Method, failure)
	case t.parentErr != nil:
		err = &LostError{Method: c.req.Method, Err: t.parentErr}
	default:
		err = fmt.Errorf("%s: the call was stopped: %w", c.req.Method, actors.ErrStopped)
	}
	t.mu.Unlock()
	end.settle(Result{}, err)
}

// flushSoon has a task send the calls that wait: who calls it does no I/O.
func (t *Table) flushSoon() {
	t.mu.Lock()
	parent := t.pool.Parent()
	t.mu.Unlock()
	t.sys.Go(parent.Path(), t.flush)
}

// flush sends the calls that wait. One whose actor does not know of it yet is left to told.
func (t *Table) flush() {
	for {
		t.mu.Lock()
		c := t.waiting.first
		for c != nil && (!c.begun || c.more != nil && c.more.notOn >= t.gen) {
			c = c.next
		}
		if c == nil || !t.canSend(c.req) {
			t.mu.Unlock()
			return
		}
		if c.prepares() {
			t.mu.Unlock()
			c.prepare()
			continue
		}
		c.leave()
		a := t.nextAttempt(c)
		t.mu.Unlock()
		if a.n > 1 {
			t.stats.resent.Add(1)
		}
		if a.follows {
			a.ref.Send(&followed{resend{call: c, attempt: a.n}})
		} else {
			a.ref.Send(&resend{call: c, attempt: a.n})
		}
		a.write()
	}
}

// whyNone says why there is no connection, nil if that is not known.
func (t *Table) whyNone() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why
}
