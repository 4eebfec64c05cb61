package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Model is a scripted [llm.Model].
type Model struct {
	script *script
	name   string
}

var _ llm.Model = (*Model)(nil)

// Script returns a model that plays the turns, one for each time it is asked. A request
// beyond the last is an error that says who asked.
func Script(turns ...Turn) *Model {
	return &Model{script: &script{turns: turns}, name: "llmtest/script"}
}

// Loop returns a model that begins again behind the last turn.
func Loop(turns ...Turn) *Model {
	m := Script(turns...)
	m.script.loop = true
	return m
}

// ByHistory returns a model that plays the turn whose place is the number of its answers in the
// conversation, and the last one after that: it says the same to a run that was resumed, forked or
// replayed. Remaining is always zero.
func ByHistory(turns ...Turn) *Model {
	m := Script(turns...)
	m.script.byHistory = true
	return m
}

// Named sets the model's name and returns the model. It is for before the first use.
func (m *Model) Named(name string) *Model {
	m.name = name
	return m
}

// Name returns "llmtest/script", or what was set.
func (m *Model) Name() string { return m.name }

// Requests returns what the model was asked so far, in order.
func (m *Model) Requests() []*llm.Request { return m.script.recorded() }

// Remaining returns how many turns have not been asked for.
func (m *Model) Remaining() int { return m.script.remaining() }

// Stream plays the next turn, as [llm.Model] has it. A request that [llm.Request.Validate]
// refuses is an error and takes no turn.
func (m *Model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := req.Validate(); err != nil {
			yield(nil, fmt.Errorf("%s: %w", m.name, err))
			return
		}
		turn, number, err := m.script.take(req)
		if err != nil {
			yield(nil, fmt.Errorf("%s: %w", m.name, err))
			return
		}
		turn = turn.resolve(ctx, req)
		if turn.reply != nil {
			yield(nil, &llm.Error{Provider: "llmtest", Model: m.name, Status: turn.reply.status, Message: turn.reply.body})
			return
		}
		m.play(ctx, req, turn, number, yield)
	}
}

// play passes the events of a turn on.
func (m *Model) play(ctx context.Context, req *llm.Request, turn Turn, number int, yield func(llm.Event, error) bool) {
	calls := 0
	for _, s := range turn.steps {
		if err := s.trouble(ctx); err != nil {
			yield(nil, err)
			return
		}
		var ev llm.Event
		switch {
		case s.text != "":
			ev = llm.TextDelta{Text: s.text}
		case s.thinking != "":
			ev = llm.ThinkingDelta{Text: s.thinking}
		case s.name != "":
			ev = llm.ToolCall{Index: calls, ID: callID(number, calls), Name: s.name, Arguments: json.RawMessage(s.args)}
			calls++
		default:
			continue
		}
		if !yield(ev, nil) {
			return
		}
	}
	if yield(turn.cost(req), nil) {
		yield(llm.Finish{Reason: turn.reason(), Model: m.name}, nil)
	}
}

// Results are the texts of the tool results that a request ends with, in the order of their
// calls: what the model was shown last. They are empty in a request that ends with something
// else.
func Results(req *llm.Request) []string {
	if len(req.Messages) == 0 {
		return nil
	}
	var out []string
	for _, c := range req.Messages[len(req.Messages)-1].Content {
		if r, ok := c.(*mcp.ToolResultContent); ok {
			out = append(out, r.Content.Text())
		}
	}
	return out
}
