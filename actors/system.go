package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Options changes how a system works; nil is the same as the zero value.
type Options struct {
	// Logger takes structured logs. Nil discards them. Nothing is ever written
	// to stdout or stderr otherwise.
	Logger *slog.Logger
	// Trace, if set, is called before every message is handled, on the actor's
	// goroutine. It is for tests; see [Tracer].
	Trace func(TraceEvent)
}

// System is one tree of actors. A process needs one, or few. Its methods may be used from
// any goroutine.
type System struct {
	lib       *actor.ActorSystem
	log       *slog.Logger
	trace     func(TraceEvent)
	workers   workers
	tasks     tasks
	waits     atomic.Int64 // tasks under way that are expected to wait
	readiness readiness
	census    census
	spawner   spawner
	clock     clock
	ids       atomic.Uint64
	root      Ref
	failed    Reply[struct{}] // completed by the failure that ended the runtime

	closing  atomic.Bool
	shutdown sync.Once
	ended    error
}

// NewSystem starts a system.
func NewSystem(opts *Options) (*System, error) {
	o := *cmp.Or(opts, new(Options))
	s := &System{log: o.Logger, trace: o.Trace, clock: clock{start: time.Now()}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.census.tree = make(map[*process]struct{})
	s.spawner.init()
	s.lib = makeLibrary(libraryLogger(s.log))
	if err := s.startRoot(); err != nil {
		return nil, fmt.Errorf("starting the runtime actor: %w", err)
	}
	return s, nil
}

func (s *System) startRoot() error {
	p := s.newProcess(Spec{Kind: KindRuntime, New: func() Actor { return new(root) }})
	s.root = Ref{p}
	s.props(p) // whose mailbox is taken by those that follow
	props := s.spawner.newProps().Configure(actor.WithGuardian(rootStrategy{s}))
	_, err := s.lib.Root.SpawnNamed(props, "runtime")
	return err
}

// Log returns the system's logger.
func (s *System) Log() *slog.Logger { return s.log }

// Began returns when the system was started: what times there are in it can be kept as the time since.
func (s *System) Began() time.Time { return s.clock.start }

// Spawn starts an actor below the runtime. The error is [ErrNameTaken],
// [ErrClosed] or [ErrNoKind]. It must not be called from a Receive.
func (s *System) Spawn(spec Spec) (Ref, error) {
	ref, err := Ask(context.Background(), s.root, func(r *Reply[Ref]) any { return &spawn{spec, r} })
	if errors.Is(err, ErrStopped) {
		err = ErrClosed
	}
	return ref, err
}

// Closing reports whether the system is being shut down.
func (s *System) Closing() bool { return s.closing.Load() }

// Failed returns a channel that is closed when a failure has reached the root
// of the tree; [System.Err] then says which. Everything is stopped by then or
// about to be.
func (s *System) Failed() <-chan struct{} { return s.failed.Done() }

// Err returns the failure that ended the runtime, nil if there is none.
func (s *System) Err() error {
	_, err := s.failed.Result()
	return err
}

// fail ends the runtime because of a failure that no supervisor could answer.
func (s *System) fail(err error) {
	if s.failed.Complete(struct{}{}, err) {
		s.log.Error("the runtime ends: a failure reached its root", "error", err)
		s.closing.Store(true)
		s.root.Send(stopAll{})
	}
}

// rootStrategy answers for the root actor itself. A panic of it is a bug of the
// kit; restarted, it would have forgotten its children.
type rootStrategy struct{ s *System }

// HandleFailure implements the library's strategy.
func (r rootStrategy) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, who *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	sup.StopChildren(who)
	r.s.fail(fmt.Errorf("the root actor failed: %v", reason))
}

// Messages to the root.
type (
	spawn struct {
		spec  Spec
		reply *Reply[Ref]
	}
	stopAll struct{ atOnce bool } // and then the root itself
)

// root is the parent of all actors that have no other. It stops them one by one,
// the youngest first.
type root struct {
	children []Ref
	stopping bool
}

// Receive implements [Actor].
func (r *root) Receive(c *Context, msg any) {
	switch m := msg.(type) {
	case *spawn:
		ref, err := c.Spawn(m.spec)
		if err == nil {
			r.children = append(r.children, ref)
		}
		m.reply.Complete(ref, err)
	case stopAll:
		r.stopping = true
		if m.atOnce {
			c.Stop()
			return
		}
		r.stopNext(c)
	case ChildStopped:
		r.children = slices.DeleteFunc(r.children, func(ref Ref) bool { return ref == m.Ref })
		if r.stopping {
			r.stopNext(c)
		}
	}
}

func (r *root) stopNext(c *Context) {
	if n := len(r.children); n > 0 {
		r.children[n-1].Stop()
		return
	}
	c.Stop()
}

// ShutdownError says what did not end in time.
type ShutdownError struct {
	Actors []string // paths; "call × 3" for those on the inline mailbox
	Tasks  []string // owners
	Err    error    // why the wait ended
}

func (e *ShutdownError) Error() string {
	return fmt.Sprintf("shutting down: %v; still there: actors %v, tasks of %v", e.Err, e.Actors, e.Tasks)
}

// Unwrap returns why the wait ended.
func (e *ShutdownError) Unwrap() error { return e.Err }

// Shutdown stops every actor, the youngest tree first, and waits for them and
// for all tasks until ctx ends; the error then is a [ShutdownError]. What has not
// ended by then is told to stop all at once, and goes on ending by itself. Later
// calls return what the first did. It must not be called from a Receive or a task.
func (s *System) Shutdown(ctx context.Context) error {
	s.shutdown.Do(func() { s.ended = s.shutDown(ctx) })
	return s.ended
}

func (s *System) shutDown(ctx context.Context) error {
	s.closing.Store(true)
	s.root.Send(stopAll{})
	err := wait(ctx, s.root.Stopped())
	if err != nil {
		s.root.Send(stopAll{atOnce: true})
	}
	if late := wait(ctx, s.tasks.idle()); late != nil {
		err = late
	}
	s.readiness.close()
	if late := wait(ctx, s.workers.close()); late != nil {
		err = late
	}
	s.lib.Shutdown()
	if err != nil {
		return s.leftovers(err)
	}
	return nil
}

// wait waits for done or ctx; if both are there, for done.
func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leftovers names what is still there.
func (s *System) leftovers(err error) error {
	out := &ShutdownError{Err: err}
	named := s.Tree() // before the census: what ends between the two is not counted as one without a name
	census := s.Census()
	unnamed := make(map[Kind]int64)
	for kind, count := range census.Actors {
		unnamed[kind] = count.Live
	}
	for _, info := range named {
		unnamed[info.Kind]--
		if info.Kind != KindRuntime {
			out.Actors = append(out.Actors, info.Path)
		}
	}
	for kind, n := range unnamed { // on the inline mailbox
		if n > 0 {
			out.Actors = append(out.Actors, fmt.Sprintf("%s × %d", kind, n))
		}
	}
	out.Tasks = slices.Sorted(maps.Keys(census.Tasks))
	slices.Sort(out.Actors)
	return out
}
