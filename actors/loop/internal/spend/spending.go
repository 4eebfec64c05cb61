// Package spend keeps what a run holds of its account and has spent: turns with all their
// attempts, tool calls, and the last turn of a run that wraps up. Beside the run's actor
// the goroutine that streams a turn reports to it, and what is left when the actor has gone
// is settled by its parent.
package spend

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Bounds of the output of the last turn, in tokens: a fourth of what there is, and no
// more than this.
const (
	MaxLastOutput = 1024
	MinTurnOutput = 64 // of any other turn of a run that wraps up; below that the last one is better
)

// Bill is the costs of a run.
type Bill struct {
	Usage     runlog.Usage // of the run itself
	Steps     int          // turns begun
	ToolCalls int
	Spent     budget.Amount  // with all that the run has started
	Notes     []runlog.Entry // of it that are still to be written
}

// Amount is s as a budget counts it.
func Amount(s *runlog.Spent) budget.Amount {
	return budget.Amount{Tokens: s.Usage.Total(), Cost: s.Usage.Cost, ModelCalls: 1}
}

// Spending has the holds and costs of a run. The fields below the lock are touched under it.
type Spending struct {
	account *budget.Account // not changed

	mu      sync.Mutex
	pricing *Pricing // of the model that is asked; nil where money is not counted
	used    runlog.Usage
	steps   int
	calls   int
	bias    int            // by how much the last turn's input was more than was estimated, in tokens
	turn    *Turn          // under way; nil for none
	last    *lastTurn      // of the run, which is held; nil if none is
	notes   []runlog.Entry // costs beside completed turns that are still to be written
	closed  bool           // nothing more is written
}

// lastTurn is the last turn of a run that wraps up at a limit.
type lastTurn struct {
	hold   *budget.Hold
	ask    budget.Turn
	output int
}

// Pricing is the price of the models of a run.
type Pricing struct {
	Most    llm.Price                            // of the dearest model that may answer
	Of      func(model string) (llm.Price, bool) // nil, like false, means Most
	Missing string                               // a model without a price; empty for none
}

func (p *Pricing) of(model string) llm.Price {
	if p == nil {
		return llm.Price{}
	}
	if p.Of != nil {
		if price, ok := p.Of(model); ok {
			return price
		}
	}
	return p.Most
}

// Open makes the account of a run, below parent unless that is nil.
func Open(name string, limits budget.Limits, parent *budget.Account) (*Spending, error) {
	if parent == nil {
		return &Spending{account: budget.New(name, limits)}, nil
	}
	child, err := parent.Child(name, limits)
	if err != nil {
		return nil, err
	}
	return &Spending{account: child}, nil
}

// Restore takes in the costs of a run that goes on. The accounts above have them already if
// counted is true.
func (s *Spending) Restore(b Bill, counted bool) {
	s.account.Restore(b.Spent, counted)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used, s.steps, s.calls = b.Usage, b.Steps, b.ToolCalls
}

// Account returns the account of the run.
func (s *Spending) Account() *budget.Account { return s.account }

// Reprice takes over the prices of the model that is asked from now on; nil where money is
// not counted.
func (s *Spending) Reprice(p *Pricing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pricing, s.bias = p, 0
}

// ReserveTurn holds a turn at its most, in t, which is fresh. The error is a [*budget.LimitError].
func (s *Spending) ReserveTurn(t *Turn, ask budget.Turn, model string) (err error) {
	ask.Price = s.Most()
	t.of, t.ask, t.hold, t.model = s, ask, &t.room, model
	if t.output, err = s.account.ReserveTurnIn(t.hold, ask); err != nil {
		return err
	}
	if t.Clamped() {
		t.clampedBy = s.bounds(ask, t.hold.Amount())
	}
	s.begin(t)
	return nil
}

// Withdraw gives back a turn that was not asked, as if it had not been reserved; and the
// last turn with it, if that was reserved for it.
func (s *Spending) Withdraw(t *Turn, last bool) {
	s.mu.Lock()
	var holds []*budget.Hold
	if t != nil {
		s.steps--
		s.turn, t.done = nil, true
		holds = append(holds, t.hold)
	}
	if last && s.last != nil {
		holds = append(holds, s.last.hold)
		s.last = nil
	}
	s.mu.Unlock()
	for _, h := range holds {
		h.Release()
	}
}

// Input is about how many tokens a request has that is estimated at so many by its bytes: with what
// the provider counted beside those of the turn before.
func (s *Spending) Input(estimate int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return estimate + s.bias
}

// Most is the price that turns are reserved at.
func (s *Spending) Most() llm.Price {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most()
}

// most is called under the lock.
func (s *Spending) most() llm.Price {
	if s.pricing == nil {
		return llm.Price{}
	}
	return s.pricing.Most
}

// bounds is the limit that has no room for the output that a turn would have had.
func (s *Spending) bounds(ask budget.Turn, held budget.Amount) *budget.LimitError {
	whole := ask.Amount(cmp.Or(ask.Output, budget.DefaultOutput))
	hold, err := s.account.Reserve(budget.Amount{Tokens: whole.Tokens - held.Tokens, Cost: whole.Cost - held.Cost})
	if err == nil { // it has become free this moment
		hold.Release()
	}
	limit, _ := errors.AsType[*budget.LimitError](err)
	return limit
}

// Begun returns how many turns were begun.
func (s *Spending) Begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps
}

// begin makes a turn the one that is under way.
func (s *Spending) begin(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	s.turn, t.n = t, s.steps
}

// ReserveCall holds one tool call in h, which holds nothing yet. The error is a [*budget.LimitError].
func (s *Spending) ReserveCall(h *budget.Hold) error {
	return s.account.ReserveIn(h, budget.Amount{ToolCalls: 1})
}

// Made charges a tool call that is being made.
func (s *Spending) Made(hold *budget.Hold) {
	hold.Settle(budget.Amount{ToolCalls: 1})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
}

// Bill returns the costs. Nothing is noted afterwards.
func (s *Spending) Bill() Bill {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.soFar()
	s.notes, s.closed = nil, true
	return b
}

// SoFar returns the costs so far.
func (s *Spending) SoFar() Bill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.soFar()
}

// soFar is called under the lock.
func (s *Spending) soFar() Bill {
	r := s.account.Report()
	b := Bill{Usage: s.used, Steps: s.steps, ToolCalls: s.calls, Spent: r.Spent, Notes: s.notes}
	b.Usage.Over, b.Usage.OverCost = r.Over.Tokens, r.Over.Cost
	return b
}

// Close charges the turn under way, if there is one, which ends because of err, and gives
// back all that is held. It may be called again.
func (s *Spending) Close(err error) {
	s.mu.Lock()
	if t := s.turn; t != nil {
		t.abandoned(true)
		s.notes = append(s.notes, t.failure(err))
	}
	s.mu.Unlock()
	s.account.Close()
}

// Note settles a hold with costs beside the turns, and notes them. Both happen at once, so
// that the bill is the sum of the notes.
func (s *Spending) Note(hold *budget.Hold, key string, b runlog.Spent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold.Settle(Amount(&b))
	if !s.closed {
		s.notes = append(s.notes, runlog.Entry{Time: store.Clock(time.Now()), Type: runlog.SpentType, Key: key, Body: &b})
	}
}

// TakeNotes returns the notes that are to be written.
func (s *Spending) TakeNotes() []runlog.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := s.notes
	s.notes = nil
	return notes
}

// HoldLast holds the last turn of the run, or makes the hold fit its input.
func (s *Spending) HoldLast(input, maxTokens int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := budget.Turn{Input: input, Steps: 1, Price: s.most()}
	if s.last != nil {
		err := s.last.hold.Resize(t.Amount(s.last.output))
		if err == nil {
			s.last.ask = t
		}
		return err
	}
	room, _ := s.account.Room(t)
	output := max(1, min(room/4, MaxLastOutput))
	if maxTokens > 0 {
		output = min(output, maxTokens)
	}
	hold, err := s.account.Reserve(t.Amount(output))
	if err != nil {
		return err
	}
	s.last = &lastTurn{hold, t, output}
	return nil
}

// HoldsLast reports whether the last turn is held.
func (s *Spending) HoldsLast() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last != nil
}

// SpendLast makes the last turn the one that is under way, in t, which is fresh. Input is what it would take:
// it gets that much if there is room, also at the cost of half its output, and else what
// was held for it. That may be too little only where it was held at the price of another
// model, before a hand-off: the output is then what it buys, and false is returned if that
// is nothing.
func (s *Spending) SpendLast(t *Turn, input int, model string) bool {
	s.mu.Lock()
	t.of, t.ask, t.output, t.hold, t.model = s, s.last.ask, s.last.output, s.last.hold, model
	s.last, t.ask.Price = nil, s.most()
	ok := t.takeLast(input)
	s.mu.Unlock()
	if !ok {
		t.hold.Release()
		return false
	}
	s.begin(t)
	return true
}

// takeLast makes what was held for the last turn fit its input, as far as that goes.
// Grow holds more for a turn whose request a guard has made larger by n tokens, since it
// was reserved.
