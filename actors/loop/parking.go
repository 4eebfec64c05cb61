// parking.go: how a run is left, for this process or another one to go on with.
//
//	(any state) ── Suspend ──▶ parking ── nothing is under way any more ──▶ releasing ──▶ (stops)
//	                             │                        ▲
//	                             └── the grace is over ───┘ what is under way is left as the journal has it
//
// A run whose model cannot be asked leaves itself in the same way (outage.go).
//
// It is an end of the work and not of the run: nothing more begins, as in a run that ends. What
// was left goes on where its events leave it, see resuming.go.

package loop

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Messages of a suspension: from outside, and to itself.
type (
	suspendRun struct {
		idle  bool // only if the run is
		reply *actors.Reply[struct{}]
	}
	askIdle  struct{ reply *actors.Reply[struct{}] }
	released struct{ err error }
)

// Suspend ends the work on a run wherever it is, and leaves it in the store, for another to go on
// with it: questions stay open, and nothing more begins. The model and the calls under way have the
// grace; then the model's turn is lost, and calls have neither a result nor an unknown outcome in the
// journal. Runs that calls have started are suspended with it. The error is nil once the lease is given
// up, and [ErrNotWaiting] if the run has ended, or has no journal.
func (r *Run) Suspend(ctx context.Context) error { return r.suspend(ctx, false) }

// SuspendIdle is Suspend for a run that is idle; any other is left alone, with [ErrNotWaiting]. It
// does not look whether the runs are idle that calls have started: see [Run.Idle].
func (r *Run) SuspendIdle(ctx context.Context) error { return r.suspend(ctx, true) }

func (r *Run) suspend(ctx context.Context, idle bool) error {
	_, err := actors.Ask(ctx, r.Ref(), func(reply *actors.Reply[struct{}]) any { return suspendRun{idle, reply} })
	if errors.Is(err, actors.ErrStopped) {
		return ErrNotWaiting
	}
	return err
}

// BeginSuspend is Suspend without the wait.
func (r *Run) BeginSuspend() { r.Ref().Send(suspendRun{reply: new(actors.Reply[struct{}])}) }

// Idle returns nil if all that a run waits for are the answers to questions that need no process, and
// runs that its calls have started; else [ErrNotWaiting].
func (r *Run) Idle(ctx context.Context) error {
	_, err := actors.Ask(ctx, r.Ref(), func(reply *actors.Reply[struct{}]) any { return askIdle{reply} })
	return err
}

// parking is the state of a run that is being left.
type parking struct {
	*parts
	on      bool
	left    bool // the grace is over
	parked  bool // the journal says so
	why     runlog.RunParked
	waiting []*actors.Reply[struct{}]
}

// idle reports whether the run waits, and for nothing that this process has to work for.
func (p *parking) idle() bool {
	if p.out != nil || !p.journal.Recorded() || p.cfg.Resumes != nil || p.journal.Busy() {
		return false
	}
	waits := len(p.asks.open) > 0
	for _, a := range p.asks.open {
		if !a.stored || a.writing > 0 || a.raised != nil || a.login != nil {
			return false
		}
	}
	if t := p.turn; t != nil {
		for _, cl := range t.calls {
			if cl.phase == sent && cl.child() == "" && cl.waits == "" {
				return false
			}
			waits = waits || cl.phase == sent
		}
	}
	return waits
}

func (p *parking) isIdle() error {
	if p.idle() {
		return nil
	}
	return ErrNotWaiting
}

// begin has the run left.
func (p *parking) begin(c *actors.Context, m suspendRun) {
	switch {
	case p.on:
		p.waiting = append(p.waiting, m.reply)
		return
	case p.out != nil, p.cfg.Journal == nil, m.idle && !p.idle():
		m.reply.Complete(struct{}{}, ErrNotWaiting)
		return
	}
	p.waiting = append(p.waiting, m.reply)
	p.start(c, ErrSuspended, runlog.RunParked{Why: ErrSuspended.Error()})
}

// start has the run left, with that error for its handle. What the journal says of it is why.
func (p *parking) start(c *actors.Context, err error, why runlog.RunParked) {
	p.on, p.why = true, why
	p.run.leave(c, err)
	if p.turn == nil {
		return
	}
	for _, cl := range p.turn.calls {
		if cl.phase == sent && (cl.child() != "" || cl.unsent() || cl.waitsForRound()) {
			cl.stop(ErrSuspended) // it stays as the journal has it
		}
	}
}

// leave ends the work of a run without an end of it.
func (r *run) leave(c *actors.Context, err error) {
	r.out = &Outcome{State: store.Waiting, Stop: runlog.StopWaiting, Err: err}
	if o := r.opening; o != nil && o.err != nil {
		r.opened(c, errors.Join(err, o.err))
		return
	}
	r.state = (*run).leaving
	r.clock.stop()
	r.asks.timer.Clear()
	if r.leaveQueue != nil {
		r.leaveQueue()
	}
	r.shutdown.startGrace(c)
}

func (r *run) leaving(c *actors.Context, msg any) {
	if m, ok := msg.(*journal.Creation); ok {
		r.opening.receive(c, m)
		return
	}
	r.parking.receive(c, msg)
}

// receive takes in what the work under way comes to.
func (p *parking) receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *toolReturned:
		p.returned(c, m)
	case *modelReplied:
		p.replied(c, m)
	case askSeen:
		p.asks.receive(c, m)
	case released:
		if m.err != nil {
			c.Log().Warn("a run's lease was not given up", "run", p.cfg.ID, "error", m.err)
		}
		p.shutdown.complete(c, nil)
	case graceOver:
		p.giveUp(c)
	}
}

// replied records the answer of the model, or that there is none.
func (p *parking) replied(c *actors.Context, m *modelReplied) {
	switch {
	case m.turn != p.turn || !m.turn.asking || p.journal.Final():
	case m.err != nil:
		p.journal.Write(c, nil, m.turn.lose(m.err))
	default:
		m.turn.asking, m.turn.guards = false, m.guards
		p.run.replied(c, m.resp, m.chosen)
	}
}

// returned records a call that has returned, unless it goes on later.
func (p *parking) returned(c *actors.Context, m *toolReturned) {
	if m.call.turn != p.turn || m.call.phase != sent || p.journal.Final() {
		return
	}
	_, unknown := errors.AsType[*UnknownError](m.err)
	_, refused := errors.AsType[*RefusedError](m.err)
	if m.err != nil && (refused || unknown || m.call.unsent() || errors.Is(m.err, ErrSuspended) || errors.Is(m.err, ErrNotDispatched)) {
		p.leave(m.call)
		return
	}
	p.turn.busy--
	p.recovery.withdrawRound(c, m.call.was)
	p.journal.Write(c, nil, p.calls.outcomes(nil, c, m)...)
}

// leave leaves a call as the journal has it.
func (p *parking) leave(cl *call) {
	p.turn.busy--
	cl.phase = ready
}

// dispatched goes on with calls whose dispatch was on its way to the journal. What is not sent yet, or
// goes on where it is, is left; a call that the journal says was made is.
func (p *parking) dispatched(c *actors.Context, t *turn, step int) {
	for _, cl := range t.calls {
		if cl.step != step {
			continue
		}
		if p.journal.Final() || cl.tool.Dispatches || cl.takesUp || cl.child() != "" {
			p.leave(cl)
		} else {
			p.calls.dispatch(c, cl)
		}
	}
}

// giveUp ends the wait for the model and for the calls under way, and then for the store. A lease
// that is not given up expires.
func (p *parking) giveUp(c *actors.Context) {
	switch {
	case p.parked:
		p.shutdown.complete(c, nil)
		return
	case p.left, !p.journal.Recorded():
		p.h.open(begun{}, errGrace)
		p.shutdown.complete(c, &JournalError{errGrace})
		return
	}
	p.left = true
	p.shutdown.startGrace(c)
	if p.turn == nil {
		return
	}
	for _, cl := range p.turn.calls {
		if cl.phase == sent {
			cl.stop(ErrSuspended) // it stays as the journal has it
			p.leave(cl)
		}
	}
}

// finish comes after every message: it writes that the run is left, once nothing is under way any more.
func (p *parking) finish(c *actors.Context) {
	if p.journal.Recorded() {
		p.journal.Flush(c) // what is held for the next step
	}
	switch t := p.turn; {
	case p.journal.Final() || !p.journal.Recorded():
		return
	case p.journal.Err() == nil && (p.journal.Busy() || t != nil && t.busy > 0):
		return
	case p.journal.Err() == nil && t != nil && t.asking:
		if t.task == nil || p.left { // the model was not asked, or does not answer
			p.journal.Write(c, nil, t.lose(ErrSuspended))
		}
		return
	}
	for _, a := range p.asks.open {
		if p.journal.Err() == nil && a.ofCall() && !(a.raised != nil && a.call.waitsForRound()) {
			if !a.withdrawn {
				a.withdrawn = true
				p.asks.withdraw(c, a)
			}
			return
		}
	}
	p.logins.giveUpAll()
	p.journal.WriteLast(c, journal.Batch{State: store.Waiting, Then: p.release},
		append(p.shutdown.bill(), runlog.Entry{Type: runlog.RunParkedType, Body: &p.why})...)
}

// release gives the lease up: another process may go on with the run.
func (p *parking) release(c *actors.Context) {
	p.parked = true
	if p.cfg.Held {
		p.shutdown.complete(c, nil)
		return
	}
	j, id, owner, epoch := p.cfg.Journal, p.cfg.ID, p.cfg.Owner, p.journal.Epoch()
	actors.Await(c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, j.Release(ctx, id, owner, epoch)
	}, func(_ struct{}, err error) any { return released{err} })
}

// answer answers those who wait for the suspension: now another may go on with the run.
func (p *parking) answer(err error) {
	for _, reply := range p.waiting {
		reply.Complete(struct{}{}, err)
	}
	p.waiting = nil
}
