package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/store"
)

// ErrRunning is returned by Run for a worker that runs, or has run.
var ErrRunning = errors.New("the worker runs already, or has")

// Causes with which runs are cancelled.
var (
	errCancelled = errors.New("its job was cancelled")
	errReturned  = errors.New("its worker ends")
	errLost      = errors.New("its job is another worker's now")
	errFailed    = errors.New("the actor of its job failed")
)

// DrainError names the jobs that a worker could not return to the queue when it ended: other
// workers claim them when their leases expire.
type DrainError struct{ Jobs []string }

func (e *DrainError) Error() string {
	return fmt.Sprintf("the worker has ended without returning %d jobs, which other workers get when their leases expire: %s",
		len(e.Jobs), strings.Join(e.Jobs[:min(len(e.Jobs), 10)], ", "))
}

// Worker runs the jobs of a queue. Make it with [New]; its methods may be called from any
// goroutine.
type Worker struct {
	rt     *agent.Runtime
	opts   Options
	store  store.Store
	claims store.JobStarter // the store, if it is one; else nil
	owner  string
	agents map[string]*agent.Agent
	names  []string // of the agents
	events emitter
	board  board
	away   providersAway
	back   putBack

	wall func() time.Time // the wall clock

	begun   atomic.Bool
	claimer atomic.Pointer[actors.Ref]
}

// New makes a worker for a runtime, which must be closed after it.
func New(rt *agent.Runtime, o *Options) (*Worker, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("making a worker: %w", err)
	}
	if rt == nil {
		return nil, errors.New("making a worker: there is no runtime")
	}
	w := &Worker{rt: rt, opts: opts, store: opts.Store, owner: ownerName(opts.Name), agents: make(map[string]*agent.Agent), wall: time.Now}
	w.claims, _ = opts.Store.(store.JobStarter)
	for _, a := range opts.Agents {
		w.agents[a.Name()] = a
	}
	w.names = slices.Sorted(maps.Keys(w.agents))
	w.events.System, w.events.Owner, w.events.to = rt.System(), "worker events", opts.OnEvent
	w.board.jobs, w.board.ended = make(map[string]*entry), make(map[store.JobState]int64)
	return w, nil
}

// Owner returns the name of the worker in the store.
func (w *Worker) Owner() string { return w.owner }

// Run works until ctx ends or [Worker.Drain] is called, and then until no job is left
// here: those under way have [Options].Drain to end, and are then returned to the queue;
// those that wait for a person are returned at once. The error is nil after that, a
// [*DrainError] if some could not be returned, or the failure of the worker itself.
func (w *Worker) Run(ctx context.Context) error {
	if !w.begun.CompareAndSwap(false, true) {
		return ErrRunning
	}
	var failed error
	ended := make(chan struct{})
	ref, err := w.rt.System().Spawn(actors.Spec{Kind: actors.KindWorker, Name: "worker-" + w.owner,
		New: func() actors.Actor { return newClaimer(w) },
		OnStop: func(err error) {
			failed = err
			close(ended)
		}})
	if err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	w.board.update(func(b *board) { b.started = store.Clock(time.Now()) })
	w.claimer.Store(&ref)
	stop := context.AfterFunc(ctx, w.Drain)
	defer stop()
	<-ended
	left := w.abandon()
	<-w.events.Idle()
	switch {
	case failed != nil:
		return fmt.Errorf("the worker: %w", failed)
	case len(left) > 0:
		return &DrainError{left}
	}
	return nil
}

// abandon leaves the runs of the jobs that are left, and names the jobs.
func (w *Worker) abandon() []string {
	var left []string
	var runs []*agent.Run
	w.board.update(func(b *board) {
		for id, e := range b.jobs {
			b.left = append(b.left, id)
			if e.run != nil {
				runs = append(runs, e.run)
			}
		}
		clear(b.jobs)
		b.phases, b.suspects = [phases]int{}, 0
		left = b.left
	})
	for _, run := range runs {
		hooks.Leave(run, errReturned)
	}
	slices.Sort(left)
	return left
}

// Drain ends the worker in an orderly way, as the end of Run's context does. Called
// once more, jobs under way get no more time.
func (w *Worker) Drain() { w.send(drain{}) }

// Wake makes the worker check the queue, and the answers of other processes, at once. It
// does so by itself after [Options].Poll.
func (w *Worker) Wake() {
	w.rt.Wake()
	w.send(lookNow{whole: true})
}

func (w *Worker) send(msg any) {
	if ref := w.claimer.Load(); ref != nil {
		ref.Send(msg)
	}
}
