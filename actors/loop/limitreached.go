// limitreached.go: the reactions of a run that has reached a limit.
//
//	             stop, or wall time
//	limiting ──┬─────────────────────────────────────────▶ ending
//	           │ ask                  no, or no answer
//	           ├─────▶ askingMore ───────────────────────▶ ending
//	           │           │ yes: the limit is raised
//	           │           └──▶ back to what was to be done
//	           │ wrap-up                  replied
//	           └─────▶ thinking (last) ───────▶ concluding ─▶ ending

package loop

import (
	"context"
	"errors"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// hit sends a limit to the run itself, so that it is one of its messages.
func (r *run) hit(c *actors.Context, m limitHit) {
	r.state = (*run).limiting
	c.Self().Send(m)
}

// limiting goes on at a limit by the configuration.
func (r *run) limiting(c *actors.Context, msg any) {
	m, ok := msg.(limitHit)
	if !ok {
		return
	}
	switch limit := m.ask.err; {
	case r.cfg.Limits.OnLimit == runlog.LimitAsk && limit.At() != nil:
		r.state = (*run).askingMore
		r.limits.ask(c, m.before, m.ask)
	case r.cfg.Limits.OnLimit == runlog.LimitWrapUp && r.h.spend.HoldsLast():
		r.wrapUp(c, limit, m.before)
	default:
		r.journal.write(c, nil, m.before...)
		r.limited(c, limit)
	}
}

// limited ends the run at a limit.
func (r *run) limited(c *actors.Context, err error) {
	if limit, ok := errors.AsType[*budget.LimitError](err); ok && r.out == nil && r.journal.recorded && r.limits.noted != limit {
		r.journal.write(c, nil, r.limits.reached(limit, runlog.LimitStop))
	}
	r.end(c, Outcome{State: store.Limited, Stop: runlog.StopLimit, Err: err})
}

func (r *run) askingMore(c *actors.Context, msg any) { r.asks.receive(c, msg) }

// concluded is a message to itself: the last answer has been looked at.
type concluded struct{ decided }

// wrapUp asks the model for the last time. That turn was held all along.
func (r *run) wrapUp(c *actors.Context, limit *budget.LimitError, before []runlog.Entry) {
	req := lastRequest(r.talk.request(r.cfg))
	spend := r.h.spend.SpendLast(r.h.spend.Input(req), r.cfg.Model.Name())
	if spend == nil {
		r.journal.write(c, nil, before...)
		r.limited(c, limit)
		return
	}
	r.state, r.wrapping = (*run).thinking, limit
	req = fitLast(req, llm.EstimateTokens(req)+spend.Reserved()-r.h.spend.Input(req))
	req.MaxTokens = spend.Output()
	note := req.Messages[len(req.Messages)-1]
	r.talk.say(note)
	t := r.begins(spend)
	t.answers = true
	intent := t.intent(req, r.clock.remaining())
	intent.Body.(*runlog.ModelIntent).Last = true
	entries := append(before, r.limits.reached(limit, runlog.LimitWrapUp), runlog.Entry{Type: runlog.InputAddedType, Body: &runlog.InputAdded{Message: note, Why: runlog.AddedLast}}, intent)
	r.journal.write(c, func(c *actors.Context) { r.ask(c, t, req) }, entries...)
}

// fitLast makes the last request no larger than was held for it. What came since then
// is the last exchange: its results are left out as far as need be, and else all of it,
// since the request before it did fit.
func fitLast(req *llm.Request, input int) *llm.Request {
	if llm.EstimateTokens(req) <= input {
		return req
	}
	cut := *req
	cut.Messages = slices.Clone(req.Messages)
	for i := len(cut.Messages) - 1; i >= 0; i-- {
		m := &cut.Messages[i]
		if m.Role == llm.RoleAssistant {
			cut.Messages = slices.Delete(cut.Messages, i, len(cut.Messages)-1) // all but the note
			return &cut
		}
		m.Content = slices.Clone(m.Content)
		for j, block := range m.Content {
			if res, ok := block.(*mcp.ToolResultContent); ok {
				m.Content[j] = &mcp.ToolResultContent{ToolUseID: res.ToolUseID, IsError: res.IsError,
					Content: mcp.Contents{mcp.Text("[left out: the budget is used up]")}}
				if llm.EstimateTokens(&cut) <= input {
					return &cut
				}
			}
		}
	}
	return &cut
}

// conclude looks at the last answer.
func (r *run) conclude(c *actors.Context) {
	r.state = (*run).concluding
	t, cfg, text := r.turn, r.cfg, r.turn.resp.Text()
	actors.Await(c, func(ctx context.Context) (decided, error) {
		d, err := checkAnswer(ctx, cfg, t.n, text)
		if err != nil { // there is no turn to mend it
			unchecked := *cfg
			unchecked.Check = nil
			return checkAnswer(ctx, &unchecked, t.n, text)
		}
		return d, nil
	}, func(d decided, err error) any { d.turn, d.err = t, err; return concluded{d} })
}

func (r *run) concluding(c *actors.Context, msg any) {
	m, ok := msg.(concluded)
	if !ok || m.turn != r.turn {
		return
	}
	if len(m.guards.Acted) > 0 {
		r.journal.write(c, nil, m.guards.Entries("")...)
	}
	out := Outcome{State: store.Limited, Stop: runlog.StopLimit, Text: m.turn.resp.Text(), Structured: m.structured, Err: r.wrapping}
	switch {
	case m.err != nil || m.guards.Stop != nil || m.guards.Refused != "":
		out.Text, out.Structured = "", nil
	case m.text != nil:
		out.Text = *m.text
	}
	r.end(c, out)
}
