package loop

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// maxHandOffs bounds how often a run goes from one agent to another.
const maxHandOffs = 8

// mayHandOff says why the conversation can not be handed over; n calls of the turn
// have asked for it before.
func (r *run) mayHandOff(n int) string {
	switch {
	case n > 0:
		return "not called: another call of this turn hands the conversation over already"
	case r.handOffs >= maxHandOffs:
		return fmt.Sprintf("not called: the conversation was handed over %d times, which is the most", maxHandOffs)
	}
	return ""
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
	r.handOffs++
	r.cfg = r.cfg.takeOver(next)
	if err := r.spend.reprice(r.cfg); err != nil {
		r.failed(c, err)
		return
	}
	r.window.scale = 0 // of another model
	r.write(c, func(c *actors.Context) {
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
