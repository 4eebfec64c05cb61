package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// maxTree bounds the runs of one job that are read.
const maxTree = 1000

// effects are the effects of a run and of all runs that it started, by their journals.
type effects struct {
	end  *runlog.RunFinished // of the run itself; nil while it has not ended
	cost *runlog.RunFinished // of a run that was closed: its cost with all runs that it started; nil for none
	open []string            // calls without an outcome that must not be repeated
	made []string            // calls with an outcome that must not be repeated
	runs int
	// begun is true if the run existed when it was closed: a worker may be lost between the
	// claim of a job and the start of its run.
	begun bool
}

// unsafe returns the tools whose calls must not be repeated.
func (d *effects) unsafe() []string {
	all := slices.Concat(d.open, d.made)
	slices.Sort(all)
	return slices.Compact(all)
}

// read is one run with the fold of its journal.
type read struct {
	*runlog.State
	head  store.Run
	begun bool // it is no placeholder
}

// readRun reads a run's journal.
func readRun(ctx context.Context, s store.Store, head store.Run) (*read, error) {
	state, err := runlog.Fold(ctx, s, head.ID)
	if err != nil {
		return nil, fmt.Errorf("reading run %q: %w", head.ID, err)
	}
	return &read{State: state, head: head, begun: state.Started == nil || len(state.Started.Input) > 0 || state.Started.Model != ""}, nil
}

// note adds the effects of a run to d, and returns the runs that it started. A call that starts
// a run has no effect itself: those of that run count.
func (d *effects) note(r *read) (children []string) {
	for _, cl := range r.Calls {
		switch {
		case cl.Starts():
			children = append(children, cl.Run)
		case !cl.Effect():
		case cl.Done:
			d.made = append(d.made, cl.Tool)
		default:
			d.open = append(d.open, cl.Tool)
		}
	}
	return children
}

// look reads the effects of a run of this worker, and changes nothing.
func look(ctx context.Context, s store.Store, id string) (*effects, error) {
	d := new(effects)
	for ids := []string{id}; len(ids) > 0; ids = ids[1:] {
		if d.runs++; d.runs > maxTree {
			return nil, fmt.Errorf("run %q has started more than %d runs", id, maxTree)
		}
		head, err := s.Run(ctx, ids[0])
		if errors.Is(err, store.ErrNotFound) {
			continue
		} else if err != nil {
			return nil, err
		}
		r, err := readRun(ctx, s, head)
		if err != nil {
			return nil, err
		}
		if ids[0] == id {
			d.end = r.Finished
		}
		ids = append(ids, d.note(r)...)
	}
	return d, nil
}

// leasedError reports that a run's lease has to expire first.
type leasedError struct{ until time.Time }

func (e *leasedError) Error() string {
	return "another worker may hold the run until " + e.until.Format(time.RFC3339)
}

// closer ends runs whose worker was lost.
type closer struct {
	store store.Store
	owner string
	ttl   time.Duration
	why   string // the error of those runs
	past  bool   // no worker is about to begin the run: a missing one stays missing
}

// close fences off a job's run and the runs that it started, so that their former owner can
// append no more, ends them as failed, withdraws their questions, and returns their effects. A
// run that had ended stays as it is; one that was about to begin never does. A [*leasedError]
// has the time to try again.
func (cl *closer) close(ctx context.Context, agent, id string) (*effects, error) {
	d := new(effects)
	var all []*read
	for ids := []string{id}; len(ids) > 0; ids = ids[1:] {
		if d.runs++; d.runs > maxTree {
			return nil, fmt.Errorf("run %q has started more than %d runs", id, maxTree)
		}
		r, err := cl.fence(ctx, agent, ids[0])
		if err != nil {
			return nil, err
		}
		if ids[0] == id {
			d.end, d.begun = r.Finished, r.begun
		}
		ids = append(ids, d.note(r)...)
		all = append(all, r)
	}
	first, whole := all[0], budget.Amount{}
	for _, r := range slices.Backward(all) { // the first run last: its end means that all have ended
		whole = whole.Plus(r.Spent)
		whole.Steps = r.Spent.Steps // a run's own
		if r.Finished != nil {
			continue
		}
		spent := r.Spent
		if r == first {
			spent = whole
		}
		if err := cl.finish(ctx, r, spent); err != nil {
			return nil, err
		}
	}
	if whole != (budget.Amount{}) {
		d.cost = cl.ended(first, whole)
	}
	return d, nil
}

// ended is the end of a lost run.
func (cl *closer) ended(r *read, spent budget.Amount) *runlog.RunFinished {
	return &runlog.RunFinished{State: store.Failed, Stop: runlog.StopFailed, Error: cl.why, Usage: r.Usage,
		Steps: r.Steps, ToolCalls: r.ToolCalls, Spent: spent}
}

// placeholder is the title of a run that takes the place of a missing one. It has no input and no model. A worker may be
// lost between that and the job's next state.
const placeholder = "a run that was not begun"

// fence takes a run's lease, or the place of a missing run.
func (cl *closer) fence(ctx context.Context, agent, id string) (*read, error) {
	for range 3 { // another worker may create it meanwhile
		head, err := cl.store.Claim(ctx, id, cl.owner, cl.ttl)
		switch {
		case err == nil, errors.Is(err, store.ErrFinished):
			return readRun(ctx, cl.store, head)
		case errors.Is(err, store.ErrLeased):
			return nil, &leasedError{head.Expires}
		case !errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("claiming run %q: %w", id, err)
		case cl.past:
			return &read{State: &runlog.State{Finished: &runlog.RunFinished{State: store.Failed, Stop: runlog.StopFailed, Error: "it was not begun"}}}, nil
		}
		body, err := jsonx.Marshal(&runlog.RunStarted{Agent: agent, Path: []string{agent}, Input: []llm.Message{}})
		if err != nil {
			return nil, err
		}
		head, err = cl.store.Create(ctx, store.Run{ID: id, Agent: agent, Title: placeholder}, cl.owner, cl.ttl,
			store.Event{Type: store.RunStarted, Body: body})
		if err == nil {
			return &read{State: new(runlog.State), head: head}, nil
		}
		if !errors.Is(err, store.ErrExists) {
			return nil, fmt.Errorf("taking the place of run %q: %w", id, err)
		}
	}
	return nil, fmt.Errorf("run %q comes and goes", id)
}

// finish ends a run that was fenced.
func (cl *closer) finish(ctx context.Context, r *read, spent budget.Amount) error {
	if err := cl.withdraw(ctx, r.head.ID); err != nil {
		return err
	}
	var events []store.Event
	add := func(typ, key string, body any) error {
		raw, err := jsonx.Marshal(body)
		events = append(events, store.Event{Type: typ, Key: key, Body: raw})
		return err
	}
	for _, open := range r.Calls {
		if !open.Sent || !open.Open() {
			continue
		}
		if err := add(store.ToolUnknown, open.Key, &runlog.ToolUnknown{Turn: open.Turn, CallID: open.CallID, Tool: open.Tool, Server: open.Server, Reason: cl.why}); err != nil {
			return err
		}
		if len(events) == store.MaxEvents-1 {
			break
		}
	}
	if err := add(store.RunFinished, "", cl.ended(r, spent)); err != nil {
		return err
	}
	_, err := cl.store.Append(ctx, store.Append{Run: r.head.ID, Owner: r.head.Owner, Epoch: r.head.Epoch, After: store.Unchecked, State: store.Failed, Summary: cl.why, Events: events})
	switch {
	case errors.Is(err, store.ErrFinished): // by a later owner
		return nil
	case errors.Is(err, store.ErrFenced):
		return &leasedError{time.Now()}
	}
	return err
}

// withdraw cancels the questions of a run.
func (cl *closer) withdraw(ctx context.Context, run string) error {
	for q := (store.AskQuery{Run: run, Status: store.AskPending}); ; {
		asks, err := cl.store.Asks(ctx, q)
		if err != nil || len(asks) == 0 {
			return err
		}
		for _, a := range asks {
			d := store.Decision{Status: store.AskCancelled, By: "worker", Answer: runlog.DeclineAnswer(cl.why)}
			if _, err := cl.store.SettleAsk(ctx, a.ID, d); err != nil && !errors.Is(err, store.ErrSettled) {
				return err
			}
		}
		q.After = asks[len(asks)-1].Cursor()
	}
}

// resultOf is the result of an ended run, for its job.
func resultOf(id string, end *runlog.RunFinished) json.RawMessage {
	if end == nil {
		return nil
	}
	return hooks.Encode(&agent.Result{RunID: id, Text: end.Text, Structured: end.Structured, StopReason: agent.StopReason(end.Stop),
		Usage: agent.Usage(end.Usage), Steps: end.Steps, ToolCalls: end.ToolCalls, Spent: agent.Spent(end.Spent)})
}

// names lists tools in an error.
func names(tools []string) string {
	return strings.Join(tools[:min(len(tools), 5)], ", ")
}

// bounded cuts an error to the bound of a store.
func bounded(s string) string {
	return clip.Text(clip.Valid(strings.ReplaceAll(s, "\x00", "")), store.MaxText-len("…"))
}
