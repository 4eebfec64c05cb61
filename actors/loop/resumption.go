package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/actors/loop/internal/transcript"
	"github.com/troupe-dev/troupe/actors/loop/internal/window"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Resumption is a run that was claimed to go on.
type Resumption struct {
	Head    store.Run     // as it was claimed for [Config].Owner
	Claimed time.Time     // before that
	State   *runlog.State // the fold of its journal, which is the run's from now on
	// Below is what the runs have spent that it has started, Raised what was allowed to those of
	// them that go on.
	Below   budget.Amount
	Raised  []runlog.LimitRaised
	Counted bool // it is a part of another that goes on: the account above has its costs already
	// Decided are the questions of the run that were decided meanwhile, by their IDs.
	Decided map[string]store.Ask
	Drift   bool // the agent's configuration is another one now
	// Unknown is what becomes of a call that the process before has sent, that has no result and may
	// not be made twice: [runlog.OutcomeAsk] (so is empty), OutcomeAgain, OutcomeTell or OutcomeEnd.
	Unknown string
	OnDrift string          // [runlog.DriftContinue] or DriftAdopt, which is empty too
	With    json.RawMessage // as in [Origin], for the run from here on; empty is as before

	lost   *runlog.Entry  // of the turn that was open; nil for none
	limits *runlog.Limits // of an imported run that had none here; nil else
}

// Spent is what the run has spent with all that it has started, and what a turn that was open may
// have cost.
func (re *Resumption) Spent() budget.Amount {
	held := re.State.Held()
	held.Steps = 0
	spent := re.State.Spent.Plus(held).Plus(re.Below)
	spent.Steps = 0 // a run's own
	return spent
}

// config returns the configuration of a run that goes on.
func (re *Resumption) config(common *shared, own *Own) *shared {
	s := re.State
	if s.Imported && !s.Limited {
		re.limits = common.recordedLimits()
		s.LimitTo(re.limits)
	}
	began := s.Started
	if s.Turn.Open() {
		re.lose()
	}
	own.Nonce, own.Asks, own.Schema, own.Path = began.Nonce, began.Asks, began.Schema, began.Path
	own.Taint.Add(s.Seen)
	d := *common
	d.Limits = Limits{Steps: began.Steps, Tokens: began.Tokens, Cost: began.Cost, ModelCalls: began.ModelCalls, ToolCalls: began.ToolCalls,
		Depth: began.Depth, Wall: time.Duration(began.WallMS) * time.Millisecond, OnLimit: began.OnLimit}.withDefaults()
	d.MaxResult, d.Repeats = began.MaxResult, cmp.Or(began.Repeats, d.Repeats)
	return &d
}

// lose charges the turn that was open with all that was held for it: it may have cost that.
func (re *Resumption) lose() {
	t, held := re.State.Turn, re.State.Held()
	in := min(t.Intent.Reserved, held.Tokens)
	re.lost = &runlog.Entry{Type: runlog.ModelFailedType, Time: re.State.Time, Body: &runlog.ModelFailed{Turn: t.N, Lost: true,
		Usage: runlog.Usage{Input: in, Output: held.Tokens - in, Cost: held.Cost, Estimated: true}, Error: "the process ended during the turn"}}
	re.State.Add(re.lost)
}

// restore gives an account the limits and the costs of the run.
func (re *Resumption) restore(s *spend.Spending, account string) {
	for _, raised := range append(re.Raised, re.State.Raised...) {
		limit := &budget.LimitError{Limit: raised.Limit}
		if more, err := limit.More(raised.By); err == nil && raised.Account == account {
			s.Account().Raise(more)
		}
	}
	below := re.Below
	below.Steps = 0
	s.Restore(spend.Bill{Usage: re.State.Usage, Steps: re.State.Steps, ToolCalls: re.State.ToolCalls, Spent: re.State.Spent.Plus(below)}, re.Counted)
}

// conversation is that of the run so far.
func (re *Resumption) conversation() conversation {
	s := re.State
	var used []string
	for _, c := range s.Calls {
		used = append(used, c.CallID)
	}
	if s.Turn != nil { // they may not be decided
		for _, use := range s.Turn.Wanted() {
			used = append(used, use.ID)
		}
	}
	return conversation{Transcript: transcript.New(s.History, used...), tools: unlisted, window: window.Restore(s.First, &s.Cut)}
}

// wallLeft is how much of its wall time a run has at its start here.
func (c *config) wallLeft() time.Duration {
	if c.Resumes != nil {
		return max(c.Resumes.State.Wall, time.Millisecond)
	}
	return c.Wall
}

// handedOver returns the configuration of the agent that the run was handed to by these tools.
func (c *config) handedOver(ctx context.Context, tools []string) (*config, error) {
	for _, name := range tools {
		var t *Tool
		if c.Tools != nil {
			offer, _ := c.Tools.Offer(ctx)
			t = offer.byName[name]
		}
		if t == nil || t.HandOff == nil {
			return c, fmt.Errorf("the agent %q does not hand over by %q any more", c.Agent, name)
		}
		c = c.takeOver(t.HandOff())
	}
	return c, nil
}

// keepTo returns the configuration with which a run goes on whose agent or tools are not as it has
// recorded them, and the event that says so; nil for none.
func (re *Resumption) keepTo(cfg *config, offer *Offer) (*config, *runlog.Entry) {
	what, changed := re.State.Drift(cfg.System, cfg.Model.Name(), offer.refs)
	if re.OnDrift == runlog.DriftContinue && cfg.System != re.State.Agent.System && !re.State.Imported { // else a file would instruct
		own, shared := *cfg, *cfg.shared
		shared.System, own.shared = re.State.Agent.System, &shared
		cfg = &own
	}
	if len(what) == 0 {
		return cfg, nil
	}
	return cfg, &runlog.Entry{Type: runlog.RunDriftedType, Body: &runlog.RunDrifted{Policy: re.OnDrift, What: what, Tools: changed}}
}

// drifted returns the tools that differ from what the run has recorded: a person is asked before each call
// of them.
func (re *Resumption) drifted(now *runlog.Entry) []string {
	if re.OnDrift != runlog.DriftContinue {
		return nil
	}
	names := slices.Clone(re.State.Drifted)
	if now != nil {
		names = append(names, now.Body.(*runlog.RunDrifted).Tools...)
	}
	return names
}
