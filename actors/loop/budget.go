package loop

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

// Limits bounds a run. They are held before a call is made: what does not fit any
// more is not begun.
type Limits struct {
	// Steps is how many times the model is asked. Zero means 32.
	Steps int
	// Tokens is the input and output of all turns together. The input of a turn is
	// estimated before it, its output is bounded by what is left, and what the
	// provider counted is charged after it: only an estimate that was too low can
	// exceed the limit, by its error and once. Zero means no limit.
	Tokens int
	// ToolCalls is how many tool calls are made; refused and declined ones do not
	// count. Zero means 256.
	ToolCalls int
	// Wall is how long a run may take. It stands still while a question waits for a
	// human. Zero means one hour.
	Wall time.Duration
}

// Validate refuses negative limits.
func (l Limits) Validate() error {
	switch {
	case l.Steps < 0:
		return fmt.Errorf("the limit of %d steps is negative", l.Steps)
	case l.Tokens < 0:
		return fmt.Errorf("the limit of %d tokens is negative", l.Tokens)
	case l.ToolCalls < 0:
		return fmt.Errorf("the limit of %d tool calls is negative", l.ToolCalls)
	case l.Wall < 0:
		return fmt.Errorf("the limit of %v wall time is negative", l.Wall)
	}
	return nil
}

func (l Limits) withDefaults() Limits {
	if l.Steps == 0 {
		l.Steps = 32
	}
	if l.ToolCalls == 0 {
		l.ToolCalls = 256
	}
	if l.Wall == 0 {
		l.Wall = time.Hour
	}
	return l
}

// LimitError ends a run that has reached a limit.
type LimitError struct {
	Limit string // "steps", "tokens", "tool calls" or "wall time"
	Max   string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the run has reached its limit: %s %s", e.Max, e.Limit)
}

func overLimit(limit string, most any) *LimitError { return &LimitError{limit, fmt.Sprint(most)} }

// Usage is what a run has cost so far.
type Usage struct {
	Input  int `json:"input"`
	Output int `json:"output"`
	// Estimated says that part of it was counted from bytes, because a provider
	// gave no numbers or a turn did not complete.
	Estimated bool `json:"estimated,omitzero"`
}

// Total returns input and output together.
func (u Usage) Total() int { return u.Input + u.Output }

// ledger holds the limits of a run against what it has used.
type ledger struct {
	limits  Limits
	used    Usage
	steps   int
	calls   int
	pending int  // tokens of input that the turn under way was estimated at
	clamped bool // the turn's output is bounded by what is left of the tokens
}

// reserveTurn makes room for one turn whose input is estimated at that many
// tokens. It returns the bound of its output, zero for none.
func (l *ledger) reserveTurn(estimate, maxTokens int) (int, error) {
	if l.steps >= l.limits.Steps {
		return 0, overLimit("steps", l.limits.Steps)
	}
	l.clamped = false
	if l.limits.Tokens > 0 {
		left := l.limits.Tokens - l.used.Total() - estimate
		if left <= 0 {
			return 0, overLimit("tokens", l.limits.Tokens)
		}
		if maxTokens == 0 || left < maxTokens {
			maxTokens, l.clamped = left, true
		}
	}
	l.steps++
	l.pending = estimate
	return maxTokens, nil
}

// settleTurn charges what the turn has cost.
func (l *ledger) settleTurn(u llm.Usage, resp *llm.Response) Usage {
	cost := Usage{u.Input, u.Output, u.Estimated}
	if cost.Total() == 0 {
		cost = Usage{l.pending, estimateOutput(resp), true}
	}
	l.charge(cost)
	return cost
}

// abandonTurn charges a turn that has not completed: what it has cost nobody says.
func (l *ledger) abandonTurn() {
	if l.pending > 0 {
		l.charge(Usage{Input: l.pending, Estimated: true})
	}
}

func (l *ledger) charge(u Usage) {
	l.used.Input += u.Input
	l.used.Output += u.Output
	l.used.Estimated = l.used.Estimated || u.Estimated
	l.pending = 0
}

func estimateOutput(r *llm.Response) int {
	n := llm.EstimateText(r.Thinking) + llm.EstimateText(r.Text())
	for _, call := range r.Calls() {
		n += llm.EstimateBytes(len(call.Name) + len(call.Input))
	}
	return n
}

// reserveCall makes room for one tool call.
func (l *ledger) reserveCall() error {
	if l.calls >= l.limits.ToolCalls {
		return overLimit("tool calls", l.limits.ToolCalls)
	}
	l.calls++
	return nil
}

// releaseCall gives back the room of a call that will not be made.
func (l *ledger) releaseCall() { l.calls-- }
