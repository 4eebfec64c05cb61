package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// When runs and jobs that have ended are removed.
const (
	firstPrune = time.Minute // after the start, when other work is over
	pruneEvery = time.Hour
)

// KeepRule says how long runs and jobs of an agent, or in a state, are kept once they have ended.
type KeepRule struct {
	// Selection is what the rule is about. The zero value is about all.
	store.Selection
	// Keep is how long they are kept, above zero; below zero is for ever.
	Keep time.Duration
}

func checkKeepRules(rules []KeepRule) error {
	var all store.Prune
	for i, r := range rules {
		if r.Keep == 0 {
			return fmt.Errorf("the rule %d of what is kept has no time: above zero, or below it for ever", i+1)
		}
		all.Except = append(all.Except, r.Selection)
	}
	return all.Check()
}

// pruneStore removes the runs and jobs that ended longer ago than they are kept, and those
// beyond the number that is kept, and has the store give the disk back that they took.
func (w *Worker) pruneStore(ctx context.Context) (p pruned, err error) {
	if all := w.opts.prunes(time.Now()); len(all) > 0 {
		p.Pruned, err = store.PruneAll(ctx, w.store, all...)
	}
	return p, err
}

// prunes are what is to be removed now. For a run or job the first rule that has it decides; Keep and KeepRuns are
// for those of no rule.
func (o *Options) prunes(now time.Time) (all []store.Prune) {
	var others []store.Selection
	for _, r := range o.KeepRules {
		if r.Keep > 0 {
			all = append(all, store.Prune{Before: now.Add(-r.Keep), Selection: r.Selection, Except: slices.Clone(others)})
		}
		others = append(others, r.Selection)
	}
	rest := store.Prune{Keep: o.KeepRuns, Except: others}
	if o.Keep > 0 {
		rest.Before = now.Add(-o.Keep)
	}
	if o.Keep > 0 || o.KeepRuns > 0 {
		all = append(all, rest)
	}
	return all
}

// pruned reports what was removed, and has the worker do so again later.
func (k *claimer) pruned(c *actors.Context, p pruned) {
	if p.Runs+p.Jobs > 0 || p.Freed > 0 {
		c.Log().Info("old runs and jobs were removed", "runs", p.Runs, "jobs", p.Jobs, "keep", k.w.opts.Keep, "keep_runs", k.w.opts.KeepRuns, "rules", len(k.w.opts.KeepRules),
			"freed_bytes", p.Freed, "unused_bytes", p.Unused)
	}
	if p.err != nil {
		c.Log().Warn("old runs and jobs could not be removed", "error", p.err)
	}
	if !k.draining {
		k.prune.Set(pruneEvery)
	}
}
