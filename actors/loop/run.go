// run.go: the actor that runs one agent once.
//
//	         created          listed            calls             decided
//	opening ─────────▶ listing ──────▶ thinking ───────▶ deciding ────────▶ acting
//	   │                  ▲               │                │ │                │
//	   │                  ├───────────────┼── poor answer ─┘ │ answer         │
//	   │                  └───────────────┼──────────────────┼── all returned ┘
//	   │   in preparing before thinking what is too long is cut and guards look,
//	   │   in asking behind listing a person has to log in at a server; then it lists again,
//	   │   in stopping behind acting a condition may end the run
//	   ▼                                  ▼                  ▼
//	ending ◀── answer, limit, error, cancel: from any state; where it has to wait run.ending says how (ending.go);
//	   │       suspended: leaving, from any state (parking.go); another process has it: drop
//	   │ calls have returned or were given up, run.finished is durable
//	   ▼
//	(stopped)
//
// Before an effect lies an append: a model is asked, a tool called, a person asked and an
// answer given once the events that say so, and all before them, are durable (journal.go).

package loop

import (
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// run is the actor: it holds the state machine, and its parts all else.
type run struct {
	parts
	state      func(*run, *actors.Context, any) // takes the messages of the state
	opening    *opening                         // nil once the run is recorded
	resuming   *resuming                        // nil but while a run is taken up
	leaveQueue func()                           // withdraws the run from the turns that wait for room; nil if it does not
}

func newRun(h *Run) *run {
	r := new(run)
	r.parts = parts{run: r, h: h, cfg: &h.cfg}
	if again := h.cfg.Resumes; again != nil {
		r.talk = again.conversation()
	} else {
		r.talk = newConversation(h.cfg.Origin.Input)
	}
	p := &r.parts
	p.journal = journal.For(recorded{p})
	p.asks.parts, p.approvals.parts, p.calls.parts, p.check.parts, p.repeats.parts = p, p, p, p, p
	p.limits.parts, p.last.parts, p.logins.parts, p.shutdown.parts, p.parking.parts = p, p, p, p, p
	return r
}

// Receive handles the messages that are the same in every state; the state has the rest.
func (r *run) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		r.clock.start(c, r.cfg.wallLeft())
		r.state = beginning
		r.opening = &opening{parts: &r.parts}
		r.opening.start(c)
	case actors.Stopping, actors.ChildStopped: // Run.died does the rest
	case *toolReturned:
		if m.call.child() != "" && errors.Is(m.err, ErrLeft) { // and so is this one, which has the same lease
			r.drop(c, m.err)
		} else {
			r.state(r, c, msg)
		}
	case cancelRun:
		r.cancel(c, m.cause)
	case leaveRun:
		r.drop(c, m.cause)
	case wallOver:
		r.outOfTime(c)
	case noteSpent:
		if r.journal.Final() {
			return // it is written with the end
		}
		if notes := r.h.spend.TakeNotes(); len(notes) > 0 {
			r.journal.Write(c, nil, notes...)
		}
	case answer:
		r.asks.answer(c, m)
	case suspendRun:
		r.parking.begin(c, m)
	case askIdle:
		m.reply.Complete(struct{}{}, r.parking.isIdle())
	default:
		if !r.journal.Receive(c, msg) && !r.calls.receive(c, msg) && !r.logins.receive(c, msg) {
			r.state(r, c, msg)
		}
	}
	for again := true; again; again = r.journal.Acknowledge(c) {
		if r.parking.on {
			r.parking.finish(c)
		}
	}
}

func beginning(r *run, c *actors.Context, msg any) { r.opening.receive(c, msg) }

func (r *run) takingUp(c *actors.Context, msg any) {
	r.resuming.receive(c, msg)
	if r.cfg.Resumes == nil { // the run goes on
		r.resuming = nil
	}
}

// asking waits for answers: to a question at a limit, or for logins.
func (r *run) asking(c *actors.Context, msg any) { r.asks.receive(c, msg) }

// opened begins the first turn of a run that is recorded, and ends one that cannot be.
func (r *run) opened(c *actors.Context, err error) {
	if err != nil {
		if !errors.Is(err, store.ErrExists) {
			err = &JournalError{err}
		}
		r.withdrawFirst()
		r.h.open(begun{}, err)
		r.h.ended.Complete(&Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: err}, nil)
		c.Stop()
		return
	}
	ask := r.opening.ask
	r.opening = nil
	switch {
	case r.out != nil:
		if t := r.turn; t != nil && !r.parking.on { // it is recorded, and costs nothing: the model is not asked
			_ = t.spend.Abandon(false)
			r.journal.Hold(c, journal.Batch{}, t.spend.Failed(r.out.Err))
		}
		r.shutdown.finish(c)
	case r.cfg.Resumes != nil:
		r.state, r.resuming = (*run).takingUp, &resuming{parts: &r.parts, from: r.cfg.Resumes}
		r.resuming.begin(c)
	case ask != nil:
		ask(c)
	default:
		r.list(c)
	}
}

func (r *run) failed(c *actors.Context, err error, why ...runlog.Entry) {
	r.end(c, Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: err}, why...)
}

// cancel ends the run. One that is waiting for its journal only waits for one more grace. Where another
// process has the run above, it has this one too, or will.
func (r *run) cancel(c *actors.Context, cause error) {
	if isFenced(cause) && r.cfg.Journal != nil {
		r.drop(c, cause)
		return
	}
	if r.out != nil && !r.shutdown.cancelled && r.shutdown.graces > 1 {
		r.shutdown.startGrace(c)
	}
	first := !r.shutdown.cancelled
	r.shutdown.cancelled = true
	if _, limit := errors.AsType[*budget.LimitError](cause); limit {
		r.limited(c, cause)
		return
	}
	out := Outcome{State: store.Cancelled, Stop: runlog.StopCancelled, Err: &CancelledError{cause}}
	if r.parking.on && first && r.journal.Recorded() && !r.journal.Final() { // who goes on with it ends it
		r.journal.Hold(c, journal.Batch{}, out.ending())
	}
	r.end(c, out)
}

// drop ends the work on a run that another process has, or will have: whatever is under way is cancelled here, and
// nothing is appended. A run that is not recorded yet may be by the append under way.
func (r *run) drop(c *actors.Context, cause error) {
	switch {
	case r.cfg.Journal == nil:
		r.cancel(c, cause)
		return
	case r.parking.parked, r.h.ended.Completed(): // it is left already
		return
	}
	left := &LeftError{cause}
	if same, ok := errors.AsType[*LeftError](cause); ok {
		left = same
	}
	r.out = &Outcome{State: store.Waiting, Stop: runlog.StopLeft, Err: left}
	r.journal.Leave()
	r.clock.stop()
	r.asks.timer.Clear()
	r.logins.giveUpAll()
	if r.leaveQueue != nil {
		r.leaveQueue()
	}
	if r.turn != nil {
		r.turn.end(left)
	}
	r.h.open(begun{}, left)
	r.parking.answer(left)
	r.shutdown.complete(c, nil)
}

// end is the only way out of a run that ends, and the first reason counts: everything under way is cancelled
// and given its grace. Why are the events that the end follows from. They are written in one append with it, or
// with the event that says how the run ends where that has to wait for something: a kill between the two would
// forget the end.
func (r *run) end(c *actors.Context, out Outcome, why ...runlog.Entry) {
	if r.out != nil {
		if len(why) > 0 {
			r.journal.Write(c, nil, why...)
		}
		return
	}
	r.out = &out
	if o := r.opening; o != nil && o.err != nil {
		r.opened(c, errors.Join(out.Err, o.err))
		return
	}
	r.state = (*run).ending
	r.clock.stop()
	r.asks.timer.Clear()
	r.logins.giveUpAll()
	if r.leaveQueue != nil {
		r.leaveQueue()
	}
	if r.turn != nil {
		r.turn.end(out.Err)
	}
	if rs := r.resuming; rs != nil {
		why = append(why, rs.leftOpen()...)
	}
	if r.shutdown.waits() {
		if r.cfg.Journal != nil && !r.resuming.toEnd() {
			why = append(why, out.ending())
		}
		r.journal.Write(c, nil, why...)
	} else {
		r.shutdown.why = why
	}
	if r.resuming != nil {
		r.resuming.listBelow(c)
	}
	r.asks.withdrawAll(c)
	r.shutdown.startGrace(c)
	r.shutdown.finish(c)
}

func (r *run) ending(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *journal.Creation:
		r.opening.receive(c, m)
	case *toolReturned:
		r.calls.returnedLate(c, m)
	case resumed:
		if r.resuming != nil {
			r.resuming.endBelow(c, m)
		}
	case askSeen:
		r.asks.receive(c, m)
	case graceOver:
		r.shutdown.giveUp(c)
	}
}
