package memstore

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Backlog implements [store.Store].
func (s *Store) Backlog(ctx context.Context) (store.Backlog, error) {
	return get(ctx, s.memory, func(now time.Time) (store.Backlog, error) {
		b := store.Backlog{Asks: map[string]int{}, Succeeded: map[string]time.Time{}}
		older := func(old *time.Time, at time.Time) {
			if old.IsZero() || at.Before(*old) {
				*old = at
			}
		}
		for _, a := range s.asks.rows {
			if a.Seen(now).Status == store.AskPending {
				b.Asks[a.Kind]++
				older(&b.OldestAsk, a.Created)
			}
		}
		for name := range s.schedules.rows {
			b.Succeeded[name] = time.Time{}
		}
		newest := map[string]*job{} // of each schedule, that is done
		for _, j := range s.jobs.rows {
			switch {
			case j.State == store.JobQueued && !j.due.After(now):
				older(&b.OldestJob, j.due)
			case j.State == store.JobWaiting && j.Owner == "":
				b.Parked++
			case j.State == store.JobDone && j.Schedule != "" && (newest[j.Schedule] == nil || newest[j.Schedule].n < j.n):
				newest[j.Schedule] = j
			}
		}
		for name, j := range newest {
			if _, ok := b.Succeeded[name]; ok {
				b.Succeeded[name] = j.Updated
			}
		}
		return b, nil
	})
}
