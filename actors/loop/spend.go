// spend.go: what a run spends of its account. Beside the run's actor the goroutine
// that streams a turn tells it what comes, and what is left when the actor is gone is
// settled by whoever saw it go.

package loop

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// spending is what a run holds and has spent. What is below the lock is touched under it.
type spending struct {
	account *budget.Account // not changed

	mu      sync.Mutex
	pricing *Pricing // of the model that is asked; nil where money is not counted
	used    runlog.Usage
	steps   int
	calls   int
	bias    int            // by how much the last turn's input was more than was estimated, in tokens
	turn    *turnSpend     // under way; nil for none
	last    *lastTurn      // of the run, which is held; nil if none is
	notes   []runlog.Entry // what was spent beside completed turns and is still to be written
	closed  bool           // nothing more is written
}

// lastTurn is the last turn of a run that wraps up at a limit.
type lastTurn struct {
	hold   *budget.Hold
	ask    budget.Turn
	output int
}

// openSpending makes the run's account.
func openSpending(c *config) (*spending, error) {
	s := new(spending)
	name, limits := "run "+c.ID, c.Limits.account()
	if c.Origin.Budget == nil {
		s.account = budget.New(name, limits)
	} else {
		child, err := c.Origin.Budget.Child(name, limits)
		if err != nil {
			return nil, err
		}
		s.account = child
	}
	priced := false
	defer func() {
		if !priced { // the model's own code may have panicked
			s.account.Close()
		}
	}()
	err := s.reprice(c)
	priced = err == nil
	return s, err
}

// reprice takes over what the model of a configuration costs. Money that is limited
// can not be spent on a model of unknown price.
func (s *spending) reprice(c *config) error {
	if missing := c.Pricing.Unknown(c.Model.Name()); missing != "" && s.account.Left().Cost != budget.Unlimited {
		return &NoPriceError{missing}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pricing, s.bias = c.Pricing, 0
	return nil
}

// turnSpend is one turn that is being paid for. Its fields are guarded by the lock of
// its spending.
type turnSpend struct {
	of        *spending
	ask       budget.Turn // as it was reserved
	output    int         // the bound of its output; zero for none
	clampedBy *LimitError // what is left of this limit bounds its output; nil for none
	hold      *budget.Hold
	model     string // that was chosen for the attempt
	begun     bool   // the attempt has said something
	produced  int    // bytes of the attempt
	counted   llm.Usage
	lost      runlog.Usage // of attempts that broke off
	refused   error        // why there was no room for another
	done      bool
	n         int // of the turn, from one
	charged   int // attempts
}

// reserveTurn holds a turn at its most. The error is a [*LimitError].
func (s *spending) reserveTurn(ask budget.Turn, model string) (*turnSpend, error) {
	ask.Price = s.most()
	hold, output, err := s.account.ReserveTurn(ask)
	if err != nil {
		return nil, err
	}
	t := &turnSpend{of: s, ask: ask, output: output, hold: hold, model: model}
	if output > 0 && output < cmp.Or(ask.Output, budget.DefaultOutput) {
		t.clampedBy = s.bounds(ask, hold.Amount())
	}
	return s.begin(t), nil
}

// input is about how many tokens a request has: by its bytes, and what the provider
// counted beside those of the turn before.
func (s *spending) input(req *llm.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return llm.EstimateTokens(req) + s.bias
}

// most is the price that turns are reserved at.
func (s *spending) most() llm.Price {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pricing == nil {
		return llm.Price{}
	}
	return s.pricing.Most
}

// bounds is the limit that has no room for the output that a turn would have had.
func (s *spending) bounds(ask budget.Turn, held budget.Amount) *LimitError {
	whole := ask.Amount(cmp.Or(ask.Output, budget.DefaultOutput))
	hold, err := s.account.Reserve(budget.Amount{Tokens: whole.Tokens - held.Tokens, Cost: whole.Cost - held.Cost})
	if err == nil { // it has become free this moment
		hold.Release()
	}
	limit, _ := errors.AsType[*LimitError](err)
	return limit
}

// begun returns how many turns were begun.
func (s *spending) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps
}

// begin makes a turn the one that is under way.
func (s *spending) begin(t *turnSpend) *turnSpend {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	s.turn, t.n = t, s.steps
	return t
}

// mayBeBilled reports whether an attempt without a word may have cost its input: the
// server had taken it. A refusal costs nothing.
func mayBeBilled(err error) bool {
	refused, _ := errors.AsType[*llm.Error](err)
	return refused == nil || errors.Is(err, llm.ErrIdle) || errors.Is(err, llm.ErrStreamCut)
}

func (t *turnSpend) chosen(model string) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.model = model
}

// saw counts what an attempt says.
func (t *turnSpend) saw(ev llm.Event) {
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

// again charges an attempt that broke off, and reserves another. An attempt that had
// said nothing and is not billed cost nothing, and its reservation is the next one's.
func (t *turnSpend) again(billed bool) error {
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
		more.Output, more.Least = t.output, t.output // the request says so already
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
// can not be true, an estimate (SECA-43).
func (t *turnSpend) soFar() runlog.Usage {
	counted := t.counted.Plausible(t.ask.Input, t.produced)
	u := runlog.Usage{Input: counted.Input, Output: counted.Output, Estimated: counted.Estimated}
	u.Cost = t.of.pricing.of(t.model).Of(u.Input, u.Output)
	return u
}

// charge settles the hold with one attempt. It is called under the lock.
func (t *turnSpend) charge(u runlog.Usage) {
	t.hold.Settle(budget.Amount{Tokens: u.Total(), Cost: u.Cost, ModelCalls: 1, Steps: t.ask.Steps})
	t.ask.Steps = 0
	t.charged++
	t.of.used = t.of.used.Plus(u)
}

// settle charges a turn that has completed, and returns what it has cost with all its
// attempts.
func (t *turnSpend) settle() runlog.Usage {
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

// abandon charges a turn that has not completed: what it has cost nobody says, and it
// may be billed even if it has said nothing. The error is that of an attempt that there
// was no room for.
func (t *turnSpend) abandon(billed bool) error {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.abandoned(billed)
	return t.refused
}

// abandoned is called under the lock.
func (t *turnSpend) abandoned(billed bool) {
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

// failed is the event of a turn that has no result.
func (t *turnSpend) failed(err error) runlog.Entry {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	return t.failure(err)
}

// failure is called under the lock.
func (t *turnSpend) failure(err error) runlog.Entry {
	body := &runlog.ModelFailed{Turn: t.n, Usage: t.lost, Attempts: repeats(t.charged)}
	if err != nil {
		body.Error = clip.Short(err.Error())
	}
	return runlog.Entry{Time: store.Clock(time.Now()), Type: runlog.ModelFailedType, Body: body}
}

// attempts says how often the model was asked for a turn, zero for once.
func (t *turnSpend) attempts() int {
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

// reserveCall holds one tool call. The error is a [*LimitError].
func (s *spending) reserveCall() (*budget.Hold, error) {
	return s.account.Reserve(budget.Amount{ToolCalls: 1})
}

// made charges a tool call that is being made.
func (s *spending) made(hold *budget.Hold) {
	hold.Settle(budget.Amount{ToolCalls: 1})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
}

// bill says what has been spent, and returns what is still to be written of it. Nothing
// is added to that afterwards.
func (s *spending) bill(out *Outcome) []runlog.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.account.Report()
	out.Usage, out.Steps, out.ToolCalls, out.Spent = s.used, s.steps, s.calls, r.Spent
	out.Usage.Over, out.Usage.OverCost = r.Over.Tokens, r.Over.Cost
	notes := s.notes
	s.notes, s.closed = nil, true
	return notes
}

// close charges the turn under way, if there is one, which ends because of err, and gives
// back all that is held. It may be called again.
func (s *spending) close(err error) {
	s.mu.Lock()
	if t := s.turn; t != nil {
		t.abandoned(true)
		s.notes = append(s.notes, t.failure(err))
	}
	s.mu.Unlock()
	s.account.Close()
}
