package agent

import (
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Limits bounds each run of an agent with all that it starts: sub-agents, and the
// sampling of servers while the run calls them. They are checked before a call is made:
// a call that does not fit is not begun. [Result].Spent has the sums.
type Limits struct {
	// Steps is how many turns the run itself takes. Zero means 32.
	Steps int
	// Tokens is the input and output of all turns together. The input of a turn is
	// estimated before it and its output bounded by what is left, so the limit can
	// be exceeded by the errors of the estimates of calls under way and no more:
	// [Usage].Over. Zero means no limit.
	Tokens int
	// Cost is the same in money, in the currency of [Options].Prices. A model whose
	// price is not known is then refused with a [*NoPriceError]. Zero means no limit.
	Cost llm.Money
	// ModelCalls is how many times models are asked, sub-agents and sampling included.
	// Zero means no limit.
	ModelCalls int
	// ToolCalls is how many tool calls are made. Zero means 256.
	ToolCalls int
	// Depth is how many levels of sub-agents may be below the run. Zero means 8.
	Depth int
	// Wall is how long a run may take, without the time it waits for a human. Zero
	// means one hour. It always stops the run.
	Wall time.Duration
	// OnLimit is the reaction to any other limit. Empty means [LimitStop].
	OnLimit OnLimit
}

// OnLimit is the reaction of a run that has reached a limit.
type OnLimit string

// The reactions to a limit. In the end the run has a [*LimitError] in any case, unless a
// human has allowed more.
const (
	// LimitStop ends the run.
	LimitStop OnLimit = runlog.LimitStop
	// LimitAsk asks for more by an [Ask] with a Limit. Without a yes the run ends.
	LimitAsk OnLimit = runlog.LimitAsk
	// LimitWrapUp has the model answer once more, without calling tools, from its results so far:
	// the result then has a text beside the error. That last turn is reserved before
	// the first one, so that it always fits.
	LimitWrapUp OnLimit = runlog.LimitWrapUp
)

// loop returns the limits as a loop has them.
func (l *Limits) loop() loop.Limits {
	return loop.Limits{Steps: l.Steps, Tokens: l.Tokens, Cost: l.Cost, ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls,
		Depth: l.Depth, Wall: l.Wall, OnLimit: string(l.OnLimit)}
}

// Spent is the cost of a run with all that it has started.
type Spent struct {
	Tokens     int       `json:"tokens,omitzero"` // input and output
	Cost       llm.Money `json:"cost,omitzero"`   // where there is a price
	ModelCalls int       `json:"modelCalls,omitzero"`
	ToolCalls  int       `json:"toolCalls,omitzero"`
	Steps      int       `json:"steps,omitzero"` // turns of the run itself
}

// LimitQuestion is the request of an [Ask] about a limit; amounts of money are decimals,
// others whole numbers.
type LimitQuestion struct {
	Account string `json:"account"` // whose limit it is: the run's, or that of one above
	Limit   string `json:"limit"`   // as in [LimitError]
	Max     string `json:"max"`
	Spent   string `json:"spent"`
	More    string `json:"more"` // the amount that the run asks for
}

// AcceptMore allows a run that asks at a limit so much more, "0.50" of money or
// "20000" tokens, say. [Accept] allows as much as is asked for.
func AcceptMore(amount string) Decision {
	return Decision{store.Decision{Status: store.AskAccepted, Scope: "once", By: "program", Answer: runlog.MoreAnswer(amount)}}
}
