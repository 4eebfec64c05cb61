package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// lookAt reads what the store says of a job's run.
func (w *Worker) lookAt(ctx context.Context, j *store.Job) (*facts, error) {
	head, err := w.store.Run(ctx, j.Run)
	if errors.Is(err, store.ErrNotFound) || err == nil && head.Job != j.ID { // a run of another origin has the name
		return &facts{begun: err == nil, whole: false}, nil
	} else if err != nil {
		return nil, err
	}
	f := &facts{begun: true, whole: true}
	if f.waits, f.own, err = w.openQuestions(ctx, j.Run); err != nil {
		return nil, err
	}
	if f.state, err = runlog.Fold(ctx, w.store, j.Run); err != nil {
		return nil, fmt.Errorf("reading run %q: %w", j.Run, err)
	}
	f.finished = f.state.Finished
	if f.finished == nil && (j.State == store.JobRunning || j.Losses >= suspectAfter) { // a loss is counted
		if f.progress, err = w.progress(ctx, j.Run, f.state.Progress); err != nil {
			return nil, err
		}
	}
	f.whole = f.state.Started != nil && (f.state.Started.Fork == "" || f.state.Forked != nil)
	return f, nil
}

// progress returns that of a run and of all below it, ended or not: a sub-agent that gets on is progress of the job.
func (w *Worker) progress(ctx context.Context, run string, own int64) (int64, error) {
	sum, all := own, []string{run}
	for i := 0; i < len(all) && len(all) < maxTree; i++ {
		for q := (store.Query{Parent: all[i]}); ; {
			page, err := w.store.Runs(ctx, q)
			if err != nil {
				return 0, err
			}
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				state, err := runlog.Fold(ctx, w.store, r.ID)
				if err != nil {
					return 0, fmt.Errorf("reading run %q: %w", r.ID, err)
				}
				sum += state.Progress
				all = append(all, r.ID)
			}
			q.After = page[len(page)-1].Cursor()
		}
	}
	return sum, nil
}

// openQuestions returns the open questions of a run and of those below it, and the newest question of the job itself. There are none
// where one is of a kind that a process has to wait for.
func (w *Worker) openQuestions(ctx context.Context, run string) (ids []string, own *store.Ask, err error) {
	alone := true
	for runs := []string{run}; len(runs) > 0; runs = runs[1:] {
		for q := (store.AskQuery{Run: runs[0]}); ; {
			asks, err := w.store.Asks(ctx, q)
			if err != nil {
				return nil, nil, err
			}
			for _, a := range asks {
				if a.Kind == agent.KindJob && own == nil {
					own = &a
				}
				if a.Status == store.AskPending {
					ids = append(ids, a.ID)
					alone = alone && waitsAlone(a.Kind) && len(ids) <= store.MaxWaits
				}
			}
			if len(asks) == 0 {
				break
			}
			q.After = asks[len(asks)-1].Cursor()
		}
		below, err := w.store.Runs(ctx, store.Query{Parent: runs[0], States: []store.RunState{store.Running, store.Waiting}})
		if err != nil {
			return nil, nil, err
		}
		for _, r := range below {
			runs = append(runs, r.ID)
		}
	}
	if !alone {
		ids = nil
	}
	return ids, own, nil
}

// openOwn opens the question whether a job goes on, in the journal of its run, and returns its ID.
func (w *Worker) openOwn(ctx context.Context, j *store.Job, f *facts, why string) (id string, err error) {
	p := runlog.JobPayload{Job: j.ID, Why: why, Losses: j.Losses}
	if out := f.state.Outage; out != nil {
		p.Class, p.Since = out.Class, out.Since
		if a := w.agents[j.Agent]; a != nil && len(a.Providers()) == 1 {
			p.Provider = a.Providers()[0]
		}
	}
	payload, hash := runlog.Payload(p)
	a := store.Ask{ID: fmt.Sprintf("%s-job%d", j.Run, f.state.Seq), Run: j.Run, Kind: agent.KindJob, Path: f.state.Started.Path,
		Trust: "program", Payload: payload, Hash: hash}
	opened := runlog.Entry{Time: store.Clock(time.Now()), Type: store.AskOpened, Key: a.ID, Body: &runlog.AskOpened{Ask: a}}
	return a.ID, w.append(ctx, j, f, opened, store.Append{State: store.Waiting, Asks: []store.Ask{a}})
}

// settleOwn writes down the answer to the question of the job itself.
func (w *Worker) settleOwn(ctx context.Context, j *store.Job, f *facts) error {
	d := f.own.Decision
	body := &runlog.AskSettled{Status: d.Status, By: d.By, Scope: d.Scope, Reason: runlog.Reason(d.Answer)}
	return w.append(ctx, j, f, runlog.Entry{Time: store.Clock(time.Now()), Type: store.AskSettled, Key: f.own.ID, Body: body}, store.Append{})
}

// writeEnding writes down how a run ends that no process has.
func (w *Worker) writeEnding(ctx context.Context, j *store.Job, f *facts, e *runlog.RunEnding) error {
	if f.state.Ending != nil {
		return nil
	}
	return w.append(ctx, j, f, runlog.Entry{Time: store.Clock(time.Now()), Type: runlog.RunEndingType, Body: e}, store.Append{})
}

// finish ends the runs of a job that was cancelled and cannot go on here: those below first, then its own.
func (w *Worker) finish(ctx context.Context, j *store.Job, f *facts) error {
	if f.finished != nil {
		return nil
	}
	all := []string{j.Run}
	for i := 0; i < len(all) && len(all) < maxTree; i++ {
		for q := (store.Query{Parent: all[i], States: []store.RunState{store.Running, store.Waiting}}); ; {
			page, err := w.store.Runs(ctx, q)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				all = append(all, r.ID)
			}
			q.After = page[len(page)-1].Cursor()
		}
	}
	for _, id := range slices.Backward(all) {
		if err := w.finishRun(ctx, j, id); err != nil {
			return fmt.Errorf("ending run %q: %w", id, err)
		}
	}
	return nil
}

// maxTree bounds the runs of one job that are ended, or looked at for progress.
const maxTree = 1000

// finishRun ends one run as cancelled: its calls that were sent have an unknown outcome, and its questions are withdrawn.
func (w *Worker) finishRun(ctx context.Context, j *store.Job, id string) error {
	s, err := runlog.Fold(ctx, w.store, id)
	if err != nil || s.Finished != nil {
		return err
	}
	now := store.Clock(time.Now())
	var entries []runlog.Entry
	for _, c := range s.Calls {
		if c.Sent && c.Open() && len(entries) < store.MaxEvents/2 {
			entries = append(entries, runlog.Entry{Time: now, Type: store.ToolUnknown, Key: c.Key, Body: &runlog.ToolUnknown{
				Turn: c.Turn, CallID: c.CallID, Tool: c.Tool, Server: c.Server, Reason: errCancelled.Error()}})
		}
	}
	withdrawn := store.Decision{Status: store.AskCancelled, By: "worker", Answer: runlog.DeclineAnswer(errCancelled.Error())}
	for _, q := range s.Asks {
		if q.Settled != nil {
			continue
		}
		if _, err := w.store.SettleAsk(ctx, q.Ask.ID, withdrawn); err != nil && !errors.Is(err, store.ErrSettled) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	entries = append(entries, runlog.Entry{Time: now, Type: store.RunFinished, Body: &runlog.RunFinished{State: store.Cancelled, Stop: runlog.StopCancelled,
		Error: errCancelled.Error(), Usage: s.Usage, Steps: s.Steps, ToolCalls: s.ToolCalls, Spent: s.Spent}})
	events, err := runlog.Encode(nil, entries)
	if err != nil {
		return err
	}
	_, err = w.store.Append(ctx, store.Append{Run: id, Owner: w.owner, Epoch: j.Epoch, After: s.Seq, State: store.Cancelled, Summary: errCancelled.Error(), Events: events})
	return err
}

// append adds an event to the journal of a job's run, under the lease of the job.
func (w *Worker) append(ctx context.Context, j *store.Job, f *facts, e runlog.Entry, a store.Append) error {
	ev, err := e.Encode()
	if err != nil {
		return err
	}
	a.Run, a.Owner, a.Epoch, a.After, a.Events = j.Run, w.owner, j.Epoch, f.state.Seq, []store.Event{ev}
	_, err = w.store.Append(ctx, a)
	return err
}
