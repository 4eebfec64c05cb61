package loop

import (
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// openSpending makes the run's account.
func openSpending(c *config) (*spend.Spending, error) {
	s, err := spend.Open(runlog.Account(c.ID), c.Limits.account(), c.Origin.Budget)
	if err != nil {
		return nil, err
	}
	if c.Resumes != nil {
		c.Resumes.restore(s, runlog.Account(c.ID))
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
