package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// ErrNotAsked says that a question can not be asked: the run ends, or the call has
// asked too much.
var ErrNotAsked = errors.New("the question can not be asked")

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

// Ask puts a question to whoever answers for the run, and waits for the decision,
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

func (r *run) declinedUnasked(c *actors.Context, m declinedUnasked) {
	cl := m.call
	if r.out != nil || r.turn == nil || cl.unasked >= maxUnasked {
		return
	}
	cl.unasked++
	r.write(c, nil, runlog.Entry{Type: runlog.QuestionDeclinedType, Key: cl.key,
		Body: &runlog.QuestionDeclined{Kind: m.kind, Server: cl.tool.Server, Tool: cl.name, Reason: clip.Short(m.reason)}})
}

// raise opens the question of a call, if the call still runs.
func (r *run) raise(c *actors.Context, m *raise) {
	cl := m.call
	switch {
	case m.reply.Completed(): // withdrawn before
		return
	case r.cfg.Journal == nil:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: there is nobody to ask", ErrNotAsked))
		return
	case r.out != nil, r.turn == nil, cl.turn != r.turn, cl.phase != sent:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the call or its run has ended", ErrNotAsked))
		return
	case r.suspending != nil:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the run is being suspended", ErrNotAsked))
		return
	case cl.raised >= maxRaised:
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: the call has asked %d times", ErrNotAsked, maxRaised))
		return
	}
	cl.raised++
	expires := m.q.Expires
	if latest := time.Now().Add(r.cfg.AskExpiry); expires.IsZero() || expires.After(latest) {
		expires = latest
	}
	m.open = &openAsk{call: cl, raised: m, row: store.Ask{
		ID: fmt.Sprintf("%s.%d", cl.key, cl.raised), Run: r.cfg.ID, Kind: m.q.Kind, Tool: cl.name, Server: cl.tool.Server,
		Origin: cl.tool.Origin, Path: r.cfg.Path, Trust: trust(cl.tool), Payload: m.q.Payload, Default: m.q.Default,
		Hash: m.q.Hash, Expires: store.Clock(expires),
	}}
	if err := m.open.row.Check(); err != nil {
		m.open = nil
		m.reply.Complete(store.Decision{}, fmt.Errorf("%w: %w", ErrNotAsked, err))
		return
	}
	r.advance(c, r.listAsk(m.open))
}

// unraise withdraws a question whose call does not wait for it any more.
func (r *run) unraise(c *actors.Context, m unraise) {
	a := m.raised.open
	if a == nil || a.settled || r.out != nil {
		return
	}
	d := store.Decision{Status: store.AskCancelled, By: "runtime", Answer: runlog.DeclineAnswer("the call does not wait for it any more")}
	if a.stored {
		r.settleHere(c, a, answer{ask: a.row.ID, decision: d, reply: new(actors.Reply[store.Ask])})
		return
	}
	a.answers = append(a.answers, answer{ask: a.row.ID, decision: d, reply: new(actors.Reply[store.Ask])})
}

// takeBack withdraws what a call has asked that has returned without waiting.
func (r *run) takeBack(c *actors.Context, cl *call) {
	for _, a := range r.asks {
		if a.raised != nil && a.call == cl {
			r.unraise(c, unraise{a.raised})
		}
	}
}

// raisedOpen reports whether a question of a call is open.
func (r *run) raisedOpen() bool { return len(r.asks) > r.waitsFor() }
