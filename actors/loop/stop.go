package loop

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// StopCondition is the reason of a run that [Config.StopWhen] has ended.
const StopCondition = "condition"

// TurnInfo is a turn that is over: the model has spoken, and its calls have returned.
type TurnInfo struct {
	Run, Agent string
	Turn       int    // from one
	Text       string // what the model has said beside its calls
	Calls      []TurnCall
}

// TurnCall is one call of a turn.
type TurnCall struct {
	Server, Tool string
	Arguments    json.RawMessage
	Made         bool                   // it was neither refused nor declined
	Result       *mcp.ToolResultContent // as the model sees it; not to be changed
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
	t, info := r.turn, r.turnInfo()
	actors.Await(c, func(context.Context) (stopLooked, error) {
		reason, stop := when(info)
		return stopLooked{reason: reason, stop: stop}, nil
	}, func(m stopLooked, err error) any { m.turn, m.err = t, err; return m })
}

func (r *run) turnInfo() *TurnInfo {
	t := r.turn
	info := &TurnInfo{Run: r.cfg.ID, Agent: r.cfg.Agent, Turn: t.n, Text: t.resp.Text()}
	for _, cl := range t.calls {
		info.Calls = append(info.Calls, TurnCall{Server: cl.server(), Tool: cl.name, Arguments: cl.args, Made: cl.made, Result: cl.result})
	}
	return info
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
		r.write(c, nil, Entry{Type: StopMetType, Body: &StopMet{Turn: r.turn.n, Condition: clip(m.reason, maxErrText)}})
		out := Outcome{State: store.Finished, Stop: StopCondition, Text: r.turn.resp.Text()}
		r.end(c, out)
	default:
		r.handOver(c)
	}
}
