package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

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
	return &TurnInfo{Run: r.cfg.ID, Agent: r.cfg.Agent, Turn: t.n, Text: t.resp.Text(), Calls: func(yield func(TurnCall) bool) {
		for _, cl := range t.calls {
			if !yield(TurnCall{Server: cl.server(), Tool: cl.name, Arguments: cl.args, Made: cl.made, Result: cl.result}) {
				return
			}
		}
	}}
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
		r.write(c, nil, runlog.Entry{Type: runlog.StopMetType, Body: &runlog.StopMet{Turn: r.turn.n, Condition: clip.Short(m.reason)}})
		out := Outcome{State: store.Finished, Stop: runlog.StopCondition, Text: r.turn.resp.Text()}
		r.end(c, out)
	default:
		r.handOver(c)
	}
}
