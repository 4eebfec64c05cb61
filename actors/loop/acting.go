package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// act begins the calls of a turn.
func (r *run) act() {
	r.state = (*run).acting
	r.turn.spend = nil // it is paid
	r.talk.say(r.turn.resp.Message())
}

func (r *run) acting(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *toolReturned:
		r.calls.returned(c, m)
	case graceOver:
		r.calls.giveUp(c)
	default:
		r.asks.receive(c, msg)
	}
}

// acted hands all results to the model, in its order, and begins the next turn.
func (r *run) acted(c *actors.Context) {
	t := r.turn
	results := make(mcp.Contents, len(t.calls))
	for i, cl := range t.calls {
		results[i] = cl.result
	}
	r.talk.say(llm.Message{Role: llm.RoleUser, Content: results})
	if t.over != nil {
		r.limits.callsOver(c, t.over)
		return
	}
	r.next(c)
}

// stopLooked is a message to itself: the condition has been looked at.
type stopLooked struct {
	turn   *turn
	reason string
	stop   bool
	err    error
}

// next follows a turn that the model has not ended the run with.
func (r *run) next(c *actors.Context) {
	when := r.cfg.StopWhen
	if when == nil {
		r.handOver(c)
		return
	}
	r.state = (*run).stopping
	t, info := r.turn, r.turn.info(r.cfg)
	actors.Await(c, func(context.Context) (stopLooked, error) {
		reason, stop := when(info)
		return stopLooked{reason: reason, stop: stop}, nil
	}, func(m stopLooked, err error) any { m.turn, m.err = t, err; return m })
}

func (r *run) stopping(c *actors.Context, msg any) {
	m, ok := msg.(stopLooked)
	if !ok || m.turn != r.turn {
		return
	}
	switch {
	case m.err != nil:
		r.failed(c, fmt.Errorf("looking whether the run is to stop: %w", m.err))
	case m.stop:
		r.journal.write(c, nil, runlog.Entry{Type: runlog.StopMetType, Body: &runlog.StopMet{Turn: r.turn.n, Condition: clip.Short(m.reason)}})
		out := Outcome{State: store.Finished, Stop: runlog.StopCondition, Text: r.turn.resp.Text()}
		r.end(c, out)
	default:
		r.handOver(c)
	}
}

// maxHandOffs bounds how often a run goes from one agent to another.
const maxHandOffs = 8

// handOver makes the run another agent's, if a call of the turn was to do so.
func (r *run) handOver(c *actors.Context) {
	i := slices.IndexFunc(r.turn.calls, func(cl *call) bool {
		return cl.tool != nil && cl.tool.HandOff != nil && cl.made && !cl.result.IsError
	})
	if i < 0 {
		r.list(c)
		return
	}
	next := r.turn.calls[i].tool.HandOff()
	from := r.cfg.Agent
	r.check.handOffs++
	r.cfg = r.cfg.takeOver(next)
	if err := reprice(r.spend, r.cfg); err != nil {
		r.failed(c, err)
		return
	}
	r.talk.window.NewModel()
	r.journal.write(c, func(c *actors.Context) {
		if r.out == nil {
			r.list(c)
		}
	}, runlog.Entry{Type: runlog.AgentChangedType, Key: r.turn.calls[i].key, Body: &runlog.AgentChanged{
		Turn: r.turn.n, From: from, To: r.cfg.Agent, Path: r.cfg.Path, Hash: r.cfg.Hash, Model: r.cfg.Model.Name(), System: r.cfg.System}})
}

// takeOver returns the configuration of the same run with another agent: its name,
// instructions, model, tools, and what it allows. Input, schema, limits and journal
// are the run's.
func (c *config) takeOver(next *Config) *config {
	d, s := *c, *c.shared
	s.Agent, s.Hash, s.System, s.Model = next.Agent, next.Hash, next.System, next.Model
	s.MaxTokens, s.Temperature, s.Guards, s.StopWhen = next.MaxTokens, next.Temperature, next.Guards, next.StopWhen
	s.Context, s.Summarise, s.Pricing = next.Context, next.Summarise, next.Pricing
	d.shared, d.Tools, d.Gate = &s, next.Tools, next.Gate
	d.Path = append(slices.Clone(c.Path), next.Agent)
	return &d
}

// mayHandOff says why the conversation cannot be handed over; n calls of the turn
// have asked for it before.
func mayHandOff(done, n int) string {
	switch {
	case n > 0:
		return "not called: another call of this turn hands the conversation over already"
	case done >= maxHandOffs:
		return fmt.Sprintf("not called: the conversation was handed over %d times, which is the most", maxHandOffs)
	}
	return ""
}

// TurnInfo is a turn that is over: the model has spoken, and its calls have returned.
type TurnInfo struct {
	Run, Agent string
	Turn       int    // from one
	Text       string // what the model has said beside its calls
	Calls      iter.Seq[TurnCall]
}

// TurnCall is one call of a turn.
type TurnCall struct {
	Server, Tool string
	Arguments    json.RawMessage
	Made         bool                   // it was neither refused nor declined
	Result       *mcp.ToolResultContent // as the model sees it; not to be changed
}

func (t *turn) info(cfg *config) *TurnInfo {
	return &TurnInfo{Run: cfg.ID, Agent: cfg.Agent, Turn: t.n, Text: t.resp.Text(), Calls: func(yield func(TurnCall) bool) {
		for _, cl := range t.calls {
			if !yield(TurnCall{Server: cl.server(), Tool: cl.name, Arguments: cl.args, Made: cl.made, Result: cl.result}) {
				return
			}
		}
	}}
}
