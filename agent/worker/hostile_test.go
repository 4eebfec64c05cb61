package worker_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// TestFloodOfJobs: ten thousand jobs are queued and cancelled while a worker is at them:
// each ends, and the worker takes the next (SECA-9).
func TestFloodOfJobs(t *testing.T) {
	n := 10_000
	if raceEnabled {
		n = 500
	}
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		ids := make([]string, n)
		for i := range ids {
			ids[i] = add(t, s, store.Job{ID: fmt.Sprint("j", i)}).ID
		}
		sh := open(t, s, llmtest.Loop(llmtest.Slow(time.Hour)), nil, nil)
		synctest.Wait()
		for _, id := range ids {
			for range 2 { // and again
				if _, err := s.CancelJob(t.Context(), id); err != nil && !errors.Is(err, store.ErrFinished) {
					t.Fatal(err)
				}
			}
		}
		sh.worker.Wake()
		time.Sleep(time.Minute)
		synctest.Wait()
		counts, err := s.JobCounts(t.Context())
		if err != nil || counts[store.JobCancelled] != n {
			t.Errorf("jobs: got %v, %v, want %d cancelled", counts, err, n)
		}
		if st := sh.worker.Status(); st.Running != 0 || len(st.Jobs) != 0 {
			t.Errorf("the worker: got %+v, want it idle", st)
		}
		sh.drain()
	})
}
