package worker

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/internal/jobhook"
	"github.com/troupe-dev/troupe/store"
)

// hooks are functions of package agent that serve jobs only.
var hooks = jobhook.Get[*jobhook.Hooks[agent.Agent, agent.Run, agent.RunOptions, agent.ResumeOptions, agent.ForkOptions, agent.Result]]()

// jobEnd is the end of a job whose run has an answer: it is written with the run's last event.
type jobEnd struct {
	w    *Worker
	job  *store.Job
	made atomic.Pointer[store.JobUpdate] // by the run's journal
}

// newEnd returns what the run of the job that is about to begin, or to go on, knows of it.
func (j *work) newEnd() jobhook.Job[agent.Result] {
	job := j.job
	if job.Lost {
		held := *job
		held.Lost, job = false, &held
	}
	j.end = &jobEnd{w: j.w, job: job}
	return jobhook.Job[agent.Result]{ID: job.ID, Owner: j.w.owner, Epoch: job.Epoch, Lease: j.w.opts.Lease, Ends: j.end.make}
}

// make returns it, or nil where the rules say how the job goes on: see [work.judge].
func (e *jobEnd) make(res *agent.Result, err error) *store.JobUpdate {
	if err != nil {
		return nil
	}
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

// endSeen is a message to itself: the job was read.
type endSeen struct {
	job store.Job
	err error
}

// readJob reads the job. Its actor receives [endSeen].
func (j *work) readJob(c *actors.Context) {
	s, id := j.w.store, j.job.ID
	actors.Await(c, func(ctx context.Context) (store.Job, error) { return s.Job(ctx, id) },
		func(job store.Job, err error) any { return endSeen{job, err} })
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
	j.readJob(c)
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
