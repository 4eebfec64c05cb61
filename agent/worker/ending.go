package worker

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// ending decides how a job leaves the worker, from the facts of its attempt.
type ending struct {
	job      *store.Job
	opts     *Options
	counted  bool // the loss of its last worker is
	draining bool // the worker ends
}

// ended is the end of a job in this state.
func ended(state store.JobState, result json.RawMessage, why string) write {
	return write{update: store.JobUpdate{State: state, Result: result, Error: bounded(why)}, event: report{typ: JobEnded}, last: true}
}

// failed is the end of a job whose last attempt has failed.
func failed(result json.RawMessage, why string) write {
	w := ended(store.JobFailed, result, why)
	w.update.Failed = true
	return w
}

// requeued returns a job to the queue. The outcome of the attempt is reported and not kept: the
// job's result is that of the last one.
func requeued(attempt json.RawMessage, wait time.Duration, failed bool, why string) write {
	u := store.JobUpdate{State: store.JobQueued, Failed: failed, Error: bounded(why)}
	if wait > 0 {
		u.NotBefore = time.Now().Add(wait)
	}
	ev := report{typ: JobReturned, err: u.Error, attempt: attempt}
	if failed {
		ev.typ, ev.wait = JobRetried, wait
	}
	return write{update: u, event: ev, last: true}
}

// resumable reports whether the run of a lost job is to go on. A job that may have ended its
// workers begins again alone instead, and at last fails.
func (e ending) resumable() bool {
	return !e.job.Cancelling && (e.job.State != store.JobRunning || e.job.Losses+1 < min(suspectAfter, e.opts.Retry.MaxLosses))
}

// recovered is that of a job whose worker was lost, by the effects of its run.
func (e ending) recovered(d *effects) write {
	if end := d.end; end != nil {
		switch end.State {
		case store.Finished: // its worker could not record that
			return ended(store.JobDone, resultOf(e.job.Run, end), "")
		case store.Limited:
			return ended(store.JobLimited, resultOf(e.job.Run, end), end.Error)
		}
	}
	unsafe, cost := d.unsafe(), resultOf(e.job.Run, d.cost)
	switch {
	case e.job.Cancelling:
		return ended(store.JobCancelled, cost, "cancelled; its worker was lost before")
	case len(unsafe) > 0:
		return ended(store.JobUnknown, cost, fmt.Sprintf(
			"its worker was lost after the run may have called tools that are not declared safe to call twice: %s", names(unsafe)))
	}
	return e.wasLost(cost, d.begun)
}

// wasLost queues the job of a lost worker again. The loss counts only if the job was running:
// a job that waits for a person, or has not begun, did not end its worker.
func (e ending) wasLost(cost json.RawMessage, begun bool) write {
	u := store.JobUpdate{State: store.JobQueued, Lost: begun && e.job.State == store.JobRunning && !e.counted, Error: "its worker was lost"}
	if losses := e.job.Losses + 1; u.Lost && losses >= e.opts.Retry.MaxLosses {
		u.State, u.Result, u.Error = store.JobFailed, cost, fmt.Sprintf("its worker was lost %d times while it ran", losses)
		return write{update: u, event: report{typ: JobEnded}, last: true}
	}
	return write{update: u, event: report{typ: JobRetried, err: u.Error, attempt: cost}, last: true}
}

// failure is that of a job whose attempt has failed, unless another one may follow: the effects of
// the run decide, see afterFailure.
func (e ending) failure(result json.RawMessage, err error) (w write, again bool) {
	if !e.opts.Retryable(err) {
		return failed(result, err.Error()), false
	}
	if failures := e.job.Failures + 1; failures >= e.opts.Retry.maxAttempts(*e.job) {
		return failed(result, fmt.Sprintf("%v; %d attempts have failed", err, failures)), false
	}
	return write{}, true
}

// afterFailure queues a job again if its effects may happen twice.
func (e ending) afterFailure(d *effects, result json.RawMessage, err error) write {
	switch {
	case len(d.open) > 0:
		return ended(store.JobUnknown, result, fmt.Sprintf("%v; the effect of these calls is unknown: %s", err, names(d.open)))
	case len(d.made) > 0:
		return failed(result, fmt.Sprintf("%v; it is not tried again, since the run has called tools that are not declared safe to call twice: %s", err, names(d.made)))
	case e.job.Cancelling:
		return ended(store.JobCancelled, result, err.Error())
	}
	return requeued(result, e.opts.Retry.delay(e.job.Failures+1, err), true, err.Error())
}

// interrupted is that of a job whose run was ended with the worker.
func (e ending) interrupted(d *effects, result json.RawMessage) write {
	if unsafe := d.unsafe(); len(unsafe) > 0 {
		return ended(store.JobUnknown, result, fmt.Sprintf(
			"its worker ended after the run had called tools that are not declared safe to call twice: %s", names(unsafe)))
	}
	return e.returned(result)
}

// returned returns the job to the queue, without a failure of its own.
func (e ending) returned(attempt json.RawMessage) write {
	wait := time.Duration(0)
	if !e.draining { // the runtime has no room, or is about to end
		wait = time.Second
	}
	return requeued(attempt, wait, false, "")
}
