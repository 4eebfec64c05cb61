package storetest

import (
	"fmt"
	"slices"
	"strings"
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

// testPruneSelected: what is pruned is narrowed by agent and state, and what other rules decide about is neither removed nor
// counted.
func testPruneSelected(t *testing.T, open func(t *testing.T) store.Store) {
	of := func(agent string, states ...string) store.Selection {
		return store.Selection{Agent: agent, States: states}
	}
	tests := []struct {
		name string
		p    store.Prune
		left string // of "a-done a-failed b-done b-failed", the last one the newest
	}{
		{"all", store.Prune{}, ""},
		{"an agent", store.Prune{Selection: of("a")}, "b-done b-failed"},
		{"a state", store.Prune{Selection: of("", "failed")}, "a-done b-done"},
		{"states", store.Prune{Selection: of("", "failed", "finished", "done")}, ""},
		{"both", store.Prune{Selection: of("b", "failed")}, "a-done a-failed b-done"},
		{"a state that there is not", store.Prune{Selection: of("a", "limited")}, "a-done a-failed b-done b-failed"},
		{"an agent that there is not", store.Prune{Selection: of("c")}, "a-done a-failed b-done b-failed"},
		{"but for an agent", store.Prune{Except: []store.Selection{of("a")}}, "a-done a-failed"},
		{"but for both", store.Prune{Except: []store.Selection{of("a", "failed"), of("b", "finished", "done")}}, "a-failed b-done"},
		{"an agent but for a state", store.Prune{Selection: of("a"), Except: []store.Selection{of("", "failed")}}, "a-failed b-done b-failed"},
		{"but for all", store.Prune{Except: []store.Selection{of("b"), {}}}, "a-done a-failed b-done b-failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				endEach(t, s)
				tt.p.Before = time.Now()
				wantLeft(t, s, tt.p, tt.left)
			})
		})
	}
	t.Run("by number", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t)
			endEach(t, s)
			wantLeft(t, s, store.Prune{Keep: 1, Except: []store.Selection{of("", "failed")}}, "a-failed b-done b-failed")
			wantLeft(t, s, store.Prune{Keep: 1, Selection: of("b")}, "a-failed b-failed")
		})
	})
	t.Run("page by page", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t)
			for i := range 5 {
				endRun(t, s, create(t, s, fmt.Sprint("r", i)))
			}
			time.Sleep(time.Hour)
			done, err := store.PruneAll(t.Context(), s, store.Prune{Before: time.Now(), Limit: 2, Selection: of("", "failed")}, store.Prune{Before: time.Now(), Limit: 2, Selection: of("", "finished")})
			if err != nil || done.Runs != 5 || done.Jobs != 0 {
				t.Errorf("PruneAll: got %+v, %v, want 5 runs", done, err)
			}
		})
	})
	t.Run("invalid", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t)
			for _, bad := range []store.Prune{{Selection: of("", "completed")}, {Selection: of("", "running")}, {Except: []store.Selection{of("", "queued")}}, {Selection: of("a\xff")}, {Except: make([]store.Selection, 101)}} {
				_, runs := s.PruneRuns(t.Context(), bad)
				_, jobs := s.PruneJobs(t.Context(), bad)
				if runs == nil || jobs == nil {
					t.Errorf("Prune(%+v): got no error", bad)
				}
			}
		})
	})
}

// endEach adds a run and a job of two agents, in two states each.
func endEach(t *testing.T, s store.Store) {
	t.Helper()
	for _, agent := range []string{"a", "b"} {
		for i, state := range []store.RunState{store.Finished, store.Failed} {
			id := agent + []string{"-done", "-failed"}[i]
			r, err := s.Create(t.Context(), store.Run{ID: id, Agent: agent}, "w", ttl)
			wantErr(t, "Create", err, nil)
			_, err = s.Append(t.Context(), store.Append{Run: id, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{event("end", 1)}, State: state})
			wantErr(t, "Append", err, nil)

			_, err = s.AddJob(t.Context(), store.Job{ID: id, Agent: agent})
			wantErr(t, "AddJob", err, nil)
			claimed, err := s.ClaimJobs(t.Context(), "w", 1, ttl, []string{agent})
			if err != nil || len(claimed) != 1 {
				t.Fatalf("ClaimJobs: got %v, %v", claimed, err)
			}
			ended := []store.JobState{store.JobDone, store.JobFailed}[i]
			_, err = s.UpdateJob(t.Context(), updateOf(claimed[0], ended))
			wantErr(t, "UpdateJob", err, nil)
			time.Sleep(time.Hour)
		}
	}
}

// wantLeft prunes, and looks at what is left of the runs and of the jobs.
func wantLeft(t *testing.T, s store.Store, p store.Prune, want string) {
	t.Helper()
	_, err := s.PruneRuns(t.Context(), p)
	wantErr(t, "PruneRuns", err, nil)
	_, err = s.PruneJobs(t.Context(), p)
	wantErr(t, "PruneJobs", err, nil)
	runs, err := s.Runs(t.Context(), store.Query{})
	wantErr(t, "Runs", err, nil)
	jobs, err := s.Jobs(t.Context(), store.JobQuery{})
	wantErr(t, "Jobs", err, nil)
	var ofRuns, ofJobs []string
	for _, r := range slices.Backward(runs) {
		ofRuns = append(ofRuns, r.ID)
	}
	for _, j := range slices.Backward(jobs) {
		ofJobs = append(ofJobs, j.ID)
	}
	wantEqual(t, "runs that are left", strings.Join(ofRuns, " "), want)
	wantEqual(t, "jobs that are left", strings.Join(ofJobs, " "), want)
}
