// job.go: the actor that has one job. What becomes of the job is said by its rules (rules.go).
//
//	claimed ─┬─ queued ──────────────────▶ starting ───▶ running ───▶ leaving ───▶ (stops)
//	         │                                ▲  ▲                       ▲
//	         └─ lost, waiting ─▶ looking ─────┘  │                       │
//	                               │  └─ alone ──┘ (no other job runs)   │
//	                               └─ ended, asks, waits ────────────────┘
//
// A job that waits for a person is running, too: it waits for one message, and holds no
// goroutine.

package worker

import (
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

	looked struct { // at its run in the store
		facts *facts
		err   error
	}
	noted struct { // what was to be written into its run's journal
		ask string // the question that is open now; empty for none
		err error
	}
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
	stopped   bool       // this actor has cancelled the run
	dropped   bool       // or has left it: the job is another worker's
	parking   parking
	allowance allowance
	updates   updates

	again    *actors.Timer         // nil before a step has failed
	retry    func(*actors.Context) // the step that tryNext repeats
	failures int                   // of the store, in a row

	aside    bool // it waits until it can go on alone
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
		if j.job.Lost {
			j.look(c)
		} else {
			j.follow(c, j.rules().claimed(), nil)
		}
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
			j.aside = false
			j.write(c, j.rules().waiting(nil))
		} else if j.parking.waits() {
			j.parking.suspend(c)
		}
	default:
		j.state(c, msg)
	}
}

func (j *work) rules() *rules {
	return &rules{job: j.job, opts: &j.w.opts, now: time.Now(), draining: j.draining}
}

// cancelling notes that the cancellation of the job was requested.
func (j *work) cancelling() {
	job := *j.job
	job.Cancelling = true
	j.job = &job
}

// idle ignores all messages: the job is about to leave.
func (j *work) idle(*actors.Context, any) {}

// look reads what the store says of the run of a job that was lost, or left waiting.
func (j *work) look(c *actors.Context) {
	j.w.board.place(j.job, recovering, nil)
	j.lookThen(c, func(c *actors.Context, f *facts) {
		if j.draining { // another worker goes on with it, when the lease is over
			j.leave(c, report{typ: JobReturned})
			return
		}
		j.follow(c, j.rules().taken(f), f)
	})
}

// lookThen reads the facts, for as long as the store fails.
func (j *work) lookThen(c *actors.Context, then func(*actors.Context, *facts)) {
	j.state = func(c *actors.Context, msg any) {
		switch m := msg.(type) {
		case looked:
			if m.err != nil {
				j.later(c, j.storeDelay(m.err), func(c *actors.Context) { j.lookThen(c, then) })
				return
			}
			j.failures = 0
			then(c, m.facts)
		case cancelJob:
			j.cancelling()
		case drainOver:
			j.over = true
		}
	}
	w, job := j.w, j.job
	actors.Await(c, func(ctx context.Context) (*facts, error) { return w.lookAt(ctx, job) },
		func(f *facts, err error) any { return looked{f, err} })
}

// follow carries a verdict out: first its write, then its step.
func (j *work) follow(c *actors.Context, v verdict, f *facts) {
	if v.write.update.State == "" && !v.write.update.Lost {
		j.take(c, v, f)
		return
	}
	if !v.write.last {
		v.write.then = func(c *actors.Context) { j.take(c, v, f) }
		j.state = j.noting
	}
	j.write(c, v.write)
}

// noting waits for a write, or for an append to the run's journal.
func (j *work) noting(_ *actors.Context, msg any) {
	switch msg.(type) {
	case cancelJob: // its run is cancelled once it goes on here, or in another worker
		j.cancelling()
	case drainOver:
		j.over = true
	}
}

// take makes the step of a verdict.
func (j *work) take(c *actors.Context, v verdict, f *facts) {
	switch {
	case j.over && v.step != leave: // another worker goes on with it, when the lease is over
		j.leave(c, report{typ: JobReturned})
	case v.step == begin:
		j.begin(c)
	case v.step == resume:
		j.goOn(c)
	case v.step == alone:
		j.aside, j.state = true, j.waitingAside
		j.w.board.putAside(j.job)
		j.w.send(lookNow{})
	case v.step == ask:
		j.note(c, f, func(ctx context.Context) (string, error) { return j.w.openOwn(ctx, j.job, f, v.why) },
			func(c *actors.Context, ask string) { j.write(c, j.rules().waiting(append(f.waits, ask))) })
	case v.step == settle:
		j.note(c, f, func(ctx context.Context) (string, error) { return "", j.w.settleOwn(ctx, j.job, f) },
			func(c *actors.Context, _ string) { j.look(c) })
	case v.step == end:
		j.note(c, f, func(ctx context.Context) (string, error) { return "", j.w.writeEnding(ctx, j.job, f, v.ending) },
			func(c *actors.Context, _ string) { j.goOn(c) })
	}
}

// note appends to the journal of the run, while no actor of it works, and then goes on.
func (j *work) note(c *actors.Context, f *facts, add func(context.Context) (string, error), then func(*actors.Context, string)) {
	j.state = func(c *actors.Context, msg any) {
		m, ok := msg.(noted)
		switch {
		case !ok:
			j.noting(c, msg)
		case store.Passing(m.err):
			j.later(c, j.storeDelay(m.err), func(c *actors.Context) { j.note(c, f, add, then) })
		case errors.Is(m.err, store.ErrConflict): // an attempt before came through: look again
			j.look(c)
		case m.err != nil: // the lease is lost, or will be
			j.lost(c)
		default:
			then(c, m.ask)
		}
	}
	actors.Await(c, add, func(ask string, err error) any { return noted{ask, err} })
}

// waitingAside waits until the job can go on alone.
func (j *work) waitingAside(c *actors.Context, msg any) {
	switch msg.(type) {
	case beginAlone:
		j.aside = false
		j.goOn(c)
	case cancelJob:
		j.aside = false
		j.cancelling()
		j.look(c)
	case drainOver:
		j.leave(c, report{typ: JobReturned})
	}
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

// begin starts an attempt, as a fork of the run before or anew.
func (j *work) begin(c *actors.Context) {
	j.w.board.place(j.job, active, nil)
	j.w.events.emit(report{typ: JobStarted, job: j.job})
	j.state, j.begins = j.starting, true
	rt, a, job, lease := j.w.rt, j.w.agents[j.job.Agent], j.job, j.newEnd()
	if from := job.From; from != "" {
		actors.Await(c, func(ctx context.Context) (*agent.Run, error) {
			o := &agent.ForkOptions{ID: job.Run, Agent: a}
			hooks.Forks(o, lease)
			return rt.Fork(ctx, from, 0, o)
		}, func(run *agent.Run, err error) any { return started{run, err, false} })
		return
	}
	actors.AwaitAnswer(c, func(ctx context.Context, answer func(*agent.Run, error)) {
		hooks.Start(ctx, a, job.Prompt, &agent.RunOptions{ID: job.Run, Input: job.Input}, lease, answer)
	}, func(run *agent.Run, err error) any { return started{run, err, false} })
}

// goOn writes that a job which waits runs again, before it goes on: if that ends this process, it is a loss.
func (j *work) goOn(c *actors.Context) {
	if j.job.State == store.JobRunning {
		j.resume(c)
		return
	}
	j.state = j.noting
	j.write(c, write{update: store.JobUpdate{State: store.JobRunning}, then: j.resume})
}

// resume goes on with the run of a job that was lost, or left waiting.
func (j *work) resume(c *actors.Context) {
	j.w.board.place(j.job, recovering, nil)
	j.state, j.begins = j.starting, true
	rt, a, run, lease := j.w.rt, j.w.agents[j.job.Agent], j.job.Run, j.newEnd()
	actors.Await(c, func(ctx context.Context) (*agent.Run, error) {
		if here, err := rt.Find(ctx, run); err == nil && here.Done() != nil { // of an earlier claim: it was left, or will be
			select {
			case <-here.Done():
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		o := &agent.ResumeOptions{Agent: a}
		hooks.Resumes(o, lease)
		return rt.Resume(ctx, run, o)
	}, func(run *agent.Run, err error) any { return started{run, err, true} })
}

func (j *work) starting(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case started:
		j.started(c, m)
	case cancelJob:
		j.cancelling()
	case drainOver:
		j.over = true
	}
}

func (j *work) started(c *actors.Context, m started) {
	j.begins = false
	switch {
	case j.dropped:
		if m.err == nil {
			hooks.Leave(m.run, errLost)
		}
		j.leave(c, report{typ: JobLost})
		return
	case m.err != nil:
		j.notStarted(c, m)
		return
	}
	j.run = m.run
	self := c.Self()
	j.state = j.running
	j.w.board.place(j.job, active, j.run)
	if !j.run.Observe(func(s agent.Standing) { self.Send(stands{m.run, s}) }) {
		j.run = nil // it has ended, or is of an earlier claim and is about to stop: the store knows
		j.later(c, time.Second, j.look)
		return
	}
	if m.resumed {
		j.allowance.left = j.job.Timeout - m.run.Worked()
	}
	j.allowance.start(j.job.Timeout)
	if m.resumed {
		j.w.events.emit(report{typ: JobResumed, job: j.job})
	}
	switch {
	case j.job.Cancelling:
		j.stop(errCancelled)
	case j.over:
		j.suspend(c)
	default:
		j.parking.run = j.run
	}
}

// notStarted is that of a run that was not begun, or does not go on here.
func (j *work) notStarted(c *actors.Context, m started) {
	refused, never := errors.AsType[*agent.NotResumableError](m.err)
	again := j.look
	if !m.resumed {
		again = j.begin
	}
	j.state = func(c *actors.Context, msg any) {
		switch msg.(type) {
		case cancelJob:
			j.cancelling()
		case drainOver:
			j.leave(c, report{typ: JobReturned})
		}
	}
	switch {
	case j.over, errors.Is(m.err, agent.ErrClosed): // another worker goes on with it, when the lease is over
		if m.resumed {
			j.leave(c, report{typ: JobReturned})
		} else {
			j.write(c, j.rules().returned())
		}
	case errors.Is(m.err, store.ErrFenced):
		j.lost(c)
	case errors.Is(m.err, agent.ErrTooManyRuns) && !m.resumed:
		j.write(c, j.rules().returned())
	case errors.Is(m.err, store.ErrLeased), errors.Is(m.err, agent.ErrTooManyRuns):
		j.later(c, time.Second, again)
	case errors.Is(m.err, agent.ErrRunExists), errors.Is(m.err, store.ErrExists): // a run of another origin has its name
		j.write(c, j.rules().skipped("another run has the name "+j.job.Run))
	case never && m.resumed && j.job.Cancelling:
		j.lookThen(c, func(c *actors.Context, f *facts) {
			j.note(c, f, func(ctx context.Context) (string, error) { return "", j.w.finish(ctx, j.job, f) },
				func(c *actors.Context, _ string) { j.look(c) })
		})
	case never && m.resumed:
		j.write(c, j.rules().left(refused, nil, time.Time{}, "").write)
	case !never && store.Passing(m.err) && isStore(m.err):
		j.later(c, j.storeDelay(m.err), again)
	default:
		j.write(c, j.rules().failed(nil, m.err))
	}
}

// isStore reports whether the store was at fault, and not the run.
func isStore(err error) bool {
	_, journal := errors.AsType[*agent.JournalError](err)
	return journal || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrFull)
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
		j.stop(&agent.LimitError{Limit: limitOfJob, Max: j.job.Timeout.String()})
	case drainOver:
		j.over = true
		j.suspend(c)
	case suspended:
		if m.err != nil && !errors.Is(m.err, agent.ErrNotWaiting) { // else its end follows
			c.Log().Warn("a run was not suspended", "run", j.job.Run, "error", m.err)
			hooks.Leave(j.run, errReturned)
		}
	case parkNow:
		j.parking.due(c, j.draining)
	case questions:
		j.parking.found(c, m, j.draining)
	case setAside:
		j.parking.suspended(c, j.job.ID, m.err, j.draining)
	}
}

// limitOfJob names the limit of a job's time.
const limitOfJob = "time of its job"

// stop cancels the run; the first reason counts.
func (j *work) stop(why error) {
	if !j.stopped {
		j.stopped = true
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

// judge goes on with what the run has come to.
func (j *work) judge(c *actors.Context, m outcome) {
	_, refused := errors.AsType[*agent.NotResumableError](m.err)
	switch {
	case m.err == nil:
		j.done(c, m.res)
	case errors.Is(m.err, agent.ErrLeft), isFenced(m.err):
		j.checkLease(c)
	case errors.Is(m.err, agent.ErrSuspended), refused:
		j.noteAway(m.err)
		instance := j.putBack()
		j.lookThen(c, func(c *actors.Context, f *facts) {
			if f.finished != nil { // by another process, before its lease was given up
				j.write(c, j.rules().finished(f.finished))
				return
			}
			j.follow(c, j.rules().left(m.err, f.waits, f.outageSince(), instance), f)
		})
	default:
		j.write(c, j.rules().failed(hooks.Encode(m.res), m.err))
	}
}

// isFenced reports whether the run is another process's now.
func isFenced(err error) bool {
	_, journal := errors.AsType[*agent.JournalError](err)
	return journal && (errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrFinished))
}

// noteAway has the worker claim no jobs that need a provider which is away.
func (j *work) noteAway(err error) {
	if out, ok := errors.AsType[*agent.OutageError](err); ok {
		j.w.noteAway(j.job.Agent, out)
	}
}

// putBack has the worker leave the job to others if it waits for an instance of a server, and returns what it waits for.
func (j *work) putBack() string {
	now := j.parking.stands
	if now.For == "" || now.Instance == "" || j.draining {
		return ""
	}
	j.w.notePutBack(j.job.ID, now.Instance)
	return now.For
}

// checkLease goes on after its run was left without an outcome: the lease is lost, or the run's actor has died.
func (j *work) checkLease(c *actors.Context) {
	j.state = func(c *actors.Context, msg any) {
		switch m := msg.(type) {
		case endSeen:
			switch {
			case store.Passing(m.err):
				j.later(c, j.storeDelay(m.err), j.checkLease)
			case endedUnder(j.job.Epoch, &m.job, m.err):
				j.leaveEnded(c, &m.job)
			case m.err != nil, m.job.Owner != j.w.owner, m.job.Epoch != j.job.Epoch:
				j.leave(c, report{typ: JobLost})
			default: // as if its worker had been lost
				m.job.Lost = true
				j.job, j.run = &m.job, nil
				j.look(c)
			}
		case cancelJob:
			j.cancelling()
		case drainOver:
			j.over = true
		}
	}
	j.readJob(c)
}
