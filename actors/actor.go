package actors

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

// Actor is a process: its Receive handles one message at a time, the lifecycle
// messages [Started], [Stopping] and [ChildStopped] among them. It must not
// block, and c is valid only until it returns.
type Actor interface {
	Receive(c *Context, msg any)
}

// ReceiveFunc is an actor without state of its own.
type ReceiveFunc func(c *Context, msg any)

// Receive calls f.
func (f ReceiveFunc) Receive(c *Context, msg any) { f(c, msg) }

// Supervisor is an actor that wants to know that a child failed before the
// child's policy is carried out, on its own goroutine.
type Supervisor interface {
	Actor
	ChildFailed(c *Context, child Ref, err error)
}

// Lifecycle messages.
type (
	// Started is the first message of an incarnation.
	Started struct{}
	// Stopping is the last one: release what is held. Children, timers and tasks
	// are ended after it. It comes also if Started never did, or failed. A panic in
	// it is logged and goes no further.
	Stopping struct {
		Restart bool  // another incarnation follows
		Err     error // the failure, nil for an ordinary stop
	}
	// ChildStopped says that a child has stopped for good. It may overtake what
	// the child had sent before: never read "no result came" from it. From here on
	// the child's name is free.
	ChildStopped struct {
		Ref Ref
		Err error // the failure that ended it, nil for an ordinary stop
	}
)

// Spec says how to start an actor.
type Spec struct {
	Kind Kind
	// Name is the last part of the actor's path. Empty makes one up, with a "$" in
	// it; in a name that is given, "$", "/" and control characters become "_".
	Name string
	// New makes an incarnation; it is called again for each restart. A panic in
	// it is a failure of the new actor.
	New func() Actor
	// Inline runs the actor on the goroutine of its senders; see the
	// package's rules.
	Inline bool
	// OnStop, if set, is called once after the actor has stopped for good, on
	// the actor's goroutine, with the failure that ended it or nil. It must not
	// block. A panic in it is logged.
	OnStop func(err error)
}

// Context is what an actor can do while it handles a message.
type Context struct {
	self  Ref
	user  Actor
	kids  *kids
	times *Timer // those of this incarnation whose clock runs
	tasks *Task  // those of Await under way
	work  *scope // of Work; nil until the first call of Work

	active bool // a message is handled
	inside bool // the actor's own code runs
	broken bool // it panicked: this incarnation only waits for its end
	over   bool // this incarnation takes nothing more
}

// Self returns the actor's own reference.
func (c *Context) Self() Ref { return c.self }

// System returns the system the actor lives in.
func (c *Context) System() *System { return c.self.p.sys }

// Log returns the system's logger, with the actor's path.
func (c *Context) Log() *slog.Logger { return c.System().log.With("actor", c.self.Path()) }

// Children returns how many children the actor has.
func (c *Context) Children() int { return c.kids.len() }

// Spawn starts a child. The error is [ErrNameTaken], also for a child that has
// stopped if its [ChildStopped] has not arrived yet, [ErrClosed] or [ErrNoKind].
func (c *Context) Spawn(spec Spec) (Ref, error) {
	if !c.active {
		return Ref{}, errors.New("actors: Spawn was called outside of Receive")
	}
	p, name, err := c.System().prepare(spec)
	if err != nil {
		return Ref{}, err
	}
	path := c.self.Path() + "/" + name
	if spec.Name != "" && c.kids.get(path) != nil {
		return Ref{}, &NameTakenError{Path: path}
	}
	// Not by the library's context, which keeps a set of the children: kids are enough.
	if _, err := actor.DefaultSpawner(c.System().lib, path, c.System().props(p), c.self.p.box.lib); err != nil {
		return Ref{}, fmt.Errorf("spawning %s: %w", name, err)
	}
	if c.kids == nil {
		c.kids = new(kids)
	}
	c.kids.add(p)
	return Ref{p}, nil
}

// Stop stops the actor itself, once the current message is handled. Messages
// that wait in its mailbox are dropped.
func (c *Context) Stop() { c.self.Stop() }

// cell joins one incarnation of an Actor to the library: it turns the library's
// lifecycle into ours, keeps panics out of places where the library cannot bear
// them, and carries out the supervision table for its children.
type cell struct{ Context }

// Receive handles a message of the library, or one that it has brought.
func (c *cell) Receive(msg any) {
	c.active = true
	defer c.leave(msg)
	switch m := msg.(type) {
	case *actor.Started:
		c.start()
	case *actor.Stopping:
		c.self.p.stopping = true
		c.end(Stopping{Err: c.failure()})
	case *actor.Restarting:
		c.restart()
	case *actor.Stopped:
		c.stopped()
	case *actor.Terminated:
		c.childStopped(m.Who)
	default:
		c.handle(m)
	}
}

// start makes the incarnation, here and not in the library's producer: a panic
// in New is then the actor's failure and not that of its parent.
func (c *cell) start() {
	p := c.self.p
	c.inside = true
	c.user = p.make()
	c.inside = false
	if !p.mayRestart() {
		p.make = nil // it may hold what the actor lets go
	}
	c.deliver(Started{})
}

func (c *cell) restart() {
	p := c.self.p
	p.restarts.Add(1)
	p.sys.census.of(p.kind).restarted.Add(1)
	c.end(Stopping{Restart: true, Err: c.failure()})
}

// handle passes on a message, unless it comes from a timer or task of the kit.
func (c *cell) handle(msg any) {
	if c.over || c.user == nil {
		c.System().census.dropped.Add(1)
		if v, ok := msg.(*visit); ok {
			v.end(nil, ErrStopped)
		}
		return
	}
	switch m := msg.(type) {
	case *visit:
		c.receive(m)
	case *Timer:
		switch due := m.due().(type) {
		case nil:
		case *visit:
			due.do(&c.Context, nil)
		default:
			c.deliver(due)
		}
	case *Task:
		if m.from != &c.Context {
			return
		}
		c.ended(m)
		if m.err != nil {
			panic(m.err)
		}
		if m.msg != nil {
			c.deliver(m.msg)
		}
	case *delayedRestart:
		if p := c.kids.get(m.child.pid.Id); p == m.child {
			p.box.PostSystemMessage(restartMessage)
		}
	default:
		c.deliver(msg)
	}
}

// receive lets the kit do something in the actor.
func (c *cell) receive(v *visit) {
	c.inside = true
	v.end(&c.Context, nil)
	c.inside = false
}

func (c *cell) deliver(msg any) {
	if trace := c.System().trace; trace != nil {
		trace(TraceEvent{Actor: c.self, Message: msg})
	}
	c.inside = true
	c.user.Receive(&c.Context, msg)
	c.inside = false
}

// leave ends a Receive. A panic gets its stack and its actor and goes on to the
// mailbox, which reports it to the parent. An incarnation fails once: what it
// panics with while it waits for its end is only logged. runtime.Goexit (a
// test's FailNow) is a failure too, but nothing can hold it up: the mailbox goes
// on without this goroutine.
func (c *cell) leave(msg any) {
	c.active = false
	value := recover()
	if value == nil && !c.inside {
		return
	}
	exits := value == nil
	if exits {
		value = errGoexit
	}
	c.inside = false
	p := c.self.p
	f := newFailure(p, msg, value)
	p.sys.census.of(p.kind).failed.Add(1)
	switch {
	case exits && c.over:
		logPanic(p.sys.log, f)
		c.endAgain()
	case c.broken:
		logPanic(p.sys.log, f)
	case exits:
		c.fail(f)
		p.box.lib.EscalateFailure(f, nil)
	default:
		c.fail(f)
		panic(f)
	}
}

func (c *cell) fail(f *Failure) {
	c.broken = true
	c.self.p.last.Store(f)
}

// endAgain goes on with an end that runtime.Goexit cut short.
func (c *cell) endAgain() {
	p := c.self.p
	p.stopKids()
	p.box.PostSystemMessage(&actor.Terminated{Who: p.pid})
}

// quietly ends code of the actor that must not fail: a panic in it is logged. One
// that got out of a stop would make the library hang the parent, or restart the
// actor.
func (c *cell) quietly(msg any) {
	if r := recover(); r != nil {
		c.inside = false
		p := c.self.p
		p.sys.census.of(p.kind).failed.Add(1)
		logPanic(p.sys.log, newFailure(p, msg, r))
	}
}

// failure returns what this incarnation failed with, nil if it did not.
func (c *cell) failure() error {
	if !c.broken {
		return nil
	}
	return c.self.p.failure()
}

// end closes an incarnation: nothing its timers and tasks send arrives any
// more.
func (c *cell) end(why Stopping) {
	if c.over {
		return
	}
	defer c.close(why)
	if c.user != nil {
		defer c.quietly(why)
		c.deliver(why)
	}
}

func (c *cell) close(why Stopping) {
	c.over, c.user = true, nil
	for c.times != nil {
		c.times.still()
	}
	cause := stopCause(why)
	if c.work != nil {
		c.work.end(cause)
	}
	for t := c.tasks; t != nil; t = t.next {
		t.Cancel(cause)
	}
}

// stopCause is what the contexts of an actor's tasks end with.
func stopCause(why Stopping) error {
	if why.Err != nil {
		return why.Err
	}
	return ErrStopped
}

func (c *cell) stopped() {
	c.over = true
	p := c.self.p
	if p.gone.Load() {
		return
	}
	if !c.broken {
		p.last.Store(nil) // an ordinary end, whatever happened before
	}
	c.remove()
	p.box.refuseVisits(c.quietly)
	if p == p.sys.root.p {
		p.finish() // it has no parent to do it
	}
}

// remove takes the actor out of the census and calls its OnStop.
func (c *cell) remove() {
	p := c.self.p
	p.sys.census.remove(p)
	if p.onStop != nil {
		defer c.quietly(Stopping{})
		c.inside = true
		p.onStop(p.failure())
		c.inside = false
	}
}

func (c *cell) childStopped(who *actor.PID) {
	p := c.kids.get(who.Id)
	if p == nil {
		return
	}
	c.kids.remove(who.Id)
	p.settle()
	p.finish()
	if !c.over && c.user != nil {
		c.deliver(ChildStopped{Ref: Ref{p}, Err: p.failure()})
	}
}
