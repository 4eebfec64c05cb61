// rules.go: what becomes of a job. Each function below is a few rows of this table; all are pure: they know the row, what the
// store says of its run ([facts], or the error of the handle that had it), and the time. The actor of the job carries out what
// they say, under the lease of the job, which is that of all runs of its tree, too.
//
//	 #   the row; its run               event                            write                               then
//	 1   queued, due; none              claimed                          running (by the claim)              begin
//	 2   running, lease over; open      claimed                          a loss; the first where there is    resume; from the second loss
//	                                                                     progress since the last one         alone; at MaxLosses row 12
//	 3   waiting; open                  claimed                                                              resume
//	 4   any; ended                     claimed                          ends as run.finished says           tell
//	 5   held                           waits for answers, ParkAfter                                         suspend, if it is idle
//	 6   held                           left: questions                  waiting, released, its questions    drop
//	 7   held                           left: its provider is away       waiting, released, when to wake;    drop
//	                                                                     after GiveUp row 12
//	 7a  held                           left: it waits for an instance   waiting, released: who has one      drop
//	                                    of a server                      takes it
//	 8   held                           left: the worker drains          waiting, released                   drop
//	 9   held                           fenced, or its actor died        nothing                             drop; row 2 if the lease is ours
//	10   held                           run.finished                     ends, with an answer in the same    tell
//	                                                                     append; queued again if it may pass
//	11   held, waiting                  cancelled, or its time is over                                       cancel its run; one that no process
//	                                                                                                         has gets run.ending, and is resumed
//	12   held; open                     no progress, given up            waiting, with its own question:     drop
//	                                                                     go on, or end
//	13   held; open                     the resume is refused            waiting, released, why, later       drop
//	14   held                           the store does not write         again, until row 9
//	15   queued; none                   cancelled, expired               ends                                tell
//	16   ended, not done                retry (store.Job.Retry)          queued                              begin: as a fork of the last run, at
//	                                                                                                         its last event, with its nonce and
//	                                                                                                         spending; or anew with --from-start
//	17   waiting, released; open        retry                            given out now                       row 3
//
// A worker leaves a run; it never ends one. No row leads from a loss or a wait to an end.

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// step is what the actor of a job does next.
type step int

const (
	leave  step = iota // nothing: it writes, if there is something to write, and the job leaves the worker
	begin              // an attempt: as a fork of the run From, or anew
	resume             // go on with its run
	alone              // likewise, once no other job runs
	ask                // open the question whether it goes on, and leave it with that
	settle             // write down what its own question was answered, and look again
	end                // write down how its run ends, and resume it, which carries that out
)

// verdict is what a rule says.
type verdict struct {
	step   step
	write  write             // before the step; none if it is zero
	ending *runlog.RunEnding // of step end
	why    string            // of step ask
}

// rules decide about one job.
type rules struct {
	job      *store.Job
	opts     *Options
	now      time.Time
	draining bool
}

// facts are what the store says of a job's run.
type facts struct {
	begun    bool                // the run exists
	whole    bool                // and is no fork that was not copied whole
	finished *runlog.RunFinished // nil while it has not ended
	state    *runlog.State       // nil where no rule needs it
	progress int64               // of its tree: it grows with each answer of a model, result of a call and decision in it
	own      *store.Ask          // the newest question of the job itself; nil for none
	waits    []string            // the open questions of its tree
}

// claimed is the first step of a job that was queued: rows 1, 15 and 16.
func (r *rules) claimed() verdict {
	switch {
	case r.draining:
		return verdict{write: r.returned()}
	case r.job.From == "" && !r.job.Expires.IsZero() && !r.now.Before(r.job.Expires):
		return verdict{write: ended(store.JobFailed, nil, "it expired before it was begun")}
	case r.job.Cancelling:
		return verdict{write: ended(store.JobCancelled, nil, errCancelled.Error())}
	}
	return verdict{step: begin}
}

// taken is the first step of a job that another worker has lost, or left waiting: rows 2, 3, 4, 11 and 12.
func (r *rules) taken(f *facts) verdict {
	switch {
	case f.finished != nil:
		return verdict{write: r.finished(f.finished)}
	case !f.begun: // its worker was lost before that
		return r.claimed()
	case !f.whole:
		return verdict{write: r.skipped("its run was not copied whole")}
	case r.job.Cancelling:
		return verdict{step: end, ending: cancelled()}
	case f.own != nil && f.own.Status == store.AskPending:
		return verdict{write: r.waiting([]string{f.own.ID})}
	case f.own != nil && f.unsettled():
		return verdict{step: settle}
	case f.own != nil && f.own.Status != store.AskAccepted && f.state.Ending == nil:
		return verdict{step: end, ending: &runlog.RunEnding{State: store.Cancelled, Stop: runlog.StopCancelled, Error: endedByPerson}}
	case r.job.State == store.JobRunning:
		return r.lost(f.progress)
	case r.job.Losses >= suspectAfter && f.progress <= r.job.Progress:
		return verdict{step: alone}
	}
	return verdict{step: resume}
}

// endedByPerson is the error of a run that a person has ended by the question of its job.
const endedByPerson = "a person has ended it, when asked whether it goes on"

// unsettled reports whether the answer to the job's own question is news to its journal.
func (f *facts) unsettled() bool {
	return slices.ContainsFunc(f.state.Asks, func(q *runlog.Question) bool { return q.Ask.ID == f.own.ID && q.Settled == nil })
}

// lost counts the loss of a worker, before the run goes on: it may end this process, too. Losses with progress between
// them do not add up.
func (r *rules) lost(progress int64) verdict {
	v := verdict{step: resume, write: write{update: store.JobUpdate{Lost: true, Progress: progress}}}
	losses := 1
	if progress <= r.job.Progress {
		losses = r.job.Losses + 1
	}
	switch {
	case losses >= r.opts.Retry.MaxLosses:
		v.step, v.why = ask, fmt.Sprintf("its worker was lost %d times, and nothing of it was recorded between", losses)
	case losses >= suspectAfter:
		v.step = alone // it waits: the loss of a worker that has not begun it does not count
		v.write.update.State, v.write.update.Error = store.JobWaiting, waitsFor+"its turn to run alone"
	}
	return v
}

// left is that of a run that is left and has not ended: rows 6, 7, 8, 9 and 13. Waits are the open questions of its tree, since
// when the outage lasts, and instance what it waits for, if that is an instance of a server.
func (r *rules) left(err error, waits []string, since time.Time, instance string) verdict {
	if out, ok := errors.AsType[*agent.OutageError](err); ok {
		if !since.IsZero() && r.now.Sub(since) >= r.opts.GiveUp {
			return verdict{step: ask, why: fmt.Sprintf("its model's provider %s has been away since %s (%s)", out.Provider, since.UTC().Format(time.RFC3339), out.Class)}
		}
		what := fmt.Sprintf("provider %s: %s", out.Provider, out.Class)
		w := r.parked(waits, waitsFor+what+": "+out.Err.Error())
		w.update.NotBefore, w.event.reason = out.RetryAt, what
		return verdict{write: w}
	}
	if refused, ok := errors.AsType[*agent.NotResumableError](err); ok {
		w := r.parked(nil, "it cannot go on here: "+refused.Error())
		w.update.NotBefore = r.now.Add(refusedFor)
		return verdict{write: w}
	}
	if instance != "" && len(waits) == 0 {
		w := r.parked(nil, waitsFor+instance)
		w.event.reason = instance
		return verdict{write: w}
	}
	return verdict{write: r.waiting(waits)}
}

// refusedFor is when a worker tries again to go on with a run whose resume was refused: another configuration may take it.
const refusedFor = time.Minute

// waiting releases a job that waits for answers, or for another worker.
func (r *rules) waiting(waits []string) write {
	why := ""
	if len(waits) == 0 {
		why = waitsFor + "a worker"
	}
	return r.parked(waits, why)
}

// parked releases a job that waits.
func (r *rules) parked(waits []string, why string) write {
	typ := JobParked
	if r.draining {
		typ = JobReturned
	}
	return write{update: store.JobUpdate{State: store.JobWaiting, Release: true, Waits: waits, Error: bounded(why)}, event: report{typ: typ}, last: true}
}

// waitsFor begins the error of a job that waits for something else than a person.
const waitsFor = "waits for "

// ended is the end of a job in this state.
func ended(state store.JobState, result json.RawMessage, why string) write {
	return write{update: store.JobUpdate{State: state, Result: result, Error: bounded(why)}, event: report{typ: JobEnded}, last: true}
}

// finished is that of a job by the last event of its run, which its worker could not follow: row 4.
func (r *rules) finished(end *runlog.RunFinished) write {
	result := resultOf(r.job.Run, end)
	switch end.State {
	case store.Finished:
		return ended(store.JobDone, result, "")
	case store.Limited:
		return ended(store.JobLimited, result, end.Error)
	case store.Cancelled:
		return ended(store.JobCancelled, result, end.Error)
	}
	w := ended(store.JobFailed, result, end.Error)
	w.update.Failed = true
	return w
}

// failed is that of a job whose run has ended without an answer, by its error: row 10.
func (r *rules) failed(result json.RawMessage, err error) write {
	var limit *agent.LimitError
	var stopped *agent.CancelledError
	failures := r.job.Failures + 1
	switch why := err.Error(); {
	case errors.Is(err, agent.ErrOutcomeUnknown):
		return ended(store.JobUnknown, result, why)
	case errors.As(err, &limit):
		return ended(store.JobLimited, result, why)
	case errors.As(err, &stopped): // with the job, or the run alone
		return ended(store.JobCancelled, result, why)
	case !r.opts.Retryable(err):
		w := ended(store.JobFailed, result, why)
		w.update.Failed = true
		return w
	case r.job.Cancelling:
		return ended(store.JobCancelled, result, why)
	case failures >= r.opts.Retry.maxAttempts(*r.job):
		w := ended(store.JobFailed, result, fmt.Sprintf("%v; %d attempts have failed", err, failures))
		w.update.Failed = true
		return w
	}
	wait := r.opts.Retry.delay(failures, err)
	u := store.JobUpdate{State: store.JobQueued, Failed: true, Error: bounded(err.Error()), NotBefore: r.now.Add(wait)}
	return write{update: u, event: report{typ: JobRetried, wait: wait, err: u.Error, attempt: result}, last: true}
}

// returned puts a job back that was not begun: the worker ends, or its runtime has no room.
func (r *rules) returned() write {
	u := store.JobUpdate{State: store.JobQueued}
	if !r.draining {
		u.NotBefore = r.now.Add(time.Second)
	}
	return write{update: u, event: report{typ: JobReturned}, last: true}
}

// skipped leaves out an attempt whose run cannot be used. The next one begins where this one was to begin.
func (r *rules) skipped(why string) write {
	w := r.returned()
	w.update.Error, w.event.err = why, why
	w.update.NotBefore = r.now.Add(time.Second)
	return w
}

// cancelled is the end of a run whose job was cancelled while no process had it.
func cancelled() *runlog.RunEnding {
	return &runlog.RunEnding{State: store.Cancelled, Stop: runlog.StopCancelled, Error: errCancelled.Error()}
}

// outageSince returns since when a run waits for a provider; the zero time if it does not.
func (f *facts) outageSince() time.Time {
	if f.state == nil || f.state.Outage == nil {
		return time.Time{}
	}
	return f.state.Outage.Since
}
