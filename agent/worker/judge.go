package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/store"
)

// collect waits for the outcome of the run.
func (j *work) collect(c *actors.Context) {
	j.clock.Clear()
	j.state = j.judging
	if j.waiting { // it works again, at its end
		j.waiting = false
		j.w.board.place(j.job, active, j.run)
	}
	run := j.run
	actors.Await(c, func(ctx context.Context) (*agent.Result, error) { return run.Wait(ctx) },
		func(res *agent.Result, err error) any { return outcome{res, err} })
}

func (j *work) judging(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case outcome:
		j.judge(c, m)
	case cancelJob:
		j.job.Cancelling = true
	case drainOver:
		j.over = true
	}
}

// judge decides how the job ends.
func (j *work) judge(c *actors.Context, m outcome) {
	result := encodeResult(m.res)
	var limit *agent.LimitError
	var cancelled *agent.CancelledError
	var journal *agent.JournalError
	switch {
	case m.err == nil:
		j.done(c, result)
	case errors.Is(m.err, agent.ErrSuspended):
		j.leaveWaiting(c)
	case errors.As(m.err, &journal) && (errors.Is(m.err, store.ErrFenced) || errors.Is(m.err, store.ErrFinished)):
		j.close(c, j.job.Run, j.recovered) // another worker has claimed the run, but maybe not the job
	case errors.Is(m.err, agent.ErrOutcomeUnknown):
		j.end(c, store.JobUnknown, result, m.err.Error())
	case j.why == errTimeout:
		j.end(c, store.JobLimited, result, fmt.Sprintf("it took longer than %v", j.job.Timeout))
	case j.why == errReturned, errors.Is(m.err, agent.ErrClosed):
		j.judgeEffects(c, func(c *actors.Context, d *effects) {
			if unsafe := d.unsafe(); len(unsafe) > 0 {
				j.end(c, store.JobUnknown, result, fmt.Sprintf(
					"its worker ended after the run had called tools that are not declared safe to call twice: %s", names(unsafe)))
				return
			}
			j.giveBack(c, result)
		})
	case errors.As(m.err, &cancelled): // with the job, or the run alone
		j.end(c, store.JobCancelled, result, m.err.Error())
	case errors.As(m.err, &limit):
		j.end(c, store.JobLimited, result, m.err.Error())
	default:
		j.failed(c, result, m.err)
	}
}

// jobEnd returns the end of a job whose run has an answer: it is written with the run's last event.
func (j *work) jobEnd() func(*agent.Result) *store.JobUpdate {
	lease, owner := store.JobLease{ID: j.job.ID, Epoch: j.job.Epoch}, j.w.owner
	return func(res *agent.Result) *store.JobUpdate {
		return &store.JobUpdate{JobLease: lease, Owner: owner, State: store.JobDone, Result: encodeResult(res)}
	}
}

// endSeen is a message to itself: the job of a run that has an answer was read.
type endSeen struct {
	job store.Job
	err error
}

// done ends a job whose run has an answer, unless the run's last event has done so.
func (j *work) done(c *actors.Context, result json.RawMessage) {
	j.state = func(c *actors.Context, msg any) {
		switch m := msg.(type) {
		case endSeen:
			if j.endedHere(m.job, m.err) {
				j.leaveEnded(c, m.job)
				return
			}
			j.end(c, store.JobDone, result, "")
		case drainOver:
			j.over = true
		}
	}
	s, id := j.w.store, j.job.ID
	actors.Await(c, func(ctx context.Context) (store.Job, error) { return s.Job(ctx, id) },
		func(job store.Job, err error) any { return endSeen{job, err} })
}

// endedHere reports whether a job as it was read has ended under the lease of this worker.
func (j *work) endedHere(job store.Job, err error) bool {
	return err == nil && job.State.Ended() && job.Epoch == j.job.Epoch
}

// leaveEnded reports that the job has ended, with what is still to be reported of it. Updates that
// are under way come too late.
func (j *work) leaveEnded(c *actors.Context, job store.Job) {
	for _, w := range j.writes {
		if w.last || w.event.Type == "" {
			continue
		}
		w.event.Job = j.job
		w.event.Job.State = cmp.Or(w.update.State, j.job.State)
		j.w.events.emit(w.event)
	}
	j.job, j.writes, j.leaves = job, nil, true
	j.leave(c, JobEnded, &Event{Type: JobEnded, Job: job})
}

// failed queues a job again if its failure may pass and its effects may happen twice.
func (j *work) failed(c *actors.Context, result json.RawMessage, err error) {
	if !j.w.opts.Retryable(err) {
		j.fail(c, result, err.Error())
		return
	}
	failures := j.job.Failures + 1
	if failures >= j.w.opts.Retry.maxAttempts(j.job) {
		j.fail(c, result, fmt.Sprintf("%v; %d attempts have failed", err, failures))
		return
	}
	j.judgeEffects(c, func(c *actors.Context, d *effects) {
		switch {
		case len(d.open) > 0:
			j.end(c, store.JobUnknown, result, fmt.Sprintf("%v; the effect of these calls is unknown: %s", err, names(d.open)))
		case len(d.made) > 0:
			j.fail(c, result, fmt.Sprintf("%v; it is not tried again, since the run has called tools that are not declared safe to call twice: %s", err, names(d.made)))
		case j.job.Cancelling:
			j.end(c, store.JobCancelled, result, err.Error())
		default:
			j.requeue(c, result, j.w.opts.Retry.delay(failures, err), true, err.Error())
		}
	})
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
			j.job.Cancelling = true
		case drainOver:
			j.over = true
		}
	}
	s, id := j.w.store, j.job.Run
	actors.Await(c, func(ctx context.Context) (*effects, error) { return look(ctx, s, id) },
		func(d *effects, err error) any { return judged{d, err} })
}

// requeue returns the job to the queue. The outcome of the attempt is reported and not kept:
// the job's result is that of the last one.
func (j *work) requeue(c *actors.Context, attempt json.RawMessage, wait time.Duration, failed bool, why string) {
	u := store.JobUpdate{State: store.JobQueued, Failed: failed, Error: bounded(why)}
	if wait > 0 {
		u.NotBefore = time.Now().Add(wait)
	}
	ev := Event{Type: JobReturned, Error: u.Error, Attempt: attempt}
	if failed {
		ev.Type, ev.Wait = JobRetried, wait
	}
	j.write(c, write{update: u, event: ev, last: true})
}

// giveBack returns the job to the queue, without a failure of its own.
func (j *work) giveBack(c *actors.Context, attempt json.RawMessage) {
	wait := time.Duration(0)
	if !j.draining { // the runtime has no room, or is about to end
		wait = time.Second
	}
	j.requeue(c, attempt, wait, false, "")
}

func (j *work) fail(c *actors.Context, result json.RawMessage, why string) {
	j.write(c, write{update: store.JobUpdate{State: store.JobFailed, Failed: true, Result: result, Error: bounded(why)}, event: Event{Type: JobEnded}, last: true})
}

func (j *work) end(c *actors.Context, state store.JobState, result json.RawMessage, why string) {
	j.write(c, write{update: store.JobUpdate{State: state, Result: result, Error: bounded(why)}, event: Event{Type: JobEnded}, last: true})
}
