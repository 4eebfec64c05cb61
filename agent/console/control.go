package console

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/store"
)

// RunControl does what an [Operator] wants with runs. It is called from any goroutine. An error that
// a person can mend is a [*RefusedError]; [store.ErrNotFound] is that of a run which this control does not reach.
type RunControl interface {
	// Cancel ends a run that a process works on. The cause is for its journal.
	Cancel(ctx context.Context, run, cause string) error
	// Park ends the work on a run and leaves it in the store, to be resumed.
	Park(ctx context.Context, run string) error
	// Resume goes on with a run that no process works on.
	Resume(ctx context.Context, run string) error
	// Fork starts a run that takes over the events of another one.
	Fork(ctx context.Context, run string, f Fork) error
	// Saying returns what the model has said so far in the turn under way, and the turn's number. It
	// is empty between turns, and where the text cannot be seen before the turn has ended.
	Saying(ctx context.Context, run string) (turn int, text string, err error)
}

// Fork is a run to be started out of another one.
type Fork struct {
	ID     string // of the fork
	At     int64  // the last event to take over; zero is all
	Prompt string // in place of the run's; empty keeps it
	Say    string // to the model after the last event; empty is nothing
}

// RefusedError reports why an operation was not carried out, and what a person can do.
type RefusedError struct {
	Why     string
	Command string // to be run in a terminal; empty for none
}

func (e *RefusedError) Error() string { return e.Why }

// ControlOf returns the control of the runs of a runtime. It resumes and forks runs of the agents that are
// defined there.
func ControlOf(rt *agent.Runtime) RunControl { return control{rt} }

type control struct{ rt *agent.Runtime }

// own returns a run that the runtime works on.
func (c control) own(ctx context.Context, id string) (*agent.Run, error) {
	run, err := c.rt.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if run.Done() == nil {
		return nil, fmt.Errorf("this process does not work on the run %s: %w", id, store.ErrNotFound)
	}
	return run, nil
}

func (c control) Cancel(ctx context.Context, id, cause string) error {
	run, err := c.own(ctx, id)
	if err == nil {
		run.Cancel(errors.New(cause))
	}
	return err
}

func (c control) Park(ctx context.Context, id string) error {
	run, err := c.own(ctx, id)
	if err != nil {
		return err
	}
	if err := run.Suspend(ctx); !errors.Is(err, agent.ErrNotWaiting) {
		return err
	}
	return &RefusedError{Why: "The run has ended meanwhile."}
}

func (c control) Resume(ctx context.Context, id string) error {
	_, err := c.rt.Resume(ctx, id, nil)
	return refusal(err, "troupe runs resume "+id)
}

func (c control) Fork(ctx context.Context, id string, f Fork) error {
	_, err := c.rt.Fork(ctx, id, f.At, &agent.ForkOptions{ID: f.ID, Prompt: f.Prompt, Say: f.Say})
	return refusal(err, fmt.Sprintf("troupe runs fork %s --at %d", id, f.At))
}

// refusal is the error of a run that cannot go on here.
func refusal(err error, command string) error {
	if errors.Is(err, store.ErrLeased) {
		return &RefusedError{Why: "A process works on the run, or did until a moment ago. Try again in a minute."}
	}
	if refused, ok := errors.AsType[*agent.NotResumableError](err); ok {
		return &RefusedError{Why: "The run cannot go on in this process: " + refused.Why + ".", Command: command}
	}
	return err
}

func (c control) Saying(ctx context.Context, id string) (int, string, error) {
	run, err := c.own(ctx, id)
	if err != nil {
		return 0, "", err
	}
	turn, text := run.Saying()
	return turn, text, nil
}
