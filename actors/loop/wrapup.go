package loop

import (
	"context"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Bounds of the output of the last turn, in tokens: a fourth of what there is, and no
// more than this.
const (
	maxLastOutput = 1024
	minTurnOutput = 64 // of any other turn of a run that wraps up; below that the last one is better
)

// lastNote tells the model that it answers for the last time.
const lastNote = "The budget of this run is used up, and no more tools can be called. " +
	"Answer now with what you have, and say what is missing."

// concluded is a message to itself: the last answer has been looked at.
type concluded struct{ decided }

// reserve holds what the next turn may cost, and in a run that wraps up the last turn
// before it, as large as it would be now.
func (r *run) reserve(req *llm.Request) (*turnSpend, error) {
	ask := budget.Turn{Input: r.spend.input(req), Output: req.MaxTokens, Steps: 1}
	if r.cfg.Limits.OnLimit == runlog.LimitWrapUp {
		if err := r.spend.holdLast(r.spend.input(lastRequest(req)), r.cfg.MaxTokens); err != nil {
			return nil, err
		}
		ask.Least = minTurnOutput
	}
	return r.spend.reserveTurn(ask, r.cfg.Model.Name())
}

// lastRequest makes a request the last one: without tools, and with the note.
func lastRequest(req *llm.Request) *llm.Request {
	last := *req
	last.Tools, last.ToolChoice = nil, llm.ToolChoiceNone
	last.Messages = append(slices.Clip(req.Messages), llm.User(lastNote))
	return &last
}

// holdLast holds the last turn of the run, or makes the hold fit its input.
func (s *spending) holdLast(input, maxTokens int) error {
	t := budget.Turn{Input: input, Steps: 1}
	if s.pricing != nil {
		t.Price = s.pricing.Most
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		err := s.last.hold.Resize(t.Amount(s.last.output))
		if err == nil {
			s.last.ask = t
		}
		return err
	}
	room, _ := s.account.Room(t)
	output := max(1, min(room/4, maxLastOutput))
	if maxTokens > 0 {
		output = min(output, maxTokens)
	}
	hold, err := s.account.Reserve(t.Amount(output))
	if err != nil {
		return err
	}
	s.last = &lastTurn{hold, t, output}
	return nil
}

// holdsLast reports whether the last turn is held.
func (s *spending) holdsLast() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last != nil
}

// spendLast makes the last turn the one that is under way. Input is what it would take:
// it gets that much if there is room, also at the cost of half its output, and else what
// was held for it. That may be too little only where it was held at the price of another
// model, before a hand-off: the output is then what it buys, and nil is returned if that
// is nothing.
func (s *spending) spendLast(input int, model string) *turnSpend {
	s.mu.Lock()
	t := &turnSpend{of: s, ask: s.last.ask, output: s.last.output, hold: s.last.hold, model: model}
	s.last, t.ask.Price = nil, llm.Price{}
	if s.pricing != nil {
		t.ask.Price = s.pricing.Most
	}
	ok := t.takeLast(input)
	s.mu.Unlock()
	if !ok {
		t.hold.Release()
		return nil
	}
	return s.begin(t)
}

// takeLast makes what was held for the last turn fit its input, as far as that goes.
func (t *turnSpend) takeLast(input int) bool {
	fits := func(input, output int) bool {
		ask := t.ask
		ask.Input = input
		if t.hold.Resize(ask.Amount(output)) != nil {
			return false
		}
		t.ask, t.output = ask, output
		return true
	}
	covered, lacks := t.ask.Amount(t.output).Cost <= t.hold.Amount().Cost, input-t.ask.Input
	switch {
	case covered && lacks <= 0:
		t.ask.Input = input
		return true
	case fits(input, t.output), 0 < lacks && lacks <= t.output/2 && fits(input, t.output-lacks), covered:
		return true
	}
	for output := t.output / 2; output > 0; output /= 2 {
		if fits(min(input, t.ask.Input), output) {
			return true
		}
	}
	return false
}

// grow holds more for a turn whose request a guard has made larger by n tokens, since it
// was reserved.
func (t *turnSpend) grow(n int) error {
	if n <= 0 {
		return nil
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	more := t.ask
	more.Input += n
	if err := t.hold.Resize(more.Amount(t.output)); err != nil {
		return err
	}
	t.ask = more
	return nil
}

// wrapUp asks the model for the last time. That turn was held all along.
func (r *run) wrapUp(c *actors.Context, limit *LimitError, before []runlog.Entry) {
	req := lastRequest(r.request())
	spend := r.spend.spendLast(r.spend.input(req), r.cfg.Model.Name())
	if spend == nil {
		r.write(c, nil, before...)
		r.limited(c, limit)
		return
	}
	r.state, r.wrapping = (*run).thinking, limit
	req = fitLast(req, llm.EstimateTokens(req)+spend.ask.Input-r.spend.input(req))
	req.MaxTokens = spend.output
	note := req.Messages[len(req.Messages)-1]
	r.say(note)
	t := r.begins(spend)
	t.answers = true
	intent := t.intent(req)
	intent.Body.(*runlog.ModelIntent).Last = true
	entries := append(before, r.limitReached(limit, runlog.LimitWrapUp), runlog.Entry{Type: runlog.InputAddedType, Body: &runlog.InputAdded{Message: note}}, intent)
	r.write(c, func(c *actors.Context) { r.ask(c, t, req) }, entries...)
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
		r.write(c, nil, m.guards.Entries("")...)
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
