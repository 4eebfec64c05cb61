package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/eventlog"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Run is one run of an agent. It goes on with and without a reader.
type Run struct {
	id        string
	hash      digest // of the prompt, input, output and names that it was started with
	store     store.Store
	loop      *loop.Run     // nil for a run of another process or of the past
	record    *record       // nil likewise
	onAsk     AskFunc       // answers its questions; nil leaves them to others
	onUnknown UnknownPolicy // of its calls; empty is the runtime's
	traced    *tracing      // nil without a [Tracer]
	tenant    *Tenant       // whose connections it uses; nil for the runtime's

	following *following // of a run of another process that Start has found; nil for none

	resumes bool               // it goes on where a process has left it
	worked  time.Duration      // before that
	below   *sync.Map          // of *claims.Tree, by run ID: runs that it has started and that go on; nil for none
	stuck   *NotResumableError // why it was not resumed; nil for none
}

// ID returns the run's ID.
func (r *Run) ID() string { return r.id }

// here returns the handle of the run as this process works on it, which is r itself unless Start has found it with another
// process.
func (r *Run) here() *Run {
	if r.following != nil {
		if here := r.following.here.Load(); here != nil {
			return here
		}
	}
	return r
}

// Cancel ends the run; the first cause counts, and nil is one too. It does not wait.
// On a run that has ended, or that is another process's, it does nothing; of a run of another process that
// [Agent.Start] has returned it ends the wait.
func (r *Run) Cancel(cause error) {
	switch {
	case r.following != nil:
		r.following.cancel(cause)
	case r.loop != nil:
		r.loop.Cancel(cause)
	}
}

// leave ends the work of this process on a run that another one has, or will have. It does not wait.
func (r *Run) leave(cause error) {
	if r.loop != nil {
		r.loop.Leave(cause)
	}
}

// Suspend ends the work on a run, wherever it is, and on the runs of its sub-agents, and leaves
// them waiting in the store with their questions: [Runtime.Resume] goes on with them, in any process.
// Nothing more begins. The model and calls under way have [Options].Grace; a call that has not
// returned by then is as one whose process has ended, and a task of a server goes on there. Wait then
// returns [ErrSuspended]. The error is nil once no process works on the run any more, and
// [ErrNotWaiting] if it has ended, or is not of this runtime.
func (r *Run) Suspend(ctx context.Context) error {
	if r = r.here(); r.loop == nil {
		return ErrNotWaiting
	}
	return r.loop.Suspend(ctx)
}

// SuspendIdle is Suspend for a run that with its sub-agents waits for nothing but answers of people,
// and of them not for a form, a page or a login, and for instances of servers: the calls that wait for
// those were not sent, and are made once the run goes on. Any other goes on, and the error is [ErrNotWaiting].
func (r *Run) SuspendIdle(ctx context.Context) error {
	if r = r.here(); r.loop == nil {
		return ErrNotWaiting
	}
	for _, below := range r.record.under() {
		if err := below.idle(ctx); err != nil {
			return err
		}
	}
	return r.loop.SuspendIdle(ctx)
}

// idle returns nil if the run has ended, or waits for nothing but answers.
func (r *Run) idle(ctx context.Context) error {
	select {
	case <-r.Done():
		return nil
	default:
	}
	for _, below := range r.record.under() {
		if err := below.idle(ctx); err != nil {
			return err
		}
	}
	return r.loop.Idle(ctx)
}

// Worked returns about how long a run that was resumed here had worked before, without its waits for people
// and the time that no process had it. It is zero for a run that was begun here.
func (r *Run) Worked() time.Duration { return r.here().worked }

// Done returns a channel that is closed once the run has ended. It is nil for a run of
// another process or of the past that [Runtime.Find] has returned: use Wait for those.
func (r *Run) Done() <-chan struct{} {
	switch {
	case r.following != nil:
		return r.following.ended.Done()
	case r.loop != nil:
		return r.loop.Ended()
	}
	return nil
}

// Saying returns what the model has said so far in the turn under way, and the number of the turn; zero between
// turns, and for a run of another process or of the past. It looks without being a reader of the run.
func (r *Run) Saying() (turn int, text string) {
	if r = r.here(); r.record == nil {
		return 0, ""
	}
	return r.record.Events().Saying(func(ev Event) bool { _, again := ev.(TurnRestarted); return again })
}

// Wait waits until the run has ended, or for ctx, which does not cancel it, and returns
// as Result does. Only if the wait itself fails there is no Result. A run that this process has
// lost to another one has not ended: the error is then an [ErrLeft], and the handle that
// [Runtime.Find] returns waits for its end.
func (r *Run) Wait(ctx context.Context) (*Result, error) {
	done := r.Done()
	if done == nil {
		return r.waitStored(ctx)
	}
	select {
	case <-done:
		return r.Result()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Result returns the result of a run that has ended; before that, and for a run of another
// process or of the past, the error is [ErrNotEnded]. The error is nil exactly if there is
// an answer. A run that ended without one has a Result too, with its costs.
func (r *Run) Result() (*Result, error) {
	if r.following != nil {
		return r.following.result()
	}
	select {
	case <-r.Done():
	default:
		return nil, ErrNotEnded
	}
	out := r.loop.Outcome()
	if out.Err != nil {
		return resultOfRun(r.id, &out), errorOf(fmt.Sprintf("run %q", r.id), out.Err)
	}
	return resultOfRun(r.id, &out), nil
}

// Events yields the events of the run, from its beginning to its end. Any number
// of readers may do so, each at its own speed: none of them holds up the run, and
// leaving the loop cancels nothing. For a slow reader text is merged, and the events
// whose comments say so may be missing, such as [ToolProgress]. An error, such as the
// cause of ctx, ends the sequence.
func (r *Run) Events(ctx context.Context) iter.Seq2[Event, error] {
	return events(ctx, r.reader)
}

// events yields the events that the function of begin returns, until it returns none or an error.
func events(ctx context.Context, begin func() func(context.Context) ([]Event, error)) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		next := begin()
		for {
			some, err := next(ctx)
			for _, ev := range some {
				if !yield(ev, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if len(some) == 0 {
				return
			}
		}
	}
}

// reader returns a function that gives the next events, none at the end.
func (r *Run) reader() func(context.Context) ([]Event, error) {
	switch {
	case r.following != nil:
		return r.following.events(r.stored())
	case r.record != nil && !r.left():
		return eventlog.Read(r.record).Next
	}
	return r.stored().Next
}

// past returns a function that gives the next events that there are, none if there are
// no more.
func (r *Run) past() func(context.Context) ([]Event, error) {
	if r.record != nil && !r.left() {
		return eventlog.Read(r.record).Past
	}
	return r.stored().Past
}

// stored reads a run that is not of this runtime.
func (r *Run) stored() *eventlog.Stored[Header, Event] {
	return &eventlog.Stored[Header, Event]{Journal: r.store, Run: r.id, Convert: r.converter(), Interrupted: ErrInterrupted}
}

// converter makes events of the run's journal, for one reader.
func (r *Run) converter() *converter {
	return &converter{runID: r.id, answer: r.answer, intents: make(map[string]*runlog.ToolIntent)}
}

// answer decides an ask of the run.
func (r *Run) answer(ctx context.Context, ask string, d store.Decision) (store.Ask, error) {
	if r = r.here(); r.loop == nil {
		return r.store.SettleAsk(ctx, ask, d)
	}
	return r.loop.Answer(ctx, ask, d)
}

// waitStored waits for a run that is not of this runtime.
func (r *Run) waitStored(ctx context.Context) (*Result, error) {
	for ev, err := range r.Events(ctx) {
		if err != nil {
			return nil, fmt.Errorf("run %q: %w", r.id, err)
		}
		if end, ok := ev.(RunFinished); ok {
			if end.State == store.Finished {
				return &end.Result, nil
			}
			return &end.Result, fmt.Errorf("run %q: %w", r.id, &RunError{end.State, end.Error})
		}
	}
	if r.stuck != nil {
		return nil, fmt.Errorf("%w; %w", ErrInterrupted, r.stuck)
	}
	return nil, fmt.Errorf("run %q: %w", r.id, ErrInterrupted)
}

// existing returns the handle of a run that was found in the store.
func existing(head store.Run, hash digest, s store.Store) (*Run, error) {
	if head.InputHash != hash.String() || head.Imported > 0 { // what a file says of its input is no proof
		return nil, ErrRunExists
	}
	return &Run{id: head.ID, hash: hash, store: s}, nil
}

// opened waits until a run has begun.
func (r *Run) opened(ctx context.Context) (*Run, error) {
	head, err := r.loop.Opened(ctx)
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, store.ErrExists):
		return existing(head, r.hash, r.store)
	}
	return nil, err
}

// Past yields the events of the run so far, as [Run.Events] does, and then ends: it does
// not wait for more.
func (r *Run) Past(ctx context.Context) iter.Seq2[Event, error] {
	return events(ctx, r.past)
}

// Observe calls f with how the run stands: once now, and at each change until it has
// ended. It takes no goroutine, so that any number of runs can wait. f is called from
// any goroutine, but not from two at once; it must not block, nor call methods of the
// run. Observe reports whether there will be a call: a run of another process, or of
// the past, cannot be observed. A later Observe takes the place of the one before. An f
// that panics is not called again.
func (r *Run) Observe(f func(Standing)) bool {
	if r = r.here(); r.record == nil {
		return false
	}
	r.record.standing.observe(f)
	return true
}
