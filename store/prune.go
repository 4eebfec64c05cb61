package store

import (
	"cmp"
	"context"
	"time"
)

// MaxPrune bounds what one call of [Journal].PruneRuns or [Jobs].PruneJobs removes, so that
// other writers do not wait for long.
const MaxPrune = 100

// Prune selects runs or jobs that have ended, to be removed: all that ended before a time, and
// all but the newest. The zero value selects none.
type Prune struct {
	Before time.Time // those that ended before this time; zero selects none by time
	Keep   int       // all but so many of the newest; zero selects none by number
	Limit  int       // at most so many, the oldest first; zero, or above MaxPrune, means MaxPrune
}

// Check reports what is wrong with p.
func (p Prune) Check() error {
	if p.Keep < 0 || p.Limit < 0 {
		return &InvalidError{"prune", "has a number below zero"}
	}
	return nil
}

// Most is the bound on what is removed.
func (p Prune) Most() int { return min(cmp.Or(p.Limit, MaxPrune), MaxPrune) }

// PruneAll removes the runs and jobs that p selects, page by page, until none is left or ctx
// ends, and returns how many were removed by then.
func PruneAll(ctx context.Context, s Store, p Prune) (runs, jobs int, err error) {
	all := func(prune func(context.Context, Prune) (int, error)) (total int, err error) {
		for {
			n, err := prune(ctx, p)
			if total += n; err != nil || n < p.Most() {
				return total, err
			}
		}
	}
	if runs, err = all(s.PruneRuns); err != nil {
		return runs, 0, err
	}
	jobs, err = all(s.PruneJobs)
	return runs, jobs, err
}
