package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// gated is a store that stands still, or panics, when a test wants it to.
type gated struct {
	store.Store
	frozen atomic.Bool
	thaw   chan struct{}
	fails  atomic.Int64 // of the next updates of jobs
	breaks atomic.Bool  // the next update: who looks at the error panics
}

func (g *gated) freeze() { g.frozen.Store(true) }

func (g *gated) wait() {
	if g.frozen.Load() {
		<-g.thaw
	}
}

func (g *gated) RenewJobs(ctx context.Context, owner string, ttl time.Duration, leases []store.JobLease) ([]store.JobLease, error) {
	g.wait()
	return g.Store.RenewJobs(ctx, owner, ttl, leases)
}

func (g *gated) UpdateJob(ctx context.Context, u store.JobUpdate) (store.Job, error) {
	g.wait()
	if g.breaks.CompareAndSwap(true, false) {
		return store.Job{}, brokenError{}
	}
	if g.fails.Add(-1) >= 0 {
		return store.Job{}, store.ErrBusy
	}
	return g.Store.UpdateJob(ctx, u)
}

func (g *gated) ClaimJobs(ctx context.Context, owner string, n int, ttl time.Duration, agents []string, except ...string) ([]store.Job, error) {
	g.wait()
	return g.Store.ClaimJobs(ctx, owner, n, ttl, agents, except...)
}

func (g *gated) Append(ctx context.Context, a store.Append) (int64, error) {
	g.wait()
	return g.Store.Append(ctx, a)
}

func (g *gated) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	g.wait()
	return g.Store.Renew(ctx, run, owner, epoch, ttl)
}

// brokenError panics when it is compared.
type brokenError struct{}

func (brokenError) Error() string { return "broken" }
func (brokenError) Is(error) bool { panic("for the test") }

// TestStoreFails: what a job has come to is written as soon as the store takes it.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory()}
		s.fails.Store(5)
		sh := open(t, s, llmtest.Loop(llmtest.Say("ok")), nil, nil)
		add(t, s, store.Job{ID: "j"})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		want(t, s, "j", store.JobDone)
		if st := sh.worker.Status(); st.Ended[store.JobDone] != 1 {
			t.Errorf("Status: got %+v", st)
		}
	})
}

// TestJobFails: the actor of a job panics. Its run is left, and the job goes on with it as one
// of a worker that was lost; the others do not notice.
func TestJobFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory()}
		var effects atomic.Int64
		model := llmtest.Script(llmtest.Call("count", nil), llmtest.Say("ok"))
		cfg := &agent.Config{Approve: agent.AskAlways, Tools: []agent.Tool{counted(true, &effects)}}
		s.breaks.Store(true) // when it is written that the job waits
		sh := open(t, s, model, cfg, nil)
		add(t, s, store.Job{ID: "j"})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want(t, s, "j", store.JobWaiting)
		asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
		if err != nil || len(asks) != 1 {
			t.Fatalf("Asks: got %+v, %v, want the question of its run", asks, err)
		}
		if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if j := want(t, s, "j", store.JobDone); j.Attempts != 1 || j.Losses != 1 || effects.Load() != 1 {
			t.Errorf("job: got %+v, %d effects, want the first attempt and one effect", j, effects.Load())
		}
		if st := sh.worker.Status(); st.Running+st.Recovering != 0 || st.Ended[store.JobDone] != 1 {
			t.Errorf("Status: got %+v", st)
		}
	})
}

// TestWorkerFails: the worker itself panics. Run says so, its runs are left, and others
// go on with its jobs.
func TestWorkerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		sh := open(t, s, llmtest.Loop(llmtest.Slow(time.Hour)), nil, nil)
		add(t, s, store.Job{ID: "j"})
		time.Sleep(time.Second)
		sh.worker.Break()
		<-sh.ended
		var failure *actors.Failure
		if !errors.As(sh.err, &failure) {
			t.Errorf("Run: got %v, want what the worker has failed with", sh.err)
		}
		time.Sleep(5 * time.Second)
		if r, err := s.Run(t.Context(), "j.1"); err != nil || r.State != store.Running {
			t.Errorf("its run: got %+v, %v, want it as it was", r, err)
		}
		open(t, s, llmtest.Loop(llmtest.Say("ok")), nil, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if j := want(t, s, "j", store.JobDone); j.Attempts != 1 {
			t.Errorf("job: got %+v, want the first attempt", j)
		}
	})
}

// TestRuntimeCloses: a runtime that is closed under a worker ends that, too.
func TestRuntimeCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		sh := open(t, s, llmtest.Loop(llmtest.Slow(time.Hour)), nil, nil)
		add(t, s, store.Job{ID: "j"})
		time.Sleep(time.Second)
		if err := sh.rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		<-sh.ended
		var left *worker.DrainError
		if sh.err != nil && !errors.As(sh.err, &left) {
			t.Errorf("Run: got %v, want nil or the jobs that are left", sh.err)
		}
	})
}
