package worker

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// When runs and jobs that have ended are removed.
const (
	firstPrune = time.Minute // after the start, when other work is over
	pruneEvery = time.Hour
)

// pruneStore removes the runs and jobs that ended longer ago than they are kept, and those
// beyond the number that is kept.
func (w *Worker) pruneStore(ctx context.Context) (p pruned, err error) {
	q := store.Prune{Keep: w.opts.KeepRuns}
	if w.opts.Keep > 0 {
		q.Before = time.Now().Add(-w.opts.Keep)
	}
	if q == (store.Prune{}) {
		return pruned{}, nil
	}
	p.runs, p.jobs, err = store.PruneAll(ctx, w.store, q)
	return p, err
}

// pruned reports what was removed, and has the worker do so again later.
func (k *claimer) pruned(c *actors.Context, p pruned) {
	if p.runs+p.jobs > 0 {
		c.Log().Info("old runs and jobs were removed", "runs", p.runs, "jobs", p.jobs, "keep", k.w.opts.Keep, "keep_runs", k.w.opts.KeepRuns)
	}
	if p.err != nil {
		c.Log().Warn("old runs and jobs could not be removed", "error", p.err)
	}
	if !k.draining {
		k.prune.Set(pruneEvery)
	}
}
