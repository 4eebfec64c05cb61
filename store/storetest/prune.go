package storetest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// endRun ends a run.
func endRun(t *testing.T, s store.Store, r store.Run) {
	t.Helper()
	_, err := s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{event("end", 1)}, State: store.Finished})
	wantErr(t, "ending "+r.ID, err, nil)
}

// testPruneRuns: what has ended goes by age and by number, the oldest first; what has not ended
// stays, and so do the runs that it has started.
func testPruneRuns(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		start := time.Now()
		for i := range 6 { // a run each hour, r0 the oldest
			r := create(t, s, fmt.Sprint("r", i), event("first", 1))
			wantErr(t, "OpenAsk", s.OpenAsk(t.Context(), store.Ask{ID: "q-" + r.ID, Run: r.ID, Kind: "tool"}), nil)
			if r.ID != "r1" {
				endRun(t, s, r)
			}
			time.Sleep(time.Hour)
		}
		child, err := s.Create(t.Context(), store.Run{ID: "child", Agent: "a", Parent: "r1", Epoch: 1}, "w", ttl)
		wantErr(t, "Create", err, nil)
		endRun(t, s, child)
		time.Sleep(time.Hour)

		prune := func(p store.Prune, want int, left ...string) {
			t.Helper()
			n, err := s.PruneRuns(t.Context(), p)
			wantErr(t, "PruneRuns", err, nil)
			wantEqual(t, "PruneRuns", n, want)
			runs, err := s.Runs(t.Context(), store.Query{})
			wantErr(t, "Runs", err, nil)
			var ids []string
			for _, r := range runs {
				ids = append(ids, r.ID)
			}
			slices.Sort(ids)
			wantEqual(t, fmt.Sprintf("left after %+v", p), ids, left)
		}
		prune(store.Prune{}, 0, "child", "r0", "r1", "r2", "r3", "r4", "r5")
		prune(store.Prune{Before: start}, 0, "child", "r0", "r1", "r2", "r3", "r4", "r5")
		prune(store.Prune{Before: start.Add(150 * time.Minute), Limit: 1}, 1, "child", "r1", "r2", "r3", "r4", "r5")
		prune(store.Prune{Before: start.Add(150 * time.Minute)}, 1, "child", "r1", "r3", "r4", "r5")
		prune(store.Prune{Keep: 3}, 1, "child", "r1", "r4", "r5")
		prune(store.Prune{Keep: 10}, 0, "child", "r1", "r4", "r5")
		prune(store.Prune{Before: time.Now()}, 2, "child", "r1")
		if _, err := s.Ask(t.Context(), "q-r0"); err == nil {
			t.Error("the ask of a removed run is still there")
		}
		r1, err := s.Run(t.Context(), "r1")
		wantErr(t, "Run", err, nil)
		endRun(t, s, r1)
		prune(store.Prune{Before: time.Now().Add(time.Second)}, 2)
		again := create(t, s, "r0")
		if again.Epoch <= r1.Epoch {
			t.Errorf("a run of a removed ID has epoch %d, want more than %d", again.Epoch, r1.Epoch)
		}
		_, err = s.PruneRuns(t.Context(), store.Prune{Keep: -1})
		wantErr(t, "PruneRuns below zero", err, store.ErrInvalid)
	})
}

// testPruneJobs: jobs that have ended go by age and by number; one whose webhook is to be
// delivered stays.
func testPruneJobs(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		for i, hook := range []string{"", "https://example.com/hook", "", ""} {
			_, err := s.AddJob(t.Context(), store.Job{ID: fmt.Sprint("j", i), Agent: "a", Hook: hook})
			wantErr(t, "AddJob", err, nil)
			if i < 3 {
				_, err = s.CancelJob(t.Context(), fmt.Sprint("j", i))
				wantErr(t, "CancelJob", err, nil)
			}
			time.Sleep(time.Hour)
		}
		for _, step := range []struct {
			p    store.Prune
			want int
		}{{store.Prune{}, 0}, {store.Prune{Before: time.Now(), Limit: 1}, 1}, {store.Prune{Keep: 2}, 0}, {store.Prune{Keep: 1}, 0}, {store.Prune{Before: time.Now()}, 1}} {
			n, err := s.PruneJobs(t.Context(), step.p)
			wantErr(t, "PruneJobs", err, nil)
			wantEqual(t, fmt.Sprintf("PruneJobs(%+v)", step.p), n, step.want)
		}
		jobs, err := s.Jobs(t.Context(), store.JobQuery{})
		wantErr(t, "Jobs", err, nil)
		if len(jobs) != 2 || jobs[0].ID != "j3" || jobs[1].ID != "j1" {
			t.Errorf("got %+v left, want j3 and j1", jobs)
		}
	})
}
