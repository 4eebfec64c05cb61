package inbound

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// Handler is the work of one request and what is done with its outcome. It
// usually embeds the [Call] and keeps the result in a field.
type Handler interface {
	// Handle does the work. Ctx is the Call; its cause tells who ended it. A nil
	// error means that the result is where Answer will look for it. [ErrParked]
	// means that [Call.Finish] comes later.
	Handle(ctx context.Context) error
	// Answer writes the outcome; it does not block. It is called once, unless the
	// request was cancelled. With a nil error Handle has ended well; otherwise
	// Handle may still be running, so Answer must not touch what Handle writes.
	Answer(err error)
	// A handler may also have these methods:
	//
	// Drop(err error) is called in place of Answer when the request was cancelled, and
	// must write nothing.
	//
	// Report(progress, total float64, message string) sends a progress notification for
	// each call of [Call.Progress]; total is zero where it is not known. It does not block,
	// and is not called after Answer or Drop.
	//
	// Looked() is called when Done or Value is called of the [Call] for the first time, or
	// when a context is derived from it: until then nothing that would end it need be
	// watched. It may come from any goroutine, and must not use the Call before it returns.
}

// Methods that a [Handler] may have.
type (
	dropper  interface{ Drop(err error) }
	reporter interface {
		Report(progress, total float64, message string)
	}
	looker interface{ Looked() }
)

// Request describes an incoming request.
type Request struct {
	ID     mcp.ID // zero if nothing can cancel it by id
	Method string // for logs
	// Deadline bounds the time to the outcome. Zero is the table's, negative is none.
	Deadline time.Duration
	// Unlisted keeps the id out of the table: requests of several peers share it, and
	// none is cancelled by its id.
	Unlisted bool
}

// key is what the table finds the request by; zero for one that it does not list.
func (r *Request) key() mcp.ID {
	if r.Unlisted {
		return mcp.ID{}
	}
	return r.ID
}

// origin tells where an outcome came from.
type origin uint8

const (
	fromHandler origin = iota
	fromElsewhere
	fromPeer // a cancel: nothing may be written
)

// Call is one request in flight, and the context of its handler. The zero value
// is ready for one [Table.Begin]; it must not be copied or used twice.
//
// As a context it costs nothing until the handler looks at Done or Value, or
// derives from it. Its cause says that the peer has cancelled the request, that its deadline
// has passed, or that the connection has ended, which is [ErrClosed]; or it is the actor's
// failure, or in the end [ErrFinished].
type Call struct {
	//lint:ignore U1000 its method makes the Call its actor's first message about it
	node
	done    done
	handler Handler
	request Request
	begun   time.Time
	actor   *callee // set under the table's lock, before Begin returns
	outcome actors.Reply[origin]

	ended    atomic.Bool // Finish was called
	answered bool        // guarded by writing
	writing  sync.Mutex  // held while anything is written for the request

	mu    sync.Mutex
	extra atomic.Pointer[extra] // nil until it is needed; set under mu
}

// extra is what most calls never have. It is guarded by the call's mu.
type extra struct {
	ctx      context.Context // nil until someone looks
	cancel   context.CancelCauseFunc
	progress *progress // nil until the first report
	held     held
}

// lazily returns extra; it is called with mu held.
func (c *Call) lazily() *extra {
	if c.extra.Load() == nil {
		c.extra.Store(new(extra))
	}
	return c.extra.Load()
}

// node is unexported so that embedding it shows nothing.
//
//lint:ignore U1000 it is embedded for its method
type node = actors.Node

// ID returns the request's id.
func (c *Call) ID() mcp.ID { return c.request.ID }

// Method returns the request's method.
func (c *Call) Method() string { return c.request.Method }

// Begun returns when the request was accepted.
func (c *Call) Begun() time.Time { return c.begun }

// Cancel ends a call that a table has accepted, as [Table.Cancel] does by its id: for
// a peer that has gone.
func (c *Call) Cancel(reason string) {
	c.actor.Ref().Send(&cancel{call: c, err: &cancelledError{Reason: reason}})
}

// Run runs the handler of a call that [Table.Begin] has accepted, and concludes
// it. It returns when the handler has ended and the answer is written, or when
// the handler is parked.
func (c *Call) Run() {
	if c.outcome.Completed() { // killed or cancelled before it ran
		c.Finish(nil)
		return
	}
	returned := false
	defer func() {
		if !returned { // runtime.Goexit, as of a test that fails in a handler
			c.Finish(&actors.PanicError{Value: errors.New("the handler has ended its goroutine")})
		}
	}()
	_, err := actors.Guard(func() (struct{}, error) { return struct{}{}, c.handler.Handle(c) })
	returned = true
	if err == ErrParked {
		return
	}
	if p, ok := err.(*actors.PanicError); ok { // supervision sees where it is raised again
		c.actor.Ref().System().Log().Error("a handler panicked", "actor", c.actor.Ref().Path(), "method", c.request.Method,
			"id", c.request.ID.String(), "error", p, "stack", string(p.Stack))
	}
	c.Finish(err)
}

// Finish ends a parked call: err is what Handle would have returned. It writes
// the answer unless the call has another outcome by then. Only the first call
// counts. It must not be called from a Receive, or while holding a lock that
// Answer takes.
func (c *Call) Finish(err error) {
	if c.ended.Swap(true) {
		return
	}
	c.done.err = err
	c.actor.Ref().Send(&c.done)
	if !c.outcome.Completed() {
		<-c.outcome.Done() // the actor runs elsewhere at this moment, or its parent answers for it
	}
	c.conclude()
}

// Emit runs write, which sends something that belongs to the request, unless
// the request has its outcome; it reports whether it did. Answer waits for it,
// so write must not block.
func (c *Call) Emit(write func()) bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.answered || c.outcome.Completed() {
		return false
	}
	write()
	return true
}

// settle gives the call its outcome and reports whether it was the first. The
// answer is still to be written, by conclude.
func (c *Call) settle(by origin, err error) bool {
	if !c.outcome.Complete(by, err) {
		return false
	}
	x := c.extra.Load()
	if x == nil { // a context that is made later sees the outcome
		return true
	}
	c.mu.Lock()
	cancel := x.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel(c.cause())
	}
	return true
}

// conclude writes the answer of a settled call, if it is not written. The caller that comes
// second waits for the first to have written.
func (c *Call) conclude() {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.answered {
		return
	}
	c.answered = true
	defer c.actor.table.answered()
	by, err := c.outcome.Result()
	if by == fromPeer {
		if d, ok := c.handler.(dropper); ok {
			d.Drop(err)
		}
		return
	}
	c.report()
	c.handler.Answer(err)
}

// Deadline implements context.Context.
func (c *Call) Deadline() (time.Time, bool) {
	if c.request.Deadline <= 0 {
		return time.Time{}, false
	}
	at, _ := c.due()
	return at, true
}

// Done implements context.Context.
func (c *Call) Done() <-chan struct{} { return c.real().Done() }

// Err implements context.Context.
func (c *Call) Err() error {
	if !c.outcome.Completed() {
		return nil
	}
	if by, err := c.outcome.Result(); by == fromElsewhere && errors.Is(err, context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Value implements context.Context. Package context asks it for its own key, by
// which it finds the real context and so the cause.
func (c *Call) Value(key any) any { return c.real().Value(key) }

// real makes the standard context when someone looks for the first time.
func (c *Call) real() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.lazily()
	if x.ctx == nil {
		x.ctx, x.cancel = context.WithCancelCause(c.actor.table.opts.Context)
		if c.outcome.Completed() {
			x.cancel(c.cause())
		} else if l, ok := c.handler.(looker); ok {
			l.Looked()
		}
	}
	return x.ctx
}

// cause is what the context of a settled call ends with.
func (c *Call) cause() error {
	if by, err := c.outcome.Result(); by != fromHandler {
		return err
	}
	return ErrFinished
}
