package config

import (
	"cmp"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

// Limits are what a run may spend where the command line says nothing. Zero means not
// said.
type Limits struct {
	Tokens     int
	Cost       llm.Money
	ToolCalls  int
	ModelCalls int
	Steps      int
	Depth      int
	Wall       time.Duration
	OnLimit    string // "", stop, ask or wrap-up
	Repeats    int    // as agent.Config.MaxRepeats: below zero switches the loop detector off
}

// builtInLimits are those that a run has where nothing is said, see agent.Limits.
var builtInLimits = Limits{Steps: 32, ToolCalls: 256, Depth: 8, Wall: time.Hour, Repeats: 3}

// within returns the limits of l where they are no wider than those of bound, and
// those of base where l says nothing.
func (l Limits) within(base, bound *Limits) Limits {
	return Limits{
		Tokens: narrow(l.Tokens, base.Tokens, bound.Tokens), Cost: narrow(l.Cost, base.Cost, bound.Cost),
		ToolCalls: narrow(l.ToolCalls, base.ToolCalls, bound.ToolCalls), ModelCalls: narrow(l.ModelCalls, base.ModelCalls, bound.ModelCalls),
		Steps: narrow(l.Steps, base.Steps, bound.Steps), Depth: narrow(l.Depth, base.Depth, bound.Depth), Wall: narrow(l.Wall, base.Wall, bound.Wall),
		OnLimit: cmp.Or(l.OnLimit, base.OnLimit), Repeats: narrowRepeats(l.Repeats, base.Repeats, bound.Repeats),
	}
}

// Or returns the limits of l, and those of base where l says nothing.
func (l Limits) Or(base Limits) Limits {
	return Limits{
		Tokens: cmp.Or(l.Tokens, base.Tokens), Cost: cmp.Or(l.Cost, base.Cost),
		ToolCalls: cmp.Or(l.ToolCalls, base.ToolCalls), ModelCalls: cmp.Or(l.ModelCalls, base.ModelCalls),
		Steps: cmp.Or(l.Steps, base.Steps), Depth: cmp.Or(l.Depth, base.Depth), Wall: cmp.Or(l.Wall, base.Wall),
		OnLimit: cmp.Or(l.OnLimit, base.OnLimit), Repeats: cmp.Or(l.Repeats, base.Repeats),
	}
}

// limitField is one limit and its key.
type limitField struct {
	key    string
	amount int64
}

func (l *Limits) fields() []limitField {
	return []limitField{
		{"tokens", int64(l.Tokens)}, {"cost", int64(l.Cost)}, {"tool_calls", int64(l.ToolCalls)}, {"model_calls", int64(l.ModelCalls)},
		{"steps", int64(l.Steps)}, {"depth", int64(l.Depth)}, {"wall", int64(l.Wall)},
		{"repeats", int64(l.Repeats)},
	}
}

// narrowRepeats is narrow of how often a model may repeat itself, of which below zero is no bound.
func narrowRepeats(a, base, bound int) int {
	if a == 0 || bound > 0 && (a < 0 || a > bound) {
		return base
	}
	return a
}

// narrow is a where it is said and not more than bound, of which zero is no bound; else
// base.
func narrow[N int | llm.Money | time.Duration](a, base, bound N) N {
	if a == 0 || bound != 0 && a > bound {
		return base
	}
	return a
}
