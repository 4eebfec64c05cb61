package loop

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// noteSpent is a message from whoever has charged the run: there is something to write.
type noteSpent struct{}

// spentAmount is s as a budget counts it.
func spentAmount(s *runlog.Spent) budget.Amount {
	return budget.Amount{Tokens: s.Usage.Total(), Cost: s.Usage.Cost, ModelCalls: 1}
}

// beside settles a hold with what is spent beside the turns, and notes that; so that what
// is billed is what is written, both happen at once.
func (s *spending) beside(hold *budget.Hold, key string, b runlog.Spent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold.Settle(spentAmount(&b))
	if !s.closed {
		s.notes = append(s.notes, runlog.Entry{Time: store.Clock(time.Now()), Type: runlog.SpentType, Key: key, Body: &b})
	}
}

// takeNotes returns what is to be written.
func (s *spending) takeNotes() []runlog.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := s.notes
	s.notes = nil
	return notes
}

// writeSpent writes what was spent beside the turns.
func (r *run) writeSpent(c *actors.Context) {
	if r.last {
		return // it is written with the end
	}
	if notes := r.spend.takeNotes(); len(notes) > 0 {
		r.write(c, nil, notes...)
	}
}

type spendingKey struct{}

// purse is who pays for what a hook of the run spends.
type purse struct {
	spend *spending
	run   actors.Ref
}

// AccountOf returns the account of the run that has called [Config].Summarise with ctx,
// so that what it spends is the run's; nil outside of that.
func AccountOf(ctx context.Context) *budget.Account {
	p, ok := ctx.Value(spendingKey{}).(purse)
	if !ok {
		return nil
	}
	return p.spend.account
}

// Charge settles a hold of [AccountOf] with what was spent, and has it written into the
// run's journal.
func Charge(ctx context.Context, hold *budget.Hold, s runlog.Spent) {
	p, ok := ctx.Value(spendingKey{}).(purse)
	if !ok {
		hold.Settle(spentAmount(&s))
		return
	}
	p.spend.beside(hold, "", s)
	p.run.Send(noteSpent{})
}
