package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// counting counts what is written.
type counting struct {
	store.Store
	writes atomic.Int64
}

func (c *counting) Append(ctx context.Context, a store.Append) (int64, error) {
	c.writes.Add(1)
	return c.Store.Append(ctx, a)
}

func (c *counting) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	c.writes.Add(1)
	return c.Store.Renew(ctx, run, owner, epoch, ttl)
}

func (c *counting) Claim(ctx context.Context, run, owner string, ttl time.Duration) (store.Run, error) {
	c.writes.Add(1)
	return c.Store.Claim(ctx, run, owner, ttl)
}

func (c *counting) RenewJobs(ctx context.Context, owner string, ttl time.Duration, leases []store.JobLease) ([]store.JobLease, error) {
	c.writes.Add(1)
	return c.Store.RenewJobs(ctx, owner, ttl, leases)
}

func (c *counting) UpdateJob(ctx context.Context, u store.JobUpdate) (store.Job, error) {
	c.writes.Add(1)
	return c.Store.UpdateJob(ctx, u)
}

// TestParkAfter: a job that has waited for a minute holds no actor, no lease and no memory, and nothing
// is written for it; an answer, its expiry or a cancel has it go on within a second, in any worker, with
// the same run, and the question keeps its ID.
func TestParkAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: memory()}
		var effects atomic.Int64
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			if len(req.Messages) == 1 {
				return llmtest.Call("count", nil)
			}
			return llmtest.Say("done")
		}))
		cfg := &agent.Config{Approve: agent.AskAlways, AskExpiry: 24 * time.Hour, Tools: []agent.Tool{counted(false, &effects)}}
		sh := open(t, s, model, cfg, nil)
		for i := range 20 {
			add(t, s, store.Job{ID: fmt.Sprint("j", i)})
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if st := sh.worker.Status(); st.Parked != 20 {
			t.Fatalf("Status before the minute: got %+v, want 20 parked here", st)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := sh.worker.Status(); st.Parked+st.Running+st.Recovering != 0 {
			t.Errorf("Status: got %+v, want no job here", st)
		}
		if runs, err := sh.rt.Runs(t.Context()); err != nil || len(runs) != 0 {
			t.Errorf("the runs under way: got %v, %v, want none", runs, err)
		}
		before := s.writes.Load()
		time.Sleep(time.Hour)
		if n := s.writes.Load() - before; n != 0 {
			t.Errorf("%d writes in an hour of waiting, want none", n)
		}
		for i := range 20 {
			if j := want(t, s, fmt.Sprint("j", i), store.JobWaiting); j.Owner != "" {
				t.Errorf("job %s is held by %s", j.ID, j.Owner)
			}
		}
		asks, err := s.Asks(t.Context(), store.AskQuery{Run: "j3.1"})
		if err != nil || len(asks) != 1 {
			t.Fatalf("Asks: got %+v, %v", asks, err)
		}
		if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CancelJob(t.Context(), "j4"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if j := want(t, s, "j3", store.JobDone); j.Attempts != 1 || j.Run != "j3.1" || effects.Load() != 1 {
			t.Errorf("the job that was answered: got %+v and %d effects", j, effects.Load())
		}
		want(t, s, "j4", store.JobCancelled)
		if got := sh.types("j3"); !slices.Equal(got, []worker.EventType{worker.JobStarted, worker.JobWaiting, worker.JobParked, worker.JobResumed, worker.JobEnded}) {
			t.Errorf("events: got %v", got)
		}
		want(t, s, "j5", store.JobWaiting)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		want(t, s, "j5", store.JobDone) // the model was told that the time was over
		if all, err := s.Asks(t.Context(), store.AskQuery{Run: "j3.1"}); err != nil || len(all) != 1 {
			t.Errorf("the questions of j3: got %+v, %v, want the one", all, err)
		}
	})
}

// TestTimeoutAfterParking: the timeout of a job goes on where it was when the job was parked; the wait is
// not counted (TIME-05).
func TestTimeoutAfterParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		var effects atomic.Int64
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			last := llmtest.Say("done")
			if len(req.Messages) == 1 {
				last = llmtest.Call("count", nil)
			}
			return llmtest.Join(llmtest.Slow(2*time.Minute), last)
		}))
		open(t, s, model, &agent.Config{Approve: agent.AskAlways, AskExpiry: 24 * time.Hour, Tools: []agent.Tool{counted(false, &effects)}}, nil)
		wants := map[string]store.JobState{"short": store.JobLimited, "long": store.JobDone}
		for id, timeout := range map[string]time.Duration{"short": 3 * time.Minute, "long": 5 * time.Minute} {
			add(t, s, store.Job{ID: id, Timeout: timeout})
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for id := range wants {
			if j := want(t, s, id, store.JobWaiting); j.Owner != "" {
				t.Errorf("job %s is held by %s, want it parked", id, j.Owner)
			}
			asks, err := s.Asks(t.Context(), store.AskQuery{Run: id + ".1"})
			if err != nil || len(asks) != 1 {
				t.Fatalf("Asks: got %+v, %v", asks, err)
			}
			if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for id, state := range wants {
			want(t, s, id, state)
		}
	})
}

// TestParkTree: a job whose sub-agent waits for a person is parked with it, and goes on with both.
func TestParkTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: memory()}
		var effects atomic.Int64
		rt, err := agent.Open(t.Context(), &agent.Options{Store: s, Model: llmtest.ByHistory(llmtest.Call("below", map[string]string{"prompt": "go"}), llmtest.Say("done"))})
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		below, err := rt.Agent("below", &agent.Config{Model: llmtest.ByHistory(llmtest.Call("count", nil), llmtest.Say("ok")), Approve: agent.AskAlways,
			AskExpiry: 24 * time.Hour, Tools: []agent.Tool{counted(false, &effects)}})
		if err != nil {
			t.Fatal(err)
		}
		top, err := rt.Agent("top", &agent.Config{Approve: agent.NeverAsk, Tools: []agent.Tool{below.AsTool("below", "asks below")}})
		if err != nil {
			t.Fatal(err)
		}
		w, err := worker.New(rt, &worker.Options{Agents: []*agent.Agent{top}, Store: s})
		if err != nil {
			t.Fatal(err)
		}
		add(t, s, store.Job{ID: "j", Agent: "top"})
		ctx, drain := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if j := want(t, s, "j", store.JobWaiting); j.Owner != "" {
			t.Errorf("the job is held by %s, want it parked", j.Owner)
		}
		before := s.writes.Load()
		time.Sleep(time.Hour)
		if n := s.writes.Load() - before; n != 0 {
			t.Errorf("%d writes in an hour of waiting, want none", n)
		}
		asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
		if err != nil || len(asks) != 1 {
			t.Fatalf("Asks: got %+v, %v", asks, err)
		}
		if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if j := want(t, s, "j", store.JobDone); j.Attempts != 1 || effects.Load() != 1 {
			t.Errorf("the job: got %+v and %d effects", j, effects.Load())
		}
		drain()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
