package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// wallClock is a wall clock that jumps when a test wants it to; timers do not notice.
type wallClock struct{ offset atomic.Int64 }

func (w *wallClock) now() time.Time             { return time.Now().Add(time.Duration(w.offset.Load())) }
func (w *wallClock) jump(d time.Duration)       { w.offset.Add(int64(d)) }
func (w *wallClock) worker(work *worker.Worker) { work.SetWall(w.now) }

// TestClockJumps: the wall clock jumps by an hour, as it does when a laptop wakes or NTP
// sets it. No lease of a worker that lives changes hands, neither to itself nor to another,
// although all are over by the clock.
func TestClockJumps(t *testing.T) {
	for name, by := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var wall wallClock
				s := memstore.New(&memstore.Options{Now: wall.now})
				var effects atomic.Int64
				slow := agent.Func("count", "Counts.", func(ctx context.Context, _ struct{}) (string, error) {
					effects.Add(1)
					select {
					case <-time.After(10 * time.Minute):
					case <-ctx.Done():
					}
					return "1", nil
				})
				script := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
					if len(req.Messages) == 1 {
						return llmtest.Call("count", nil)
					}
					return llmtest.Say("done")
				}))
				cfg := &agent.Config{Tools: []agent.Tool{slow}}
				first := openWith(t, s, script, cfg, &worker.Options{Concurrency: 2}, wall.worker)
				add(t, s, store.Job{ID: "j"})
				time.Sleep(time.Second)
				second := openWith(t, s, script, cfg, &worker.Options{Concurrency: 2}, wall.worker)
				for range 4 { // between two looks for work, and at any time between two renewals
					time.Sleep(61*time.Second + 137*time.Millisecond)
					wall.jump(by)
				}
				add(t, s, store.Job{ID: "later"})
				time.Sleep(time.Minute) // past the grace
				synctest.Wait()
				want(t, s, "later", store.JobRunning)
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				for _, id := range []string{"j", "later"} {
					if j := want(t, s, id, store.JobDone); j.Attempts != 1 || j.Losses != 0 {
						t.Errorf("job %q: got %+v, want one attempt", id, j)
					}
				}
				if effects.Load() != 2 {
					t.Errorf("effects: got %d, want 2", effects.Load())
				}
				for _, sh := range []*shop{first, second} {
					if st := sh.worker.Status(); st.Lost != 0 || st.Retried != 0 {
						t.Errorf("Status: got %+v, want nothing lost", st)
					}
				}
			})
		})
	}
}

// deaf is a store whose next claim is made although its caller gets an error.
type deaf struct {
	store.Store
	next atomic.Bool
}

func (d *deaf) ClaimJobs(ctx context.Context, owner string, n int, ttl time.Duration, agents []string, except ...string) ([]store.Job, error) {
	list, err := d.Store.ClaimJobs(ctx, owner, n, ttl, agents, except...)
	if len(list) > 0 && d.next.CompareAndSwap(true, false) {
		return nil, errors.New("the answer was lost")
	}
	return list, err
}

// TestClaimAnswerLost: a worker that did not hear what it has claimed finds it in the store
// and begins it again: no other worker may be there to do so.
func TestClaimAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &deaf{Store: memory()}
		s.next.Store(true)
		add(t, s, store.Job{ID: "j"})
		open(t, s, llmtest.Loop(llmtest.Say("ok")), nil, nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if j := want(t, s, "j", store.JobDone); j.Attempts != 1 || j.Losses != 0 || j.Failures != 0 {
			t.Errorf("job: got %+v, want its first attempt and no failure", j)
		}
	})
}
