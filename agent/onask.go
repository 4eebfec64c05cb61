package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// AskFunc answers the questions of runs: see [Options].OnAsk. It is called once for each,
// on a goroutine of its own, with a ctx that ends when the question is of no use any more:
// another answer has decided it, it has expired, or its run has ended. Each call
// costs a goroutine while it waits: leave questions that wait for days in the store.
//
// The zero [Decision] leaves the question to others: readers of [Run.Events], the inbox,
// and in the end its expiry, which declines it. So does an error or a panic, which is logged.
type AskFunc func(ctx context.Context, ask Ask) (Decision, error)

// answering has the questions of one run answered by an AskFunc. It is touched by the run's
// own goroutine only.
type answering struct {
	answer AskFunc
	sys    *actors.System
	events *converter // knows the path of the asker
	open   map[string]context.CancelCauseFunc
}

// newAnswering returns nil for a run without an AskFunc.
func newAnswering(run *Run, sys *actors.System) *answering {
	if run.onAsk == nil {
		return nil
	}
	return &answering{answer: run.onAsk, sys: sys, open: make(map[string]context.CancelCauseFunc), events: run.converter()}
}

// journalled looks for questions, and for their ends.
func (a *answering) journalled(entries []runlog.Entry) {
	if a == nil {
		return
	}
	for i := range entries {
		e := &entries[i]
		switch e.Body.(type) {
		case *runlog.RunStarted, *runlog.AgentChanged:
			a.events.Entry(e)
		case *runlog.AskOpened:
			ask, _ := a.events.Entry(e)[0].(Ask)
			ctx, cancel := context.WithCancelCause(context.Background())
			a.open[ask.ID] = cancel
			a.sys.Go("Options.OnAsk", func() { a.decide(ctx, ask) })
		case *runlog.AskSettled:
			a.end(e.Key, ErrSettled)
		}
	}
}

// closed ends the questions that are still being answered.
func (a *answering) closed(cause error) {
	if a == nil {
		return
	}
	for id := range a.open {
		a.end(id, cause)
	}
}

func (a *answering) end(id string, cause error) {
	if cancel := a.open[id]; cancel != nil {
		cancel(cause)
		delete(a.open, id)
	}
}

// decide puts one question to the function.
func (a *answering) decide(ctx context.Context, ask Ask) {
	d, err := actors.Guard(func() (Decision, error) { return a.answer(ctx, ask) })
	if err == nil && d.d.Status != "" {
		err = ask.Answer(context.WithoutCancel(ctx), d) // bounded: the run answers, or has ended
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrSettled) {
		a.sys.Log().Warn("a question was not answered by OnAsk", "run", ask.RunID, "ask", ask.ID, "tool", ask.Tool,
			"server", ask.Server, "error", fmt.Sprint(err))
	}
}
