package loop

import (
	"cmp"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
)

// Limits bounds a run and all that it starts, its sub-agents and what servers sample
// while it calls them. They are held before a call is made: what does not fit any more
// is not begun.
type Limits struct {
	// Steps is how many turns the run itself takes. Zero means 32.
	Steps int
	// Tokens is the input and output of all turns together. The input of a turn is
	// estimated before it, its output is bounded by what is left, and what the
	// provider counted is charged after it: only an estimate that was too low can
	// exceed the limit, by its error and once. Zero means no limit.
	Tokens int
	// Cost is the same in money; it needs [Config.Pricing]. Zero means no limit.
	Cost llm.Money
	// ModelCalls is how many times models are asked, over the whole tree: by the run
	// and what it starts, and again after an answer that broke off. Zero means no limit.
	ModelCalls int
	// ToolCalls is how many tool calls are made; refused and declined ones do not
	// count. Zero means 256.
	ToolCalls int
	// Depth is how many levels of runs may be below this one. Zero means 8.
	Depth int
	// Wall is how long a run may take. It stands still while a question waits for a
	// human. Zero means one hour.
	Wall time.Duration
	// OnLimit is the reaction to a limit. Wall time always stops the run.
	OnLimit string
}

// Validate refuses negative limits.
func (l Limits) Validate() error {
	switch {
	case l.Steps < 0:
		return fmt.Errorf("the limit of %d steps is negative", l.Steps)
	case l.Tokens < 0:
		return fmt.Errorf("the limit of %d tokens is negative", l.Tokens)
	case l.Cost < 0:
		return fmt.Errorf("the limit of a cost of %v is negative", l.Cost)
	case l.ModelCalls < 0:
		return fmt.Errorf("the limit of %d model calls is negative", l.ModelCalls)
	case l.ToolCalls < 0:
		return fmt.Errorf("the limit of %d tool calls is negative", l.ToolCalls)
	case l.Depth < 0:
		return fmt.Errorf("the limit of a depth of %d is negative", l.Depth)
	case l.Wall < 0:
		return fmt.Errorf("the limit of %v wall time is negative", l.Wall)
	}
	switch l.OnLimit {
	case "", runlog.LimitStop, runlog.LimitAsk, runlog.LimitWrapUp:
		return nil
	}
	return fmt.Errorf("at a limit %q: want %s, %s or %s", string(l.OnLimit), runlog.LimitStop, runlog.LimitAsk, runlog.LimitWrapUp)
}

func (l Limits) withDefaults() Limits {
	l.Steps = cmp.Or(l.Steps, 32)
	l.ToolCalls = cmp.Or(l.ToolCalls, 256)
	l.Depth = cmp.Or(l.Depth, 8)
	l.Wall = cmp.Or(l.Wall, time.Hour)
	l.OnLimit = cmp.Or(l.OnLimit, runlog.LimitStop)
	return l
}

// account is the part of the limits that an account holds.
func (l Limits) account() budget.Limits {
	return budget.Limits{Tokens: l.Tokens, Cost: l.Cost, ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls, Steps: l.Steps, Depth: l.Depth}
}

// Pricing has the prices of the models of a run.
type Pricing struct {
	// Most is the price of the dearest model that may answer. Turns are reserved at it.
	Most llm.Price
	// Of gives the price of the model that has answered, by the name that
	// [llm.Choice] or [llm.Model] has. Nil, like false, means Most.
	Of func(model string) (llm.Price, bool)
	// Missing is one of the models that may answer and has no price; empty for none. A
	// run with a limit of money is then refused.
	Missing string
}

// Unknown returns the model without a price, empty if there is none. Of a nil Pricing
// that is the model itself.
func (p *Pricing) Unknown(model string) string {
	if p == nil {
		return model
	}
	return p.Missing
}
