package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Question is what a call under way has to ask of a human, as a rule because its
// server does.
type Question struct {
	Kind    string          // not [AskKind]
	Payload json.RawMessage // what is to be decided, as it is to be shown
	Default json.RawMessage // the answer offered first; never taken without a human
	Hash    string          // of what is shown
	// Expires is when it is declined by itself. Zero means the run's AskExpiry.
	Expires time.Time
}

// maxRaised bounds the questions of one call, one after the other or at once: a
// server must not fill the journal with them (ROB-9).
const maxRaised = 64

// ErrNotAsked refuses a question: the run ends, or the call has
// asked too much.
var ErrNotAsked = errors.New("the question cannot be asked")

// Messages from the goroutines of calls.
type (
	raise struct {
		call  *call
		q     Question
		reply *actors.Reply[store.Decision]
		open  *openAsk // the run's; nil before it has the question
	}
	unraise struct{ raised *raise }

	// declinedUnasked is a question that was declined without being put to the run.
	declinedUnasked struct {
		call         *call
		kind, reason string
	}
)

// Ask puts a question to the person who answers for the run, and waits for the decision,
// which is durable by then. The clock of the run's wall time stands still meanwhile
// (TIME-05). When ctx ends the question is withdrawn. It is for the goroutine that
// [Tool.Do] runs on, or others of the call.
func (c *Call) Ask(ctx context.Context, q Question) (store.Decision, error) {
	if c.call == nil {
		return store.Decision{}, fmt.Errorf("%w: it has no run", ErrNotAsked)
	}
	m := &raise{call: c.call, q: q, reply: new(actors.Reply[store.Decision])}
	c.run.Send(m)
	select {
	case <-m.reply.Done():
	case <-c.run.Stopped():
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the run has ended", ErrNotAsked))
	case <-ctx.Done():
		m.reply.Complete(store.Decision{}, context.Cause(ctx))
		c.run.Send(unraise{m})
	}
	return m.reply.Result()
}

// DeclinedUnasked writes into the run's journal that a question of the call's server was
// declined without being asked, and why. It does not wait. A run that has ended ignores it,
// and a call's notes beyond a bound.
func (c *Call) DeclinedUnasked(kind, reason string) {
	if c.call != nil {
		c.run.Send(declinedUnasked{c.call, kind, reason})
	}
}

// maxUnasked bounds the notes of one call in the journal.
const maxUnasked = 16

// ErrNotDispatched ends a call that was not sent because its run has ended.
var ErrNotDispatched = errors.New("not called: the run has ended")

// Messages from the goroutines of calls.
type (
	dispatchWanted struct {
		call    *call
		proceed func(error)
	}
	waitsFor struct {
		call *call
		what string
	}
)

// Dispatch is for a tool that says so, see [Tool].Dispatches: the call is about to be sent.
// It may be once proceed was called with nil, on the run's goroutine: tool.dispatched is
// durable then. With an error it must not be. Proceed must not block; it is not called if
// the context of the call ends before.
func (c *Call) Dispatch(proceed func(error)) {
	if c.call == nil {
		proceed(nil)
		return
	}
	c.run.Send(dispatchWanted{c.call, proceed})
}

// WaitsFor says what the call waits for before it can be sent, and with "" that it does not
// any more. The run's wall time stands still meanwhile: as a rule it
// waits for the question of another run.
func (c *Call) WaitsFor(what string) {
	if c.call != nil {
		c.run.Send(waitsFor{c.call, what})
	}
}

// hold is a message from a call: a run that it has started waits for a human, or does
// not any more.
type hold struct {
	call *call
	n    int // 1 or -1
}

// Hold stops the clock of the run's wall time while the run that this call has
// started waits for a human (TIME-05), until the function that it returns is called,
// once or more often, or the call returns.
func (c *Call) Hold() (release func()) {
	if c.call == nil {
		return func() {}
	}
	c.run.Send(hold{c.call, 1})
	var once sync.Once
	return func() { once.Do(func() { c.run.Send(hold{c.call, -1}) }) }
}

// dispatchCall lets a call be sent once that is recorded.
func (cs *calls) dispatchCall(c *actors.Context, m dispatchWanted) {
	cl := m.call
	if cs.out != nil || cl.turn != cs.turn || cl.phase != sent || cl.dispatched {
		m.proceed(ErrNotDispatched)
		return
	}
	cl.dispatched = true
	cs.journal.write(c, func(*actors.Context) {
		if cs.out != nil || cl.phase != sent {
			m.proceed(ErrNotDispatched)
			return
		}
		cl.goes = true
		cs.pay(cl, true)
		m.proceed(nil)
	}, cl.dispatchOf())
}

// waitFor notes what a call waits for.
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
	cs.journal.write(c, nil, runlog.Entry{Type: runlog.ToolWaitingType, Key: cl.key, Body: &runlog.ToolWaiting{
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

// releaseClock ends what a call that has returned still holds.
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
	cs.journal.write(c, nil, runlog.Entry{Type: runlog.QuestionDeclinedType, Key: cl.key,
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
	case cs.out != nil, cs.turn == nil, cl.turn != cs.turn, cl.phase != sent:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the call or its run has ended", ErrNotAsked))
		return
	case cs.suspending != nil:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the run is being suspended", ErrNotAsked))
		return
	case cl.raised >= maxRaised:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the call has asked %d times", ErrNotAsked, maxRaised))
		return
	}
	cl.raised++
	expires := m.q.Expires
	if latest := time.Now().Add(cs.cfg.AskExpiry); expires.IsZero() || expires.After(latest) {
		expires = latest
	}
	m.open = &openAsk{call: cl, raised: m, then: func(c *actors.Context, d store.Decision, entries []runlog.Entry) {
		m.reply.Complete(d, nil)
		cs.advance(c, entries...)
	}, row: store.Ask{
		ID: fmt.Sprintf("%s.%d", cl.key, cl.raised), Run: cs.cfg.ID, Kind: m.q.Kind, Tool: cl.name, Server: cl.tool.Server,
		Origin: cl.tool.Origin, Path: cs.cfg.Path, Trust: trust(cl.tool), Payload: m.q.Payload, Default: m.q.Default,
		Hash: m.q.Hash, Expires: store.Clock(expires),
	}}
	if err := m.open.row.Check(); err != nil {
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

// takeBack withdraws what a call has asked that has returned without waiting.
func (cs *calls) takeBack(c *actors.Context, cl *call) {
	for _, a := range cs.asks.open {
		if a.raised != nil && a.call == cl {
			cs.unraise(c, unraise{a.raised})
		}
	}
}
