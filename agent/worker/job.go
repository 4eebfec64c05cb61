// job.go: the actor that has one job.
//
//	claimed ─┬──────────────▶ starting ───▶ running ───▶ judging ───▶ writing ───▶ (stops)
//	         ├─ lost ──────▶ resuming ───────▲                          ▲
//	         │                  └─ its run cannot go on ─▶ closing ─────┤
//	         └─ an old run is open ──────────────────────▶ closing ─────┘
//
// A job that waits for a person is running, too: it waits for one message, and holds no
// goroutine.

package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/store"
)

// Messages: from the claimer, and to itself.
type (
	cancelJob  struct{}
	leaseLost  struct{}
	beginAlone struct{} // of a suspect: no other job runs

	started struct {
		run     *agent.Run
		err     error
		resumed bool // it is the run of a lost job, and goes on
	}
	stands struct { // the standing of a run
		run *agent.Run
		now agent.Standing
	}
	outcome struct {
		res *agent.Result
		err error
	}
	judged struct { // by a run that has ended
		effects *effects
		err     error
	}
	closed struct {
		effects *effects
		err     error
	}
	lookedUp struct { // the run of a lost job
		title string
		err   error
	}
	suspended    struct{ err error }
	leaseChecked struct {
		job store.Job
		err error
	}
	timeUp   struct{}
	tryNext  struct{} // a step that failed
	tryWrite struct{} // a write that failed
)

// work is one job. It is touched by its own goroutine only.
type work struct {
	w     *Worker
	job   *store.Job // never changed: others have it, too
	state func(c *actors.Context, msg any)

	begins    bool       // the run is being started
	run       *agent.Run // nil for none
	end       *jobEnd    // of that run
	why       error      // the cause with which this actor cancelled the run; nil for none
	parking   parking
	allowance allowance
	updates   updates

	again    *actors.Timer         // nil before a step has failed
	retry    func(*actors.Context) // the step that tryNext repeats
	failures int                   // of the store, in a row

	aside    bool // it waits until it can begin alone
	counted  bool // the loss of its last worker is
	draining bool
	over     bool
}

func newWork(w *Worker, j *store.Job, draining bool) *work {
	return &work{w: w, job: j, draining: draining, parking: parking{w: w}, allowance: allowance{left: j.Timeout},
		updates: updates{w: w, lease: store.JobLease{ID: j.ID, Epoch: j.Epoch}}}
}

// Receive handles what is the same in every state; the rest is the state's.
func (j *work) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		if j.job.Timeout > 0 {
			j.allowance.timer = c.NewTimer(timeUp{})
		}
		j.state = j.idle
		j.claimed(c)
	case tryNext:
		if f := j.retry; f != nil {
			j.retry = nil
			f(c)
		}
	case tryWrite:
		j.updates.flush(c)
	case wrote:
		j.wrote(c, m)
	case leaseLost:
		j.checkLost(c)
	case leaseChecked:
		j.leaseChecked(c, m)
	case drain:
		j.draining = true
		if j.aside {
			j.beginAfterLast(c)
		} else if j.parking.waits() {
			j.parking.suspend(c)
		}
	default:
		j.state(c, msg)
	}
}

// cancelling notes that the cancellation of the job was requested.
func (j *work) cancelling() {
	job := *j.job
	job.Cancelling = true
	j.job = &job
}

// idle ignores all messages: the job is about to leave.
func (j *work) idle(*actors.Context, any) {}

// claimed chooses the first step of a job.
func (j *work) claimed(c *actors.Context) {
	switch {
	case j.job.Lost && j.draining: // another worker resumes it, when the lease is over
		j.leave(c, report{typ: JobReturned})
	case j.job.Lost && j.ending().resumable() && j.job.State == store.JobRunning:
		j.countLoss(c)
	case j.job.Lost && j.ending().resumable():
		j.resume(c)
	case j.job.Lost:
		j.close(c, j.job.Run, j.recovered)
	case suspect(j.job) && !j.draining:
		j.aside, j.state = true, j.waitingAside
	default:
		j.beginAfterLast(c)
	}
}

// countLoss counts the loss of a worker before its run goes on: the run may end this process, too.
// A worker that was lost before the run began is not counted.
func (j *work) countLoss(c *actors.Context) {
	j.w.board.place(j.job, recovering, nil)
	cancelled := false
	j.state = func(c *actors.Context, msg any) {
		switch m := msg.(type) {
		case cancelJob:
			cancelled = true
		case drainOver:
			j.over = true
		case lookedUp:
			switch {
			case errors.Is(m.err, store.ErrNotFound), m.err == nil && m.title == placeholder:
				j.close(c, j.job.Run, j.recovered)
			case m.err != nil:
				j.later(c, j.storeDelay(m.err), j.countLoss)
			default:
				j.counted = true
				j.write(c, write{update: store.JobUpdate{Lost: true}, then: func(c *actors.Context) { j.lossCounted(c, cancelled) }})
			}
		}
	}
	s, id := j.w.store, j.job.Run
	actors.Await(c, func(ctx context.Context) (store.Run, error) { return s.Run(ctx, id) },
		func(run store.Run, err error) any { return lookedUp{run.Title, err} })
}

func (j *work) lossCounted(c *actors.Context, cancelled bool) {
	if cancelled {
		j.cancelling()
	}
	switch {
	case j.over: // another worker resumes it, when the lease is over
		j.leave(c, report{typ: JobReturned})
	case j.job.Cancelling:
		j.close(c, j.job.Run, j.recovered)
	default:
		j.resume(c)
	}
}

// resume goes on with the run of a lost job. A run that cannot go on is closed.
func (j *work) resume(c *actors.Context) {
	j.w.board.place(j.job, recovering, nil)
	j.state, j.begins = j.starting, true
	a, rt, run, job := j.w.agents[j.job.Agent], j.w.rt, j.job.Run, j.hook()
	actors.Await(c, func(ctx context.Context) (*agent.Run, error) {
		if here, err := rt.Find(ctx, run); err == nil && here.Done() != nil {
			if _, err := here.Result(); !errors.Is(err, agent.ErrSuspended) && !errors.Is(err, store.ErrFenced) {
				return nil, &agent.NotResumableError{Run: run, Why: "it is being ended here"}
			}
		}
		o := &agent.ResumeOptions{Agent: a}
		hooks.Resumes(o, job)
		return rt.Resume(ctx, run, o)
	}, func(run *agent.Run, err error) any { return started{run, err, true} })
}

// waitingAside waits until the job can begin alone.
func (j *work) waitingAside(c *actors.Context, msg any) {
	switch msg.(type) {
	case beginAlone:
		j.beginAfterLast(c)
	case cancelJob:
		j.cancelling()
		j.beginAfterLast(c)
	case drainOver:
		j.leave(c, report{typ: JobReturned})
	}
}

// beginAfterLast starts an attempt once the run of the earlier one, which may still wait, is
// closed.
func (j *work) beginAfterLast(c *actors.Context) {
	j.aside = false
	if j.job.Attempts == 1 {
		j.begin(c)
		return
	}
	j.close(c, j.job.RunID(j.job.Attempts-1), func(c *actors.Context, _ *effects) { j.begin(c) })
}

// close ends a run without a worker, and its tree, and goes on with their effects. If another
// worker may still hold them, it waits for the end of its lease.
func (j *work) close(c *actors.Context, run string, then func(*actors.Context, *effects)) {
	j.w.board.place(j.job, recovering, nil)
	j.state = func(c *actors.Context, msg any) {
		switch m := msg.(type) {
		case closed:
			var wait *leasedError
			switch {
			case errors.As(m.err, &wait):
				j.later(c, min(max(time.Until(wait.until), 50*time.Millisecond), time.Second), func(c *actors.Context) { j.close(c, run, then) })
			case m.err != nil:
				j.later(c, j.storeDelay(m.err), func(c *actors.Context) { j.close(c, run, then) })
			default:
				j.failures = 0
				then(c, m.effects)
			}
		case cancelJob:
			j.cancelling()
		case drainOver: // its lease expires, and another worker examines it
			j.leave(c, report{typ: JobReturned})
		}
	}
	// A missing run of an earlier attempt was returned before it began.
	cl := &closer{store: j.w.store, owner: j.w.owner, ttl: j.w.opts.Lease, why: "its worker was lost", past: run != j.job.Run}
	name := j.job.Agent
	actors.Await(c, func(ctx context.Context) (*effects, error) { return cl.close(ctx, name, run) },
		func(d *effects, err error) any { return closed{d, err} })
}

// later repeats a step after a while.
func (j *work) later(c *actors.Context, wait time.Duration, f func(*actors.Context)) {
	j.retry = f
	if j.again == nil {
		j.again = c.NewTimer(tryNext{})
	}
	j.again.Set(wait)
	if j.over {
		j.leave(c, report{typ: JobReturned})
	}
}

// storeDelay returns how long to wait for a store that fails.
func (j *work) storeDelay(err error) time.Duration {
	j.failures++
	j.w.opts.Logger.Warn("the store fails", "job", j.job.ID, "error", err, "times", j.failures)
	return min(100*time.Millisecond<<min(j.failures, 6), 5*time.Second)
}

// recovered ends or queues again a job whose worker was lost, by the effects of its run.
func (j *work) recovered(c *actors.Context, d *effects) { j.write(c, j.ending().recovered(d)) }

// begin starts an attempt.
func (j *work) begin(c *actors.Context) {
	switch {
	case j.draining:
		j.write(c, j.ending().returned(nil))
		return
	case !j.job.Expires.IsZero() && !time.Now().Before(j.job.Expires):
		j.write(c, ended(store.JobFailed, nil, "it expired before it was begun"))
		return
	case j.job.Cancelling:
		j.write(c, ended(store.JobCancelled, nil, errCancelled.Error()))
		return
	}
	j.w.board.place(j.job, active, nil)
	j.w.events.emit(report{typ: JobStarted, job: j.job})
	j.state, j.begins = j.starting, true
	a, o, job := j.w.agents[j.job.Agent], &agent.RunOptions{ID: j.job.Run, Input: j.job.Input}, j.hook()
	prompt := j.job.Prompt
	actors.AwaitAnswer(c, func(ctx context.Context, answer func(*agent.Run, error)) {
		hooks.Start(ctx, a, prompt, o, job, answer)
	}, func(run *agent.Run, err error) any { return started{run, err, false} })
}

func (j *work) starting(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case started:
		j.started(c, m)
	case cancelJob:
		j.why = cmp.Or(j.why, errCancelled)
	case drainOver:
		j.over = true
	}
}

func (j *work) started(c *actors.Context, m started) {
	j.begins = false
	switch {
	case j.why == errLost:
		if m.err == nil {
			m.run.Cancel(errLost)
		}
		j.leave(c, report{typ: JobLost})
		return
	case m.resumed && m.err != nil:
		j.notResumed(c, m.err)
		return
	case errors.Is(m.err, agent.ErrClosed), errors.Is(m.err, agent.ErrTooManyRuns):
		j.write(c, j.ending().returned(nil))
		return
	case errors.Is(m.err, agent.ErrRunExists): // another worker has closed it, or a run of another user has its name
		j.close(c, j.job.Run, j.recovered)
		return
	case m.err != nil:
		j.failed(c, nil, m.err)
		return
	}
	j.run = m.run
	self := c.Self()
	j.state = j.running
	j.w.board.place(j.job, active, j.run)
	if !j.run.Observe(func(s agent.Standing) { self.Send(stands{m.run, s}) }) {
		j.run = nil // it is of an earlier claim of this attempt
		j.close(c, j.job.Run, j.recovered)
		return
	}
	if m.resumed {
		j.allowance.left = j.job.Timeout - m.run.Worked()
	}
	j.allowance.start(j.job.Timeout)
	if m.resumed {
		j.write(c, write{update: store.JobUpdate{State: store.JobRunning}, event: report{typ: JobResumed}})
	}
	switch {
	case j.why != nil:
		j.run.Cancel(j.why)
	case j.over:
		j.suspend(c)
	default:
		j.parking.run = j.run
	}
}

// notResumed closes a run that cannot go on, or tries again later.
func (j *work) notResumed(c *actors.Context, err error) {
	j.state = j.resumingLater
	_, never := errors.AsType[*agent.NotResumableError](err)
	switch {
	case j.over, errors.Is(err, agent.ErrClosed): // another worker resumes it, when the lease is over
		j.leave(c, report{typ: JobReturned})
	case j.why != nil: // it was cancelled
		j.cancelling()
		j.close(c, j.job.Run, j.recovered)
	case errors.Is(err, store.ErrLeased), errors.Is(err, agent.ErrTooManyRuns): // the lost worker may live
		j.later(c, time.Second, j.resume)
	case !never && store.Passing(err):
		j.later(c, j.storeDelay(err), j.resume)
	default:
		j.close(c, j.job.Run, j.recovered)
	}
}

// resumingLater waits until the run may be resumed.
func (j *work) resumingLater(c *actors.Context, msg any) {
	switch msg.(type) {
	case cancelJob:
		j.cancelling()
		j.retry = nil
		j.close(c, j.job.Run, j.recovered)
	case drainOver:
		j.leave(c, report{typ: JobReturned})
	}
}

func (j *work) running(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case stands:
		switch {
		case m.run != j.run:
		case m.now.Ended:
			j.collect(c)
		case m.now != j.parking.stands:
			j.wait(c, m.now)
		}
	case cancelJob:
		j.stop(errCancelled)
	case timeUp:
		j.stop(errTimeout)
	case drainOver:
		j.over = true
		j.suspend(c)
	case suspended:
		if m.err != nil && !errors.Is(m.err, agent.ErrNotWaiting) { // else its end follows
			c.Log().Warn("a run was not suspended", "run", j.job.Run, "error", m.err)
			j.stop(errReturned)
		}
	case parkNow:
		j.parking.due(c, j.draining)
	case questions:
		j.parking.found(c, m, j.draining)
	case setAside:
		j.parking.suspended(c, j.job.ID, m.err, j.draining)
	}
}

// stop cancels the run; the first reason counts.
func (j *work) stop(why error) {
	if j.why == nil {
		j.why = why
		j.parking.stop()
		j.run.Cancel(why)
	}
}

// wait notes that the run waits for a person or for an instance of a server, or no longer
// does. The time of the attempt stands still meanwhile (TIME-05).
func (j *work) wait(c *actors.Context, now agent.Standing) {
	before := j.parking.stands.Waiting
	j.parking.stands = now
	state, typ, p := store.JobRunning, JobResumed, active
	switch {
	case now.Waiting:
		state, typ, p = store.JobWaiting, JobWaiting, parked
		if !before {
			j.allowance.stop()
		}
	default:
		j.allowance.start(j.job.Timeout)
	}
	why := ""
	if now.For != "" {
		why = waitsFor + now.For
	}
	j.w.board.place(j.job, p, j.run)
	j.w.board.waits(j.job.ID, now.For)
	j.w.send(lookNow{}) // there is room, or less
	j.write(c, write{update: store.JobUpdate{State: state, Error: why}, event: report{typ: typ, reason: now.For}})
	j.parking.stood(c, j.draining)
}

// waitsFor begins the error of a job that waits for an instance of a server.
const waitsFor = "waits for "
