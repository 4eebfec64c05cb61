package loop

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Messages of a suspension: from outside, and to itself.
type (
	suspendRun struct{ reply *actors.Reply[struct{}] }
	released   struct{ err error }
)

// Suspend ends the work on a run that waits for a human, and leaves its questions
// open in the store and its state waiting. Calls under way may end within the
// grace; what then has not is unknown. The error is nil once the lease is given
// up, [ErrNotWaiting] if no question is open or the last is answered meanwhile.
func (r *Run) Suspend(ctx context.Context) error {
	_, err := actors.Ask(ctx, r.Ref(), func(reply *actors.Reply[struct{}]) any { return suspendRun{reply} })
	return err
}

// suspend begins no more calls, and waits for the calls under way.
func (r *run) suspend(c *actors.Context, m suspendRun) {
	if r.out != nil || r.suspending != nil || r.asks.approvals() == 0 && !r.takesUp() {
		m.reply.Complete(struct{}{}, ErrNotWaiting)
		return
	}
	r.suspending = m.reply
	r.shutdown.startGrace(c)
}

// takesUp reports whether a run that goes on has yet to find the questions that it waits for.
func (r *run) takesUp() bool {
	return r.cfg.Resumes != nil || r.limits.asked != nil && r.limits.asked.Settled == nil
}

// trySuspend comes after every message while a suspension waits.
func (r *run) trySuspend(c *actors.Context) {
	switch {
	case r.out != nil: // the run ends in another way
		r.suspending.Complete(struct{}{}, ErrNotWaiting)
		r.suspending = nil
		return
	case r.takesUp():
		return
	case r.asks.approvals() == 0: // all answered: the run goes on
		r.suspending.Complete(struct{}{}, ErrNotWaiting)
		r.suspending = nil
		r.shutdown.grace.Clear()
		if r.turn != nil && r.turn.left > 0 {
			r.calls.advance(c)
		}
		return
	case r.turn != nil && r.turn.busy > 0 || r.journal.busy():
		return
	}
	for _, a := range r.asks.open {
		if !a.stored || a.ofCall() { // the latter is being withdrawn
			return
		}
	}
	r.out = &Outcome{State: store.Waiting, Stop: runlog.StopWaiting, Err: ErrSuspended}
	r.journal.final = true
	r.state = (*run).releasing
	r.clock.stop()
	r.asks.timer.Clear()
	r.logins.giveUpAll()
	r.shutdown.startGrace(c)
	r.journal.write(c, r.release, runlog.Entry{Type: runlog.RunParkedType, Body: &runlog.RunParked{Why: ErrSuspended.Error()}})
}

// release gives the lease up: another process may go on with the run.
func (r *run) release(c *actors.Context) {
	j, id, owner, epoch := r.cfg.Journal, r.cfg.ID, r.cfg.Owner, r.journal.epoch
	actors.Await(c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, j.Release(ctx, id, owner, epoch)
	}, func(_ struct{}, err error) any { return released{err} })
}

// releasing waits until the lease is given up; if that does not succeed it expires.
func (r *run) releasing(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case released:
		if m.err != nil {
			c.Log().Warn("a run's lease was not given up", "run", r.cfg.ID, "error", m.err)
		}
	case graceOver:
	default:
		return
	}
	reply := r.suspending
	r.suspending = nil
	r.shutdown.complete(c, nil)
	reply.Complete(struct{}{}, nil) // now: its caller may go on with the run
}
