package loop

import (
	"context"
	"fmt"
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
	r.talk.Say(r.turn.resp.Message())
}

func (r *run) acting(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *toolReturned:
		r.calls.returned(c, m)
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
	r.talk.Say(llm.Message{Role: llm.RoleUser, Content: results})
	r.repeats.see(t, results)
	if t.over != nil {
		r.limits.callsOver(c, t.over)
		return
	}
	if limit := r.repeats.over(); limit != nil {
		r.hit(c, limitHit{ask: &limitAsk{err: limit}})
		return
	}
	r.repeats.tell(c, t)
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
		r.end(c, Outcome{State: store.Finished, Stop: runlog.StopCondition, Text: r.turn.resp.Text()},
			runlog.Entry{Type: runlog.StopMetType, Body: &runlog.StopMet{Turn: r.turn.n, Condition: clip.Short(m.reason)}})
	default:
		r.handOver(c)
	}
}

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
	r.approvals.differs = runlog.Differs{} // this agent is recorded as it is
	if err := reprice(r.h.spend, r.cfg); err != nil {
		r.failed(c, err)
		return
	}
	r.talk.window.NewModel()
	r.journal.Write(c, r.list, runlog.Entry{Type: runlog.AgentChangedType, Key: r.turn.calls[i].key, Body: &runlog.AgentChanged{
		Turn: r.turn.n, From: from, To: r.cfg.Agent, Path: r.cfg.Path, Hash: r.cfg.Hash, Model: r.cfg.Model.Name(), System: r.cfg.System}})
}
