package loop

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/window"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
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
	req := window.Last(l.talk.request(l.cfg))
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
	req.Tools, req.ToolChoice = nil, llm.ToolChoiceNone
	if l.h.spend.HoldLast(l.input(&req), l.cfg.MaxTokens) != nil {
		l.run.limited(c, limit, before...)
		return
	}
	l.ask(c, limit, &req, before, func() []runlog.Entry { return nil })
}

// ask spends what is held for the last turn on a request. Says returns the events that begin it.
func (l *lastTurn) ask(c *actors.Context, limit *budget.LimitError, req *llm.Request, before []runlog.Entry, says func() []runlog.Entry) {
	t := new(turn)
	input := l.input(req)
	if !l.h.spend.SpendLast(&t.paid, input, l.cfg.Model.Name()) {
		l.run.limited(c, limit, before...)
		return
	}
	l.limit = limit
	req = window.FitLast(req, llm.EstimateTokens(req)+t.paid.Reserved()-input)
	req.MaxTokens = t.paid.Output()
	before = append(before, says()...)
	l.begins(t)
	t.answers = true
	l.run.begin(c, t, req, before...)
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
	out := Outcome{State: store.Limited, Stop: runlog.StopLimit, Text: m.turn.resp.Text(), Structured: m.structured, Err: l.limit}
	out.Incomplete = runlog.Incomplete(m.turn.resp.Finish, out.Text, out.Structured, l.talk.tools.names())
	switch {
	case m.err != nil || m.guards.Stop != nil || m.guards.Refused != "":
		out.Text, out.Structured, out.Incomplete = "", nil, ""
	case m.text != nil:
		out.Text = *m.text
	}
	l.run.end(c, out, m.guards.Entries("")...)
}
