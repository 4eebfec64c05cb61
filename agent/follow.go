// follow.go: a run that another process works on, and that goes on here when that process is gone.

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent/internal/eventlog"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/store"
)

// followEvery is how often a run that is followed is looked at.
const followEvery = time.Second

// following is what a handle has of a run that another process works on: the task that waits for its end, and
// for the end of that process. The task is one of the actor of all runs.
type following struct {
	agent *Agent
	opts  RunOptions
	stop  context.CancelCauseFunc // ends the task; set before the handle is given out
	here  atomic.Pointer[Run]     // the run as it goes on here; nil while it does not
	ended actors.Reply[followed]
}

// followed is how a run has ended, as [Run.Result] returns it.
type followed struct {
	res *Result
	err error
}

// givenUp ends the following of a run by [Run.Cancel].
type givenUp struct{ cause error }

func (e *givenUp) Error() string { return fmt.Sprintf("it is not waited for any more: %v", e.cause) }
func (e *givenUp) Unwrap() error { return e.cause }

// cancel ends the run if it goes on here, and else the wait for it.
func (f *following) cancel(cause error) {
	f.stop(&givenUp{cause})
	if here := f.here.Load(); here != nil {
		here.Cancel(cause)
	}
}

// result returns the result of a run that has ended, as [Run.Result] does.
func (f *following) result() (*Result, error) {
	if !f.ended.Completed() {
		return nil, ErrNotEnded
	}
	out, _ := f.ended.Result()
	return out.res, out.err
}

// events reads the events of the run in the store, until the wait for it is over.
func (f *following) events(s *eventlog.Stored[Header, Event]) func(context.Context) ([]Event, error) {
	return func(ctx context.Context) ([]Event, error) {
		for {
			over := f.ended.Completed() // what is written before is seen by the next look
			events, err := s.Past(ctx)
			switch {
			case err != nil || len(events) > 0 || s.Finished():
				return events, err
			case over:
				_, err := f.result()
				return nil, err
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			}
			timer := time.NewTimer(followEvery)
			select {
			case <-f.ended.Done():
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}

// follow waits until the run has ended, in whatever process, and goes on with it here once no process works on it.
func (r *Run) follow(ctx context.Context) {
	f := r.following
	// Also if the program's code panics, which the model's name and price are asked for.
	defer f.ended.Complete(followed{err: fmt.Errorf("run %q: %w", r.id, ErrInterrupted)}, nil)
	for {
		res, err := r.goesOn(ctx)
		if !errors.Is(err, errGoesOn) {
			f.ended.Complete(followed{res, err}, nil)
			return
		}
	}
}

// errGoesOn reports that a run goes on, in another process.
var errGoesOn = errors.New("the run goes on")

// goesOn waits until the process that works on the run has ended it, has left it, or may be gone; in the latter cases the run goes on here, if it
// can, until it has ended.
func (r *Run) goesOn(ctx context.Context) (*Result, error) {
	f := r.following
	head, err := r.store.Run(ctx, r.id)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("run %q: %w", r.id, context.Cause(ctx))
	case errors.Is(err, store.ErrNotFound): // it was deleted
		return nil, fmt.Errorf("run %q: %w", r.id, err)
	case err != nil: // the store fails: the next look tells
	case head.State.Ended():
		return (&Run{id: r.id, store: r.store}).waitStored(ctx)
	case head.Job != "": // a worker goes on with it
	case !owner.Holds(head, time.Now()):
		here, err := f.agent.resume(ctx, r.id, &f.opts)
		switch refused, never := errors.AsType[*NotResumableError](err); {
		case never:
			return nil, fmt.Errorf("%w; %w", ErrInterrupted, refused)
		case errors.Is(err, ErrClosed):
			return nil, fmt.Errorf("run %q: %w", r.id, ErrClosed)
		case err == nil && here.loop != nil:
			if res, err := r.goOnHere(ctx, here); !errors.Is(err, errGoesOn) {
				return res, err
			}
		}
	}
	wait := followEvery
	if left := time.Until(head.Expires); left > 0 {
		wait = min(wait, left)
	}
	_ = pause.For(ctx, wait) // the next look sees the end of ctx
	return nil, errGoesOn
}

// goOnHere waits for the end of the run in this process.
func (r *Run) goOnHere(ctx context.Context, here *Run) (*Result, error) {
	f := r.following
	f.here.Store(here)
	if up, ok := errors.AsType[*givenUp](context.Cause(ctx)); ok { // before there was a run to cancel
		here.Cancel(up.cause)
	}
	<-here.Done() // also when ctx ends: it then ends a bounded time later
	res, err := here.Result()
	if here.lost() {
		f.here.Store(nil)
		return nil, errGoesOn
	}
	return res, err
}
