package loop

import (
	"context"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// lastTurn is the turn in which a run that has reached a limit answers with what it has. It was held
// all along.
type lastTurn struct {
	*parts
	limit *budget.LimitError // that was reached; nil before
}

// concluded is a message to itself: the last answer has been looked at.
type concluded struct{ decided }

// begin asks the model for the last time.
func (l *lastTurn) begin(c *actors.Context, limit *budget.LimitError, before []runlog.Entry) {
	req := lastRequest(l.talk.request(l.cfg))
	spend := l.h.spend.SpendLast(l.h.spend.Input(req), l.cfg.Model.Name())
	if spend == nil {
		l.journal.write(c, nil, before...)
		l.run.limited(c, limit)
		return
	}
	l.limit = limit
	req = fitLast(req, llm.EstimateTokens(req)+spend.Reserved()-l.h.spend.Input(req))
	req.MaxTokens = spend.Output()
	note := req.Messages[len(req.Messages)-1]
	l.talk.say(note)
	t := l.begins(spend)
	t.answers = true
	l.run.begin(c, t, req, append(before, l.limits.reached(limit, runlog.LimitWrapUp),
		runlog.Entry{Type: runlog.InputAddedType, Body: &runlog.InputAdded{Message: note, Why: runlog.AddedLast}})...)
}

// look checks the last answer.
func (l *lastTurn) look(c *actors.Context) {
	t, cfg, text := l.turn, l.cfg, l.turn.resp.Text()
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

// ends ends the run with the last answer.
func (l *lastTurn) ends(c *actors.Context, m concluded) {
	if len(m.guards.Acted) > 0 {
		l.journal.write(c, nil, m.guards.Entries("")...)
	}
	out := Outcome{State: store.Limited, Stop: runlog.StopLimit, Text: m.turn.resp.Text(), Structured: m.structured, Err: l.limit}
	switch {
	case m.err != nil || m.guards.Stop != nil || m.guards.Refused != "":
		out.Text, out.Structured = "", nil
	case m.text != nil:
		out.Text = *m.text
	}
	l.run.end(c, out)
}

// lastRequest makes a request the last one: without tools, and with the note.
func lastRequest(req *llm.Request) *llm.Request {
	last := *req
	last.Tools, last.ToolChoice = nil, llm.ToolChoiceNone
	last.Messages = append(slices.Clip(req.Messages), llm.User(lastNote))
	return &last
}

// lastNote is the note to the model that it answers for the last time.
const lastNote = "The budget of this run is used up, and no more tools can be called. " +
	"Answer now with what you have, and say what is missing."

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
