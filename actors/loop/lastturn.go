package loop

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/actors/loop/internal/window"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// lastTurn is the turn in which a run that has reached a limit answers with what it has. It was held
// all along. A model that calls tools all the same is told once that it cannot, and answers once more if there is room for
// that; else what it has said is the answer.
type lastTurn struct {
	*parts
	limit *budget.LimitError // that was reached; nil before
	told  bool               // the model has called tools all the same
}

// concluded is a message to itself: the last answer has been looked at.
type concluded struct{ decided }

// begin asks the model for the last time.
func (l *lastTurn) begin(c *actors.Context, limit *budget.LimitError, before []runlog.Entry) {
	why := window.BudgetUsed
	if limit.Limit == budget.Repeats {
		why = window.Repeated
	}
	req := window.Last(l.talk.request(l.cfg), why)
	note := req.Messages[len(req.Messages)-1]
	l.ask(c, limit, req, before, func() []runlog.Entry {
		l.talk.Say(note)
		return []runlog.Entry{l.limits.reached(limit, runlog.LimitWrapUp),
			{Type: runlog.InputAddedType, Body: &runlog.InputAdded{Message: note, Why: runlog.AddedLast}}}
	})
}

// again asks for the last turn anew that was lost, if there is still room for it.
func (l *lastTurn) again(c *actors.Context, limit *budget.LimitError, before []runlog.Entry) {
	req := *l.talk.request(l.cfg) // with the note
	req.ToolChoice = llm.ToolChoiceNone
	l.ask(c, limit, &req, before, func() []runlog.Entry { return nil })
}

// ask asks for a last turn, if it can be paid for. Says returns the events that begin it.
func (l *lastTurn) ask(c *actors.Context, limit *budget.LimitError, req *llm.Request, before []runlog.Entry, says func() []runlog.Entry) {
	t := new(turn)
	req, ok := l.pay(t, req, limit)
	if !ok {
		l.run.limited(c, limit, before...)
		return
	}
	l.limit = limit
	req.MaxTokens = t.paid.Output()
	l.asks(c, t, req, append(before, says()...))
}

// pay pays for a last turn with what was held for it, which the request is made to fit. A run that was resumed has not
// held it yet, nor has one that only wraps up because it repeats itself: that has room for a whole turn as a rule.
func (l *lastTurn) pay(t *turn, req *llm.Request, limit *budget.LimitError) (*llm.Request, bool) {
	if limit.Limit == budget.Repeats && l.reserves(t, req) {
		return req, true
	}
	input := l.input(req)
	if !l.h.spend.HoldsLast() && l.h.spend.HoldLast(input, l.cfg.MaxTokens) != nil || !l.h.spend.SpendLast(&t.paid, input, l.cfg.Model.Name()) {
		return nil, false
	}
	return window.FitLast(req, llm.EstimateTokens(req)+t.paid.Reserved()-input), true
}

// asks asks for a last turn that is paid for.
func (l *lastTurn) asks(c *actors.Context, t *turn, req *llm.Request, before []runlog.Entry) {
	l.begins(t)
	t.answers = true
	l.run.begin(c, t, req, before...)
}

// refuses reports whether the calls of an answer are those of a last turn, for the first time. They stay in it then.
func (l *lastTurn) refuses(t *turn, resp *llm.Response) bool {
	return l.limit != nil && !l.told && t.guards.Stop == nil && t.guards.Refused == "" && len(resp.Calls())+len(resp.Cut) > 0
}

// noMoreTools is the result of each call of a last turn.
const noMoreTools = "not called: no more tools can be called. Answer now with what you have."

// refuse answers the calls of the last turn.
func (l *lastTurn) refuse(c *actors.Context) {
	t := l.turn
	t.uses, l.told = t.resp.Calls(), true
	l.calls.add(t.uses)
	entries, results := make([]runlog.Entry, len(t.calls)), make(mcp.Contents, len(t.calls))
	for i, cl := range t.calls {
		entries[i] = l.calls.settle(cl, mcp.ErrorResult(noMoreTools), false)
		results[i] = cl.result
	}
	l.talk.Say(t.resp.Message())
	l.talk.Say(llm.Message{Role: llm.RoleUser, Content: results})
	l.onceMore(c, entries)
}

// onceMore asks for another last turn, if there is room for it; else the run ends with what was said.
func (l *lastTurn) onceMore(c *actors.Context, before []runlog.Entry) {
	req, t := l.talk.request(l.cfg), new(turn)
	req.ToolChoice = llm.ToolChoiceNone
	if !l.reserves(t, req) {
		l.journal.Hold(c, journal.Batch{}, before...)
		l.run.conclude(c)
		return
	}
	req.MaxTokens = t.paid.Output()
	l.asks(c, t, req, before)
}

// reserves holds a last turn beside the one that was held all along, and reports whether there is room for it.
func (l *lastTurn) reserves(t *turn, req *llm.Request) bool {
	ask := budget.Turn{Input: l.input(req), Output: l.cfg.MaxTokens, Steps: 1, Least: spend.MinTurnOutput}
	return l.h.spend.ReserveTurn(&t.paid, ask, l.cfg.Model.Name()) == nil
}

// text is what the model has said last: that is nothing new where it has only called tools again.
func (l *lastTurn) text() string {
	text := l.turn.resp.Text()
	messages := l.talk.Messages()
	for i := len(messages) - 1; text == "" && l.told && i >= 0; i-- {
		if messages[i].Role == llm.RoleAssistant {
			return messages[i].Content.Text()
		}
	}
	return text
}

// look checks the last answer.
func (l *lastTurn) look(c *actors.Context) {
	t, cfg, text := l.turn, l.cfg, l.text()
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
	out := Outcome{State: store.Limited, Stop: stopAt(l.limit), Text: l.text(), Structured: m.structured, Err: l.limit}
	out.Incomplete = runlog.Incomplete(m.turn.resp.Finish, out.Text, out.Structured, l.talk.tools.names())
	switch {
	case m.err != nil || m.guards.Stop != nil || m.guards.Refused != "":
		out.Text, out.Structured, out.Incomplete = "", nil, ""
	case m.text != nil:
		out.Text = *m.text
	}
	l.run.end(c, out, m.guards.Entries("")...)
}
