package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// A worker removes what ended longer ago than it is kept, and what is beyond the number that is
// kept; by default it keeps half a year.
func TestPrune(t *testing.T) {
	const day = 24 * time.Hour
	tests := []struct {
		name       string
		opts       worker.Options
		after      time.Duration
		runs, jobs int // left of three
	}{
		{"by default", worker.Options{}, 179 * day, 3, 3},
		{"by default, after half a year", worker.Options{}, 181 * day, 0, 0},
		{"by age", worker.Options{Keep: 2 * day}, 3 * day, 0, 0},
		{"by age, too early", worker.Options{Keep: 2 * day}, day, 3, 3},
		{"by number", worker.Options{KeepRuns: 2}, 2 * time.Hour, 2, 2},
		{"never", worker.Options{Keep: -1}, 400 * day, 3, 3},
		{"by a rule, of more than in general", worker.Options{Keep: 2 * day, KeepRuns: 1, KeepRules: keep(300*day, "done", "finished")}, 299 * day, 3, 3},
		{"by a rule, later", worker.Options{Keep: 2 * day, KeepRules: keep(300*day, "done", "finished")}, 301 * day, 0, 0},
		{"by a rule for ever", worker.Options{Keep: 2 * day, KeepRules: keep(-1, "done")}, 400 * day, 0, 3},
		{"by a rule for less", worker.Options{KeepRules: keep(day, "finished")}, 2 * day, 0, 3},
		{"by the first rule", worker.Options{KeepRules: append(keep(9*day, "finished"), keep(day)...)}, 2 * day, 3, 0},
		{"by a rule alone", worker.Options{Keep: -1, KeepRules: keep(day, "finished")}, 2 * day, 0, 3},
		{"a rule of others", worker.Options{KeepRules: keep(day, "failed")}, 2 * day, 3, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory()
				tt.opts.Poll, tt.opts.Lease = time.Hour, 1000*time.Hour // few looks in so many days
				open(t, s, llmtest.Loop(llmtest.Say("ok")), nil, &tt.opts)
				for range 3 {
					add(t, s, store.Job{})
				}
				time.Sleep(tt.after)
				synctest.Wait()
				runs, err := s.Runs(t.Context(), store.Query{})
				if err != nil || len(runs) != tt.runs {
					t.Errorf("got %d runs, %v, want %d", len(runs), err, tt.runs)
				}
				jobs, err := s.Jobs(t.Context(), store.JobQuery{})
				if err != nil || len(jobs) != tt.jobs {
					t.Errorf("got %d jobs, %v, want %d", len(jobs), err, tt.jobs)
				}
			})
		})
	}
}

func keep(d time.Duration, states ...string) []worker.KeepRule {
	return []worker.KeepRule{{Selection: store.Selection{States: states}, Keep: d}}
}
