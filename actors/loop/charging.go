package loop

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// payerKey is the context key of the payer of a hook.
type payerKey struct{}

// payer is the run that pays for what a hook of it spends.
type payer struct {
	spend *spend.Spending
	run   actors.Ref
}

// AccountOf returns the account of the run that has called [Config].Summarise with ctx,
// so that what it spends is the run's; nil outside of that.
func AccountOf(ctx context.Context) *budget.Account {
	p, ok := ctx.Value(payerKey{}).(payer)
	if !ok {
		return nil
	}
	return p.spend.Account()
}

// Charge settles a hold of [AccountOf] with what was spent, and has it written into the
// run's journal.
func Charge(ctx context.Context, hold *budget.Hold, s runlog.Spent) {
	p, ok := ctx.Value(payerKey{}).(payer)
	if !ok {
		hold.Settle(spend.Amount(&s))
		return
	}
	p.spend.Note(hold, "", s)
	p.run.Send(noteSpent{})
}

// openSpending makes the run's account.
func openSpending(c *config) (*spend.Spending, error) {
	s, err := spend.Open("run "+c.ID, c.Limits.account(), c.Origin.Budget)
	if err != nil {
		return nil, err
	}
	priced := false
	defer func() {
		if !priced { // the model's own code may have panicked
			s.Account().Close()
		}
	}()
	err = reprice(s, c)
	priced = err == nil
	return s, err
}

// reprice takes over the prices of a configuration's model. Money that is limited cannot
// be spent on a model of unknown price.
func reprice(s *spend.Spending, c *config) error {
	if missing := c.Pricing.Unknown(c.Model.Name()); missing != "" && s.Account().Left().Cost != budget.Unlimited {
		return &NoPriceError{missing}
	}
	s.Reprice((*spend.Pricing)(c.Pricing))
	return nil
}
