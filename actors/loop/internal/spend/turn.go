package spend

import (
	"cmp"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Turn is one turn that is being paid for. Its fields are guarded by the lock of
// its spending.
type Turn struct {
	of        *Spending
	ask       budget.Turn        // as it was reserved
	output    int                // the bound of its output; zero for none
	clampedBy *budget.LimitError // the limit whose rest bounds its output; nil for none
	hold      *budget.Hold
	room      budget.Hold // memory of the first hold
	model     string      // that was chosen for the attempt
	begun     bool        // the attempt has said something
	produced  int         // bytes of the attempt
	counted   llm.Usage
	lost      runlog.Usage // of attempts that broke off
	refused   error        // why there was no room for another
	done      bool
	n         int // of the turn, from one
	charged   int // attempts
}

// MayBeBilled reports whether an attempt without a word may have cost its input: the
// server had taken it. A refusal costs nothing.
func MayBeBilled(err error) bool {
	refused, _ := errors.AsType[*llm.Error](err)
	return refused == nil || errors.Is(err, llm.ErrIdle) || errors.Is(err, llm.ErrStreamCut)
}

// Chosen notes which model answers the attempt.
func (t *Turn) Chosen(model string) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.model = model
}

// Saw counts the usage that an attempt reports.
func (t *Turn) Saw(ev llm.Event) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.begun = true
	switch ev := ev.(type) {
	case llm.TextDelta:
		t.produced += len(ev.Text)
	case llm.ThinkingDelta:
		t.produced += len(ev.Text)
	case llm.ToolCall:
		t.produced += len(ev.Name) + len(ev.Arguments)
	case llm.Usage:
		t.counted = ev
	}
}

// Again charges an attempt that broke off, and reserves another. An attempt that had
// said nothing and is not billed cost nothing, and its reservation is the next one's.
func (t *Turn) Again(billed bool) error {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.done || !t.begun && !billed {
		return nil
	}
	u := t.soFar()
	t.charge(u)
	t.lost = t.lost.Plus(u)
	t.begun, t.produced, t.counted = false, 0, llm.Usage{}
	more := t.ask
	if t.output > 0 {
		more.Output, more.Least = t.output, t.output // the request has that bound already
	}
	hold, _, err := t.of.account.ReserveTurn(more)
	if err != nil {
		t.done, t.of.turn, t.refused = true, nil, err
		return err
	}
	t.hold = hold
	return nil
}

// soFar is what an attempt has cost: what the provider counted, or else, and where that
// cannot be true, an estimate (SECA-43).
func (t *Turn) soFar() runlog.Usage {
	counted := t.counted.Plausible(t.ask.Input, t.produced)
	u := runlog.Usage{Input: counted.Input, Output: counted.Output, Estimated: counted.Estimated}
	u.Cost = t.of.pricing.of(t.model).Of(u.Input, u.Output)
	return u
}

// charge settles the hold with one attempt. It is called under the lock.
func (t *Turn) charge(u runlog.Usage) {
	t.hold.Settle(budget.Amount{Tokens: u.Total(), Cost: u.Cost, ModelCalls: 1, Steps: t.ask.Steps})
	t.ask.Steps = 0
	t.charged++
	t.of.used = t.of.used.Plus(u)
}

// Settle charges a turn that has completed, and returns what it has cost with all its
// attempts.
func (t *Turn) Settle() runlog.Usage {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	u := t.soFar()
	if !t.begun {
		u = runlog.Usage{} // a guard has answered in the model's place
	}
	if t.done { // it was charged when the run ended
		return t.lost
	}
	if !u.Estimated {
		t.of.bias = max(0, u.Input-t.ask.Input+t.of.bias)
	}
	t.charge(u)
	t.done, t.of.turn = true, nil
	return t.lost.Plus(u)
}

// Abandon charges a turn that has not completed: its cost is an estimate, and it
// may be billed even if it has said nothing. The error is that of an attempt that there
// was no room for.
func (t *Turn) Abandon(billed bool) error {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.abandoned(billed)
	return t.refused
}

// Refuse gives back a turn that has not completed, and whose last attempt the provider has refused: it cost nothing, and
// counts as none. The error is that of an attempt that there was no room for.
func (t *Turn) Refuse() error {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	switch {
	case t.done:
	case t.begun:
		t.abandoned(true)
	default:
		t.done, t.of.turn = true, nil
		t.hold.Release()
	}
	return t.refused
}

// Silent reports whether the attempt under way has not said anything.
func (t *Turn) Silent() bool {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	return !t.begun && !t.done
}

// abandoned is called under the lock.
func (t *Turn) abandoned(billed bool) {
	if t.done {
		return
	}
	t.done, t.of.turn = true, nil
	u := runlog.Usage{}
	if billed || t.begun {
		u = t.soFar()
	}
	t.charge(u)
	t.lost = t.lost.Plus(u)
}

// Failed is the event of a turn that has no result.
func (t *Turn) Failed(err error) runlog.Entry {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	return t.failure(err)
}

// failure is called under the lock.
func (t *Turn) failure(err error) runlog.Entry {
	body := &runlog.ModelFailed{Turn: t.n, Usage: t.lost, Attempts: repeats(t.charged), Unbilled: t.charged == 0}
	if err != nil {
		body.Error = clip.Short(err.Error())
	}
	return runlog.Entry{Time: store.Clock(time.Now()), Type: runlog.ModelFailedType, Body: body}
}

// Attempts is how often the model was asked for a turn, zero for once.
func (t *Turn) Attempts() int {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	return repeats(t.charged)
}

func repeats(n int) int {
	if n == 1 {
		return 0
	}
	return n
}

// takeLast makes the hold of the last turn fit its input. It is called under the lock.
func (t *Turn) takeLast(input int) bool {
	fits := func(input, output int) bool {
		ask := t.ask
		ask.Input = input
		if t.hold.Resize(ask.Amount(output)) != nil {
			return false
		}
		t.ask, t.output = ask, output
		return true
	}
	covered, lacks := t.ask.Amount(t.output).Cost <= t.hold.Amount().Cost, input-t.ask.Input
	switch {
	case covered && lacks <= 0:
		t.ask.Input = input
		return true
	case fits(input, t.output), 0 < lacks && lacks <= t.output/2 && fits(input, t.output-lacks), covered:
		return true
	}
	for output := t.output / 2; output > 0; output /= 2 {
		if fits(min(input, t.ask.Input), output) {
			return true
		}
	}
	return false
}

// Grow holds n more tokens of input for the turn.
func (t *Turn) Grow(n int) error {
	if n <= 0 {
		return nil
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	more := t.ask
	more.Input += n
	if err := t.hold.Resize(more.Amount(t.output)); err != nil {
		return err
	}
	t.ask = more
	return nil
}

// Number returns which turn of the run it is, from one.
func (t *Turn) Number() int { return t.n }

// Reserved returns the input that the turn is reserved with, in tokens.
func (t *Turn) Reserved() int {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	return t.ask.Input
}

// Held returns the amount that is held for the turn.
func (t *Turn) Held() budget.Amount { return t.hold.Amount() }

// Output returns the bound of the turn's output in tokens; zero for none.
func (t *Turn) Output() int { return t.output }

// Clamped reports whether the turn has less output than it asked for, since a limit has no
// more.
func (t *Turn) Clamped() bool {
	return t.output > 0 && t.output < cmp.Or(t.ask.Output, budget.DefaultOutput)
}

// ClampedBy returns the limit whose rest bounds the turn's output; nil for none.
func (t *Turn) ClampedBy() *budget.LimitError { return t.clampedBy }
