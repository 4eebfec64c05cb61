package actors

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Errors of the kit.
var (
	// ErrStopped ends what an actor started when the actor stops.
	ErrStopped = errors.New("actors: the actor has stopped")
	// ErrClosed is returned once [System.Shutdown] was called.
	ErrClosed = errors.New("actors: the system is shutting down")
	// ErrNameTaken is what a [NameTakenError] is.
	ErrNameTaken = errors.New("actors: the name is taken")
	// ErrNoKind is returned by Spawn for a [Spec] whose Kind was not set.
	ErrNoKind = errors.New("actors: the spec has no kind")
)

// NameTakenError is returned by Spawn for a name that another child of the same
// parent has.
type NameTakenError struct{ Path string }

func (e *NameTakenError) Error() string { return fmt.Sprintf("actors: %q is running already", e.Path) }

// Is reports that the error is [ErrNameTaken].
func (e *NameTakenError) Is(target error) bool { return target == ErrNameTaken }

// Ref is the address of an actor. The zero Ref has no actor: what is sent to it is
// dropped. Refs of the same actor are equal, also across its restarts, and may
// be used from any goroutine.
type Ref struct{ p *process }

// IsZero reports whether r is the zero Ref.
func (r Ref) IsZero() bool { return r.p == nil }

// Path returns the actor's place in the tree, such as "runtime/host/client-files".
func (r Ref) Path() string {
	if r.p == nil {
		return ""
	}
	return r.p.path()
}

// Kind returns what the actor is for.
func (r Ref) Kind() Kind {
	if r.p == nil {
		return numKinds
	}
	return r.p.kind
}

// System returns the system the actor lives in, nil for the zero Ref.
func (r Ref) System() *System {
	if r.p == nil {
		return nil
	}
	return r.p.sys
}

// Send puts msg, which must not be nil, into the actor's mailbox. It never
// blocks. A message to a stopped actor is dropped and counted by the census.
func (r Ref) Send(msg any) {
	if r.p == nil || msg == nil {
		return // the library's mailbox would turn for ever on a nil
	}
	if r.p.gone.Load() {
		r.p.sys.census.dropped.Add(1)
		return
	}
	r.p.box.PostUserMessage(msg)
}

// post is Send for a task: see [mailbox.post].
func (r Ref) post(t *Task) (then runner) {
	if r.p.gone.Load() {
		r.p.sys.census.dropped.Add(1)
		return nil
	}
	return r.p.box.post(&t.Node, t)
}

// Stop stops the actor before it handles another message; what waits in its
// mailbox is dropped. It does not wait: see [Ref.Stopped].
func (r Ref) Stop() {
	if r.Alive() {
		r.p.stop()
	}
}

// Stopped returns a channel that is closed once the actor has stopped for good,
// is no longer in the census, and its name may be used again. The zero Ref has
// always stopped.
func (r Ref) Stopped() <-chan struct{} {
	if r.p == nil {
		return closed
	}
	if c := r.p.done.Load(); c != nil {
		return *c
	}
	c := make(chan struct{})
	if r.p.done.CompareAndSwap(nil, &c) {
		return c
	}
	return *r.p.done.Load()
}

// Alive reports whether the actor has not stopped for good.
func (r Ref) Alive() bool { return r.p != nil && !r.p.gone.Load() }

// Ask sends the message that msg makes and waits for its reply, for ctx, or for
// the actor to stop ([ErrStopped]). It must not be called from a Receive.
func Ask[T any](ctx context.Context, to Ref, msg func(*Reply[T]) any) (T, error) {
	reply := new(Reply[T])
	to.Send(msg(reply))
	if reply.Completed() { // by an actor on the inline mailbox
		return reply.Result()
	}
	var zero T
	select {
	case <-reply.Done():
	case <-ctx.Done():
		reply.Complete(zero, context.Cause(ctx))
	case <-to.Stopped():
		reply.Complete(zero, ErrStopped)
	}
	return reply.Result()
}

// process is what the incarnations of one actor have in common, and the first of
// them, which is the only one of most. There may be a hundred thousand: mind its size.
type process struct {
	sys    *System
	pid    *actor.PID   // set by born, before the first message
	make   func() Actor // nil once it is not needed any more
	onStop func(error)
	last   atomic.Pointer[Failure]       // the newest, until an ordinary stop
	done   atomic.Pointer[chan struct{}] // made by the first who asks for it
	watch  *watch                        // the supervisor's; nil until a failure

	started  int64 // Unix time in nanoseconds; 0 on the inline mailbox
	restarts atomic.Int32
	gone     atomic.Bool
	kind     Kind
	inline   bool
	stopping bool   // the actor's own: a stop has begun
	next     sequel // the actor's own

	// To post to the mailbox, and not to the identifier, is quicker, and what is sent
	// late cannot reach a later actor of the same name.
	box   mailbox
	now   *cell // of the newest incarnation
	first cell
}

func (s *System) newProcess(spec Spec) *process {
	p := &process{sys: s, kind: spec.Kind, make: spec.New, onStop: spec.OnStop, inline: spec.Inline}
	p.now, p.first.self = &p.first, Ref{p}
	if !spec.Inline {
		p.box.workers = &s.workers
	}
	return p
}

// mayRestart reports whether there may be more than one incarnation.
func (p *process) mayRestart() bool { return p.kind == KindRuntime || policies[p.kind].On == Restart }

// stop stops the actor before it handles another message.
func (p *process) stop() { p.box.PostSystemMessage(stopMessage) }

func (p *process) path() string { return p.pid.Id }

// finish closes Stopped.
func (p *process) finish() {
	if c := p.done.Swap(&closed); c != nil {
		close(*c)
	}
}

// failure returns the newest failure, nil if there was none.
func (p *process) failure() error {
	if f := p.last.Load(); f != nil {
		return f
	}
	return nil
}
