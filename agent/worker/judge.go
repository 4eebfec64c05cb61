package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/internal/jobhook"
	"github.com/troupe-dev/troupe/store"
)

// collect takes the outcome of the run, which is there by now or very soon.
func (j *work) collect(c *actors.Context) {
	j.allowance.stop()
	j.state = j.judging
	if j.parking.stop(); j.parking.stands.Waiting { // it works again, at its end
		j.parking.stands.Waiting = false
		j.w.board.place(j.job, active, j.run)
	}
	run := j.run
	if res, err := run.Result(); !errors.Is(err, agent.ErrNotEnded) {
		j.judge(c, outcome{res, err})
		return
	}
	actors.Await(c, func(ctx context.Context) (*agent.Result, error) { return run.Wait(ctx) },
		func(res *agent.Result, err error) any { return outcome{res, err} })
}

func (j *work) judging(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case outcome:
		j.judge(c, m)
	case cancelJob:
		j.cancelling()
	case drainOver:
		j.over = true
	}
}

// judge decides how the job ends.
func (j *work) judge(c *actors.Context, m outcome) {
	if m.err == nil {
		j.done(c, m.res)
		return
	}
	result := hooks.Encode(m.res)
	var limit *agent.LimitError
	var cancelled *agent.CancelledError
	var journal *agent.JournalError
	var away *agent.OutageError
	switch {
	case errors.As(m.err, &away): // the attempt that follows ends its run
		j.failed(c, result, m.err)
	case errors.Is(m.err, agent.ErrSuspended):
		j.leaveWaiting(c)
	case errors.As(m.err, &journal) && (errors.Is(m.err, store.ErrFenced) || errors.Is(m.err, store.ErrFinished)):
		j.close(c, j.job.Run, j.recovered) // another worker has claimed the run, but maybe not the job
	case errors.Is(m.err, agent.ErrOutcomeUnknown):
		j.write(c, ended(store.JobUnknown, result, m.err.Error()))
	case j.why == errTimeout:
		j.write(c, ended(store.JobLimited, result, fmt.Sprintf("it took longer than %v", j.job.Timeout)))
	case j.why == errReturned, errors.Is(m.err, agent.ErrClosed):
		j.judgeEffects(c, func(c *actors.Context, d *effects) { j.write(c, j.ending().interrupted(d, result)) })
	case errors.As(m.err, &cancelled): // with the job, or the run alone
		j.write(c, ended(store.JobCancelled, result, m.err.Error()))
	case errors.As(m.err, &limit):
		j.write(c, ended(store.JobLimited, result, m.err.Error()))
	default:
		j.failed(c, result, m.err)
	}
}

// ending returns what decides how the job leaves.
func (j *work) ending() ending { return ending{j.job, &j.w.opts, j.counted, j.draining} }

// hooks are functions of package agent that serve jobs only.
var hooks = jobhook.Get[*jobhook.Hooks[agent.Agent, agent.Run, agent.RunOptions, agent.ResumeOptions, agent.ForkOptions, agent.Result]]()

// jobEnd is the end of a job whose run has an answer: it is written with the run's last event.
type jobEnd struct {
	w    *Worker
	job  *store.Job
	made atomic.Pointer[store.JobUpdate] // by the run's journal
}

// hook returns the job for its run, which is about to begin.
func (j *work) hook() jobhook.Job[agent.Result] {
	job := j.job
	if job.Lost {
		held := *job
		held.Lost, job = false, &held
	}
	j.end = &jobEnd{w: j.w, job: job}
	return jobhook.Job[agent.Result]{ID: job.ID, Owner: j.w.owner, Epoch: job.Epoch, Lease: j.w.opts.Lease, Ends: j.end.make}
}

func (e *jobEnd) make(res *agent.Result) *store.JobUpdate {
	u := &store.JobUpdate{JobLease: store.JobLease{ID: e.job.ID, Epoch: e.job.Epoch}, Owner: e.w.owner, State: store.JobDone,
		Result: hooks.Encode(res), Known: e.job, Ended: new(store.Job)}
	e.made.Store(u)
	e.w.board.commits(e.job)
	e.w.send(lookNow{}) // the claim of the next job can share the commit
	return u
}

// ended returns the job as its run, which has ended, has left it; nil where that is not known.
func (e *jobEnd) ended() *store.Job {
	if u := e.made.Load(); u != nil {
		return u.Ended
	}
	return nil
}

// endSeen is a message to itself: the job of a run that has an answer was read.
type endSeen struct {
	job store.Job
	err error
}

// done ends a job whose run has an answer, unless the run's last event has done so.
func (j *work) done(c *actors.Context, res *agent.Result) {
	if job := j.end.ended(); job != nil && endedUnder(j.job.Epoch, job, nil) {
		j.leaveEnded(c, job)
		return
	}
	j.state = func(c *actors.Context, msg any) {
		switch m := msg.(type) {
		case endSeen:
			if endedUnder(j.job.Epoch, &m.job, m.err) {
				j.leaveEnded(c, &m.job)
				return
			}
			j.write(c, ended(store.JobDone, hooks.Encode(res), ""))
		case drainOver:
			j.over = true
		}
	}
	s, id := j.w.store, j.job.ID
	actors.Await(c, func(ctx context.Context) (store.Job, error) { return s.Job(ctx, id) },
		func(job store.Job, err error) any { return endSeen{job, err} })
}

// endedUnder reports whether a job as it was read has ended under the lease of this epoch.
func endedUnder(epoch int64, job *store.Job, err error) bool {
	return err == nil && job.State.Ended() && job.Epoch == epoch
}

// leaveEnded reports that the job has ended, with what is still to be reported of it. Updates that
// are under way come too late.
func (j *work) leaveEnded(c *actors.Context, job *store.Job) {
	for _, w := range j.updates.drop() {
		if w.last || w.event.typ == "" {
			continue
		}
		then := *j.job
		then.State = cmp.Or(w.update.State, then.State)
		w.event.job = &then
		j.w.events.emit(w.event)
	}
	j.job = job
	j.leave(c, report{typ: JobEnded})
}

// failed ends the job, or queues it again.
func (j *work) failed(c *actors.Context, result json.RawMessage, err error) {
	if w, again := j.ending().failure(result, err); !again {
		j.write(c, w)
		return
	}
	j.judgeEffects(c, func(c *actors.Context, d *effects) { j.write(c, j.ending().afterFailure(d, result, err)) })
}

// judgeEffects reads the effects of the run; while the store fails it tries again.
func (j *work) judgeEffects(c *actors.Context, then func(*actors.Context, *effects)) {
	j.state = func(c *actors.Context, msg any) {
		switch m := msg.(type) {
		case judged:
			if m.err != nil {
				j.later(c, j.storeDelay(m.err), func(c *actors.Context) { j.judgeEffects(c, then) })
				return
			}
			then(c, m.effects)
		case cancelJob:
			j.cancelling()
		case drainOver:
			j.over = true
		}
	}
	s, id := j.w.store, j.job.Run
	actors.Await(c, func(ctx context.Context) (*effects, error) { return look(ctx, s, id) },
		func(d *effects, err error) any { return judged{d, err} })
}
