// park.go: jobs that wait for a person without a worker.
//
//	running ── waits for ParkAfter, or the worker drains ──▶ looking ──▶ suspending ──▶ (its run ends,
//	   ▲  │                                                     │            │     ▲     and the job leaves)
//	   │  └──────────── the time of the drain is over ──────────┼────────────┼─────┘
//	   └────────── it waits for something else, or not any more ◀────────────┘
//
// A parked job holds no actor, no goroutine, no lease and no memory. The store gives it out once one of
// its questions is decided or has expired, and any worker with its agent goes on with its run.

package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/store"
)

// Messages to itself.
type (
	parkNow   struct{} // it has waited for ParkAfter
	questions struct { // of its run, that are open
		ids []string // nil where one is of a kind that a process has to wait for
		err error
	}
	setAside struct{ err error } // the outcome of parking it
)

// waitsAlone reports whether the answer to a question of that kind is all that a run waits for: a
// login, say, has to be looked for.
func waitsAlone(kind string) bool {
	return slices.Contains([]string{agent.KindTool, agent.KindLimit, agent.KindOutcome}, kind)
}

// openQuestions returns the open questions of a run and of those below it.
func (w *Worker) openQuestions(ctx context.Context, run string) (ids []string, err error) {
	for runs := []string{run}; len(runs) > 0; runs = runs[1:] {
		asks, err := w.store.Asks(ctx, store.AskQuery{Run: runs[0], Status: store.AskPending})
		if err != nil {
			return nil, err
		}
		for _, a := range asks {
			if ids = append(ids, a.ID); !waitsAlone(a.Kind) || len(ids) > store.MaxWaits {
				return nil, nil
			}
		}
		below, err := w.store.Runs(ctx, store.Query{Parent: runs[0], States: []store.RunState{store.Running, store.Waiting}})
		if err != nil {
			return nil, err
		}
		for _, r := range below {
			runs = append(runs, r.ID)
		}
	}
	return ids, nil
}

// lookForQuestions asks the store which questions the run waits for.
func (j *work) lookForQuestions(c *actors.Context) {
	w, run := j.w, j.job.Run
	actors.Await(c, func(ctx context.Context) ([]string, error) { return w.openQuestions(ctx, run) },
		func(ids []string, err error) any { return questions{ids, err} })
}

// parkLater parks the job if it still waits for a person after a while.
func (j *work) parkLater(c *actors.Context, now agent.Standing) {
	if after := j.w.opts.ParkAfter; now.Waiting && now.For == "" && after > 0 {
		j.setParkTimer(c, after)
	} else if j.parkTimer != nil {
		j.parkTimer.Clear()
	}
}

func (j *work) setParkTimer(c *actors.Context, after time.Duration) {
	if j.parkTimer == nil {
		j.parkTimer = c.NewTimer(parkNow{})
	}
	j.parkTimer.Set(after)
}

// parkable reports whether the job may be parked now.
func (j *work) mayPark() bool {
	return j.waiting && !j.parking && !j.draining && j.run != nil && j.why == nil
}

// setAside parks the job if all that it waits for are answers.
func (j *work) setAside(c *actors.Context, m questions) {
	if !j.mayPark() || m.err != nil || len(m.ids) == 0 {
		return
	}
	j.suspendIdle(c)
}

// park parks a job that waits for a person when the worker ends: another one goes on with it, and its
// question stays open. A job that waits for something else has the time of the drain.
func (j *work) park(c *actors.Context) {
	if j.draining && !j.over && j.waiting && !j.parking && j.run != nil && j.why == nil {
		j.suspendIdle(c)
	}
}

func (j *work) suspendIdle(c *actors.Context) {
	j.parking = true
	run := j.run
	actors.Await(c, func(ctx context.Context) (struct{}, error) { return struct{}{}, run.SuspendIdle(ctx) },
		func(_ struct{}, err error) any { return setAside{err} })
}

// suspend leaves a job wherever it is, as the time of the drain is over: another worker goes on with
// it at once. A suspect begins again, alone.
func (j *work) suspend(c *actors.Context) {
	switch {
	case j.run == nil || j.why != nil:
		return
	case suspect(j.job):
		j.stop(errReturned)
		return
	}
	run := j.run
	actors.Await(c, func(ctx context.Context) (struct{}, error) { return struct{}{}, run.Suspend(ctx) },
		func(_ struct{}, err error) any { return suspended{err} })
}

// wasSetAside follows the attempt to park the job. If it succeeds the run's end follows.
func (j *work) wasSetAside(c *actors.Context, err error) {
	if err == nil {
		return
	}
	j.parking = false
	if !errors.Is(err, agent.ErrNotWaiting) {
		c.Log().Warn("a job that waits was not parked", "job", j.job.ID, "error", err)
	}
	switch {
	case !j.waiting || j.over:
	case j.draining: // a call beside the question may return
		j.setParkTimer(c, time.Second)
	default:
		j.setParkTimer(c, j.w.opts.ParkAfter)
	}
}

// leaveWaiting releases a job whose run was suspended, until one of its questions is decided.
func (j *work) leaveWaiting(c *actors.Context) {
	j.state = func(c *actors.Context, msg any) {
		switch m := msg.(type) {
		case questions:
			if m.err != nil {
				j.later(c, j.storeDelay(m.err), j.leaveWaiting)
				return
			}
			event, why := JobParked, ""
			if j.draining {
				event = JobReturned
			}
			if len(m.ids) == 0 {
				why = waitsFor + "a worker"
			}
			j.write(c, write{update: store.JobUpdate{State: store.JobWaiting, Release: true, Waits: m.ids, Error: why}, event: Event{Type: event}, last: true})
		case cancelJob:
			j.job.Cancelling = true // the next worker ends it
		case drainOver:
			j.over = true
		}
	}
	j.lookForQuestions(c)
}
