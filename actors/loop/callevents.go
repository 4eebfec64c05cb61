package loop

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// receive takes the messages of calls under way, and reports whether msg was one.
func (cs *calls) receive(c *actors.Context, msg any) bool {
	switch m := msg.(type) {
	case *raise:
		cs.raise(c, m)
	case unraise:
		cs.unraise(c, m)
	case declinedUnasked:
		cs.declinedUnasked(c, m)
	case hold:
		cs.hold(m)
	case taskMade:
		if cl := m.call; !cs.finishing() && cl.turn == cs.turn && cl.phase == sent && cl.goes && len(m.task) <= maxTaskID {
			cs.journal.Write(c, nil, runlog.Entry{Type: runlog.ToolTaskType, Key: cl.key, Body: &runlog.ToolTask{Turn: cl.turn.n, CallID: cl.id, Task: m.task}})
		}
	case roundMade:
		cs.roundMade(c, m)
	case dispatchWanted:
		cs.dispatchCall(c, m)
	case waitsFor:
		cs.waitFor(c, m)
	default:
		return false
	}
	return true
}

// maxTaskID bounds the IDs of tasks in a journal.
const maxTaskID = 1024

// returned goes on with a call that has returned, while the run acts.
func (cs *calls) returned(c *actors.Context, m *toolReturned) {
	if m.call.turn != cs.turn || m.call.phase != sent {
		return // late
	}
	if cs.leaves(c, m) {
		return
	}
	cs.turn.busy--
	cs.takeBack(c, m.call)
	cs.releaseClock(m.call)
	var room [4]runlog.Entry // on the stack
	entries := cs.outcomes(room[:0], c, m)
	if stop := m.guards.Stop; stop != nil {
		cs.run.failed(c, stop, slices.Clone(entries)...)
		return
	}
	cs.advance(c, entries...)
	cs.recovery.endIfTold(c)
}

// leaves leaves the run with the one that a call has started and that was left, and reports whether it does: the call goes on
// with that one.
func (cs *calls) leaves(c *actors.Context, m *toolReturned) bool {
	if m.err == nil || m.call.child() == "" || !cs.cfg.Stored {
		return false
	}
	if out, ok := errors.AsType[*OutageError](m.err); ok {
		cs.parking.leave(m.call)
		cs.run.outage(c, out)
		return true
	}
	if refused, ok := errors.AsType[*RefusedError](m.err); ok {
		cs.parking.leave(m.call)
		cs.parking.start(c, refused, runlog.RunParked{Why: clip.Short(refused.Error())})
		return true
	}
	return false
}

// returnedLate records a call that has returned while the run ends.
func (cs *calls) returnedLate(c *actors.Context, m *toolReturned) {
	if m.call.turn != cs.turn || m.call.phase != sent || cs.journal.Final() {
		return // given up already
	}
	cs.turn.busy--
	cs.journal.Write(c, nil, cs.outcomes(nil, c, m)...)
	cs.shutdown.finish(c)
}

// dispatchCall lets a call be sent once that is recorded.
func (cs *calls) dispatchCall(c *actors.Context, m dispatchWanted) {
	cl := m.call
	switch {
	case cs.out != nil, cl.turn != cs.turn, cl.phase != sent, cl.dispatched && !cl.goes:
		m.proceed(ErrNotDispatched)
		return
	case cl.goes && !cl.between: // a round that is not recorded
		m.proceed(nil)
		return
	}
	cl.dispatched, cl.between = true, false
	cs.recovery.withdrawRound(c, cl.was) // what is asked from now on is another round's
	cs.journal.Write(c, func(*actors.Context) {
		if cs.finishing() || cl.phase != sent {
			m.proceed(ErrNotDispatched)
			return
		}
		cl.goes = true
		cs.pay(cl, true)
		m.proceed(nil)
	}, cl.dispatchOf())
}

// roundMade writes what the server of a call wants to know. A round that would fill the journal is
// not written: after a crash the outcome of its call is unknown.
func (cs *calls) roundMade(c *actors.Context, m roundMade) {
	cl := m.call
	if cs.finishing() || cl.turn != cs.turn || cl.phase != sent || !cl.goes || m.size > maxRound {
		return
	}
	cl.between = true
	body := &runlog.ToolRound{Turn: cl.turn.n, CallID: cl.id, Requests: m.requests, State: m.state}
	cs.journal.Write(c, nil, runlog.Entry{Type: runlog.ToolRoundType, Key: cl.key, Body: body})
}

// maxRound bounds a round in the journal, in bytes.
const maxRound = 1 << 20

// waitFor notes the reason of a call's wait.
func (cs *calls) waitFor(c *actors.Context, m waitsFor) {
	cl := m.call
	if cs.out != nil || cl.turn != cs.turn || cl.phase != sent || cl.dispatched || (cl.waits == "") == (m.what == "") {
		return
	}
	cl.waits = m.what
	if m.what == "" {
		cs.hold(hold{cl, -1})
		return
	}
	cs.hold(hold{cl, 1})
	c.Log().Info("a call waits", "run", cs.cfg.ID, "tool", cl.name, "for", m.what)
	cs.journal.Write(c, nil, runlog.Entry{Type: runlog.ToolWaitingType, Key: cl.key, Body: &runlog.ToolWaiting{
		Turn: cl.turn.n, CallID: cl.id, Tool: cl.name, Server: cl.server(), For: clip.Short(m.what)}})
}

func (cs *calls) hold(m hold) {
	cl := m.call
	if cs.out != nil || cl.turn != cs.turn || cl.phase != sent || cl.held+m.n < 0 {
		return
	}
	cl.held += m.n
	if m.n > 0 {
		cs.clock.hold()
	} else {
		cs.clock.release()
	}
}

// releaseClock ends the hold on the clock of a call that has returned.
func (cs *calls) releaseClock(cl *call) {
	for ; cl.held > 0; cl.held-- {
		cs.clock.release()
	}
}

func (cs *calls) declinedUnasked(c *actors.Context, m declinedUnasked) {
	cl := m.call
	if cs.out != nil || cs.turn == nil || cl.unasked >= maxUnasked {
		return
	}
	cl.unasked++
	cs.journal.Write(c, nil, runlog.Entry{Type: runlog.QuestionDeclinedType, Key: cl.key,
		Body: &runlog.QuestionDeclined{Kind: m.kind, Server: cl.tool.Server, Tool: cl.name, Reason: clip.Short(m.reason)}})
}

// raise opens the question of a call, if the call still runs.
func (cs *calls) raise(c *actors.Context, m *raise) {
	cl := m.call
	switch {
	case m.reply.Completed(): // withdrawn before
		return
	case cs.cfg.Journal == nil:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the run has no person to ask", ErrNotAsked))
		return
	case cs.parking.on && !cs.finishing() && cl.turn == cs.turn && cl.phase == sent: // the call waits until it is left
		return
	case cs.out != nil, cs.turn == nil, cl.turn != cs.turn, cl.phase != sent:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the call or its run has ended", ErrNotAsked))
		return
	case cl.raised >= maxRaised:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the call has asked %d times", ErrNotAsked, maxRaised))
		return
	}
	expires := m.q.Expires
	if latest := time.Now().Add(cs.cfg.AskExpiry); expires.IsZero() || expires.After(latest) {
		expires = latest
	}
	if cs.recovery.takeUpRaised(c, m) {
		return
	}
	m.open = &openAsk{call: cl, raised: m, then: func(c *actors.Context, d store.Decision, entries []runlog.Entry) {
		told := func() { m.reply.Complete(d, nil) }
		if len(entries) == 0 { // it is durable
			told()
			told = nil
		}
		cs.advanceAnd(c, told, entries...)
	}, row: cl.question(cs.cfg, m.q.Kind, cl.nextAsk())}
	row := &m.open.row
	row.Payload, row.Default, row.Hash, row.Expires = m.q.Payload, m.q.Default, m.q.Hash, store.Clock(expires)
	if err := row.Check(); err != nil {
		m.open = nil
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: %w", ErrNotAsked, err))
		return
	}
	cs.advance(c, cs.asks.add(m.open))
}

// unraise withdraws a question whose call does not wait for it any more.
func (cs *calls) unraise(c *actors.Context, m unraise) {
	a := m.raised.open
	if a == nil || a.settled || cs.out != nil {
		return
	}
	d := store.Decision{Status: store.AskCancelled, By: "runtime", Answer: runlog.DeclineAnswer("the call does not wait for it any more")}
	if a.stored {
		cs.asks.settle(c, a, answer{ask: a.row.ID, decision: d, reply: new(actors.Reply[store.Ask])})
		return
	}
	a.answers = append(a.answers, answer{ask: a.row.ID, decision: d, reply: new(actors.Reply[store.Ask])})
}

// takeBack withdraws the questions of a call that has returned without waiting.
func (cs *calls) takeBack(c *actors.Context, cl *call) {
	cs.logins.returned(c, cl)
	cs.recovery.withdrawRound(c, cl.was)
	for _, a := range cs.asks.open {
		if a.raised != nil && a.call == cl {
			cs.unraise(c, unraise{a.raised})
		}
	}
}
