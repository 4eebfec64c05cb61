package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/window"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// listed is a message to itself: the tools are known.
type listed struct {
	offer  *Offer
	absent []runlog.Absent
	err    error
}

// list asks for the tools before each turn: they may have changed.
func (r *run) list(c *actors.Context) {
	if r.cfg.Tools == nil {
		r.prepare(c)
		return
	}
	r.state = (*run).listingTools
	tools := r.cfg.Tools
	actors.Await(c, func(ctx context.Context) (listed, error) {
		offer, absent := offerOf(ctx, tools)
		return listed{offer: offer, absent: absent}, nil
	}, func(l listed, err error) any { l.err = err; return l })
}

func (r *run) listingTools(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case listed:
		if m.err != nil {
			r.failed(c, fmt.Errorf("listing the tools: %w", m.err))
			return
		}
		r.prepare(c, r.talk.offer(m)...)
	}
}

// prepared is a message to itself: the next turn's request is ready.
type prepared struct {
	cut    *window.Cut // nil where all of the conversation fits
	req    *llm.Request
	guards guard.Outcome
	before []runlog.Entry
	err    error
}

// prepare makes the next turn fit the model, and shows it to the guards.
func (r *run) prepare(c *actors.Context, before ...runlog.Entry) {
	turn := 1
	if r.turn != nil {
		turn = r.turn.n + 1
	}
	req := r.talk.request(r.cfg)
	cut := r.talk.cut(r.cfg, req, turn)
	if cut == nil && !guard.BeforeModel.Guarded(r.cfg.Guards) {
		r.think(c, before...)
		return
	}
	r.prepareCut(c, turn, req, cut, before)
}

// prepareCut does so in a task.
func (r *run) prepareCut(c *actors.Context, turn int, req *llm.Request, cut *window.Cut, before []runlog.Entry) {
	r.state = (*run).preparing
	cfg, pays := r.cfg, payer{r.spend, c.Self()}
	actors.Await(c, func(ctx context.Context) (prepared, error) {
		if cut != nil {
			cut.Summarise(context.WithValue(ctx, payerKey{}, pays), req, cfg.Summarise)
		}
		v, g := guard.BeforeModel.Pass(ctx, cfg.Guards, cfg.guardTurn(turn, req), validTurn)
		return prepared{cut: cut, req: v.Request, guards: g, before: before}, nil
	}, func(m prepared, err error) any { m.err = err; return m })
}

// guardTurn is a request as guards see it.
func (c *config) guardTurn(turn int, req *llm.Request) guard.Turn {
	return guard.Turn{Run: c.ID, Agent: c.Agent, Turn: turn, Request: req}
}

// validTurn refuses a changed request that no model would take.
func validTurn(v *guard.Turn) error {
	if v.Request == nil {
		return errors.New("there is no request")
	}
	return v.Request.Validate()
}

func (r *run) preparing(c *actors.Context, msg any) {
	m, ok := msg.(prepared)
	switch {
	case !ok:
		return
	case m.err != nil:
		r.failed(c, fmt.Errorf("preparing the next turn: %w", m.err))
		return
	}
	entries := m.before
	if m.cut != nil {
		entries = append(entries, r.talk.shorten(m.cut))
	}
	entries = append(entries, m.guards.Entries("")...)
	switch {
	case m.guards.Stop != nil:
		r.journal.write(c, nil, entries...)
		r.failed(c, m.guards.Stop)
	case m.guards.Refused != "" && r.cfg.Check != nil:
		r.journal.write(c, nil, entries...)
		r.failed(c, m.guards.Last(m.guards.Acted[len(m.guards.Acted)-1].Text))
	case m.guards.Refused != "":
		r.journal.write(c, nil, entries...)
		r.end(c, Outcome{State: store.Finished, Stop: runlog.StopGuard, Text: m.guards.Refused})
	default:
		r.talk.prepared = m.req
		r.think(c, entries...)
	}
}

// squeeze asks for a turn again that the model found too long, with half of it. It
// reports whether that makes sense: once for each turn, and if there is something to
// leave out.
func (r *run) squeeze(c *actors.Context) bool {
	if !r.talk.window.Squeeze(r.turn.n) {
		return false
	}
	req := r.talk.request(r.cfg)
	cut := r.talk.cut(r.cfg, req, r.turn.n+1)
	if cut == nil {
		return false
	}
	r.prepareCut(c, r.turn.n+1, req, cut, nil)
	return true
}
