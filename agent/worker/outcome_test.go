package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

var (
	errDown    = &llm.Error{Provider: "p", Err: llm.ErrUnreachable, Retryable: true}
	errAuth    = &llm.Error{Provider: "p", Err: llm.ErrAuth}
	errSlow    = &llm.Error{Provider: "p", Err: llm.ErrRateLimit, Retryable: true, RetryAfter: 40 * time.Minute}
	errPassing = fmt.Errorf("for the test: %w", mcpclient.ErrNotSent)
	errQuota   = &llm.Error{Provider: "p", Err: llm.ErrQuota, Retryable: true}
)

// TestOutcomes: what is tried again, how often, and what a job then is.
func TestOutcomes(t *testing.T) {
	call, ok := llmtest.Call("count", nil), llmtest.Say("ok")
	tests := []struct {
		name     string
		turns    []llmtest.Turn
		job      store.Job
		limits   agent.Limits
		safe     bool
		after    time.Duration // virtual
		state    store.JobState
		attempts int
		effects  int64
		says     string
	}{
		{name: "at once", turns: []llmtest.Turn{ok}, state: store.JobDone, attempts: 1},
		{name: "unreachable, then well", turns: []llmtest.Turn{llmtest.Fail(errDown), llmtest.Fail(errDown), ok}, after: time.Minute, state: store.JobDone, attempts: 1},
		{name: "unreachable for ever", turns: []llmtest.Turn{llmtest.Fail(errDown)}, after: time.Minute, state: store.JobWaiting, attempts: 1, says: "waits for provider"},
		{name: "rate limit is heeded", turns: []llmtest.Turn{llmtest.Fail(errSlow), ok}, after: 39 * time.Minute, state: store.JobWaiting, attempts: 1},
		{name: "and then over", turns: []llmtest.Turn{llmtest.Fail(errSlow), ok}, after: 41 * time.Minute, state: store.JobDone, attempts: 1},
		{name: "bad credentials, then good ones", turns: []llmtest.Turn{llmtest.Fail(errAuth), ok}, after: time.Minute, state: store.JobDone, attempts: 1},
		{name: "no quota, then some", turns: []llmtest.Turn{llmtest.Fail(errQuota), ok}, after: time.Minute, state: store.JobDone, attempts: 1},
		{name: "a bug", turns: []llmtest.Turn{llmtest.Fail(errors.New("boom")), ok}, after: time.Minute, state: store.JobFailed, attempts: 1, says: "boom"},
		{name: "a limit", turns: []llmtest.Turn{call, ok}, limits: agent.Limits{ModelCalls: 1}, safe: true, after: time.Minute, state: store.JobLimited, attempts: 1, effects: 1},
		{name: "a time limit", turns: []llmtest.Turn{llmtest.Slow(time.Hour)}, job: store.Job{Timeout: time.Minute}, after: 2 * time.Minute, state: store.JobLimited, attempts: 1, says: "1m0s time of its job"},
		{name: "expired", turns: []llmtest.Turn{ok}, job: store.Job{Expires: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)}, state: store.JobFailed, attempts: 1, says: "expired"},
		{name: "away after a safe call", turns: []llmtest.Turn{call, llmtest.Fail(errDown), ok}, safe: true, after: time.Minute, state: store.JobDone, attempts: 1, effects: 1},
		{name: "away after an unsafe call", turns: []llmtest.Turn{call, llmtest.Fail(errDown), ok}, after: time.Minute, state: store.JobDone, attempts: 1, effects: 1},
		{name: "fails after an unsafe call", turns: []llmtest.Turn{call, llmtest.Fail(errPassing), ok}, after: time.Minute, state: store.JobDone, attempts: 2, effects: 1},
		{name: "fails for ever", turns: []llmtest.Turn{llmtest.Fail(errPassing)}, after: time.Minute, state: store.JobFailed, attempts: 3, says: "3 attempts have failed"},
		{name: "as often as the job says", turns: []llmtest.Turn{llmtest.Fail(errPassing)}, job: store.Job{MaxAttempts: 5}, after: time.Minute, state: store.JobFailed, attempts: 5},
		{name: "a bad prompt", turns: []llmtest.Turn{ok}, job: store.Job{Input: []byte(`{"a":1}`)}, after: time.Minute, state: store.JobFailed, attempts: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var effects atomic.Int64
				s := memory()
				turns := tt.turns
				if len(turns) == 1 {
					turns = slices.Repeat(turns, 10)
				}
				cfg := &agent.Config{Tools: []agent.Tool{counted(tt.safe, &effects)}, Limits: tt.limits}
				open(t, s, llmtest.Script(turns...), cfg, nil)
				j := add(t, s, tt.job)
				time.Sleep(time.Second + tt.after)
				synctest.Wait()
				got := want(t, s, j.ID, tt.state)
				if got.Attempts != tt.attempts || !strings.Contains(got.Error, tt.says) || effects.Load() != tt.effects {
					t.Errorf("job: got %d attempts, error %q, %d effects; want %d, %q, %d", got.Attempts, got.Error, effects.Load(), tt.attempts, tt.says, tt.effects)
				}
			})
		})
	}
}

// TestBackOff: the waits double, up to the most.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		sh := open(t, s, llmtest.Loop(llmtest.Fail(errPassing)), nil, &worker.Options{Retry: worker.Retry{MaxAttempts: 6, First: 10 * time.Second, Max: time.Minute}})
		j := add(t, s, store.Job{})
		time.Sleep(5 * time.Minute)
		want(t, s, j.ID, store.JobFailed)
		var waits []time.Duration
		for _, ev := range sh.events {
			if ev.Type == worker.JobRetried {
				waits = append(waits, ev.Wait)
			}
		}
		for i, want := range []time.Duration{10, 20, 40, 60, 60} {
			want *= time.Second
			if len(waits) != 5 || waits[i] < want*8/10 || waits[i] > want*12/10 {
				t.Fatalf("waits: got %v, want about 10 s, doubling up to 1 min", waits)
			}
		}
	})
}

// TestConcurrency: as many jobs at once as is said, and all of them in the end.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		var now, most atomic.Int64
		model := llmtest.Loop(llmtest.Func(func(ctx context.Context, _ *llm.Request) llmtest.Turn {
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return llmtest.Say("ok")
		}))
		sh := open(t, s, model, nil, &worker.Options{Concurrency: 3})
		for i := range 30 {
			add(t, s, store.Job{ID: fmt.Sprint("j", i)})
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		counts, err := s.JobCounts(t.Context())
		if err != nil || counts[store.JobDone] != 30 || most.Load() != 3 {
			t.Errorf("got %v, %v, %d at once; want 30 done and 3 at once", counts, err, most.Load())
		}
		if st := sh.worker.Status(); st.Ended[store.JobDone] != 30 {
			t.Errorf("Status: got %+v", st)
		}
	})
}

// TestCancel: a job that is queued, running, or waits for a human; within a second, by
// somebody who has nothing but the store.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		var effects atomic.Int64
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			if req.Messages[0].Content.Text() == "wait" {
				return llmtest.Call("count", nil)
			}
			return llmtest.Slow(time.Hour)
		}))
		sh := open(t, s, model, &agent.Config{Approve: agent.AskAlways, Tools: []agent.Tool{counted(true, &effects)}}, &worker.Options{Concurrency: 1})
		waits := add(t, s, store.Job{ID: "waits", Prompt: "wait"})
		time.Sleep(2 * time.Second)
		runs := add(t, s, store.Job{ID: "runs"})
		time.Sleep(2 * time.Second)
		queued := add(t, s, store.Job{ID: "queued"})
		time.Sleep(2 * time.Second)
		want(t, s, "waits", store.JobWaiting)
		want(t, s, "runs", store.JobRunning)
		want(t, s, "queued", store.JobQueued)
		if st := sh.worker.Status(); st.Parked != 1 || st.Running != 1 {
			t.Errorf("Status: got %+v, want one parked and one running", st)
		}
		for _, j := range []store.Job{queued, waits, runs} {
			if _, err := s.CancelJob(t.Context(), j.ID); err != nil {
				t.Errorf("CancelJob(%q): %v", j.ID, err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for _, id := range []string{"waits", "runs", "queued"} {
			if j := want(t, s, id, store.JobCancelled); j.Cancelling || j.Owner != "" {
				t.Errorf("job: got %+v", j)
			}
		}
		asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
		if err != nil || len(asks) != 0 || effects.Load() != 0 {
			t.Errorf("after the cancel: %d asks, %v, %d effects; want none", len(asks), err, effects.Load())
		}
	})
}

// TestParked: a job that waits for a human takes no place and no goroutine, and goes on
// within a second after an answer was given in the store.
func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		var effects atomic.Int64
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			if len(req.Messages) == 1 {
				return llmtest.Call("count", nil)
			}
			return llmtest.Say("done")
		}))
		sh := open(t, s, model, &agent.Config{Approve: agent.AskAlways, AskExpiry: 24 * time.Hour, Tools: []agent.Tool{counted(false, &effects)}},
			&worker.Options{Concurrency: 2, Lease: 10 * time.Second, ParkAfter: -1})
		for i := range 20 {
			add(t, s, store.Job{ID: fmt.Sprint("j", i), Timeout: time.Minute})
		}
		time.Sleep(10 * time.Minute) // past every lease, and the time of the jobs, which stands still
		synctest.Wait()
		if st := sh.worker.Status(); st.Parked != 20 || st.Running != 0 {
			t.Fatalf("Status: got %+v, want 20 parked", st)
		}
		if tasks := sh.rt.System().Census().Tasks; len(tasks) != 0 {
			t.Errorf("parked jobs have tasks: %v", tasks)
		}
		asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
		if err != nil || len(asks) != 20 {
			t.Fatalf("Asks: got %d, %v, want 20", len(asks), err)
		}
		for _, a := range asks {
			if _, err := s.SettleAsk(t.Context(), a.ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		counts, err := s.JobCounts(t.Context())
		if err != nil || counts[store.JobDone] != 20 || effects.Load() != 20 {
			t.Errorf("a second after the answers: got %v, %v, %d effects, want 20 done", counts, err, effects.Load())
		}
		if types := sh.types("j0"); !slices.Equal(types, []worker.EventType{worker.JobStarted, worker.JobWaiting, worker.JobResumed, worker.JobEnded}) {
			t.Errorf("events: got %v", types)
		}
	})
}

// TestDrain: what runs may end, and what does not end in time is left where it is. What waits for a
// person is parked: its question stays open, and an answer counts that comes while there is no worker. The next
// worker goes on with the same runs: no call is made twice.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		var effects atomic.Int64
		effect := counted(false, &effects)
		effect.Name = "effect"
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			switch prompt := req.Messages[0].Content.Text(); {
			case prompt == "short":
				return llmtest.Join(llmtest.Slow(5*time.Second), llmtest.Say("ok"))
			case prompt == "long", len(req.Messages) > 1 && prompt == "unsafe":
				return llmtest.Slow(time.Hour)
			case prompt == "unsafe", len(req.Messages) == 1 && prompt == "unsafe waits":
				return llmtest.Call("effect", nil)
			}
			return llmtest.Call("count", nil)
		}))
		policy := func(_ context.Context, call *agent.ToolCall) agent.Verdict {
			if call.Tool == "count" {
				return agent.VerdictAsk
			}
			return agent.VerdictAllow
		}
		var count atomic.Int64
		config := &agent.Config{Approve: policy, Tools: []agent.Tool{counted(true, &count), effect}}
		sh := open(t, s, model, config, &worker.Options{Drain: 10 * time.Second})
		wants := map[string]store.JobState{"short": store.JobDone, "long": store.JobWaiting, "unsafe": store.JobWaiting,
			"waits": store.JobWaiting, "unsafe waits": store.JobWaiting}
		for prompt := range wants {
			add(t, s, store.Job{ID: prompt, Prompt: prompt})
		}
		time.Sleep(2 * time.Second)
		begun := time.Now()
		sh.drain()
		if d := time.Since(begun); d < 10*time.Second || d > 13*time.Second {
			t.Errorf("the drain took %v, want about 10s", d)
		}
		for id, state := range wants {
			if j := want(t, s, id, state); j.Owner != "" || j.Failures != 0 {
				t.Errorf("job %q: got %+v", id, j)
			}
		}
		asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
		if err != nil || len(asks) != 2 || effects.Load() != 2 || count.Load() != 0 {
			t.Fatalf("after the drain: got the asks %+v, %v, and %d and %d calls, want the asks of both jobs that wait, 2 and 0", asks, err, effects.Load(), count.Load())
		}
		answer := func(run string) {
			t.Helper()
			i := slices.IndexFunc(asks, func(a store.Ask) bool { return a.Run == run })
			if _, err := s.SettleAsk(t.Context(), asks[i].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		answer("waits.1")
		time.Sleep(time.Minute)
		open(t, s, llmtest.Loop(llmtest.Say("ok")), config, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, s, "waits", store.JobDone)
		want(t, s, "unsafe waits", store.JobWaiting)
		answer("unsafe waits.1")
		time.Sleep(time.Second)
		synctest.Wait()
		for _, id := range []string{"waits", "unsafe waits", "long", "unsafe"} {
			if j := want(t, s, id, store.JobDone); j.Run != id+".1" || j.Attempts != 1 || j.Losses != 0 {
				t.Errorf("job %q: got %+v, want its first run", id, j)
			}
		}
		if effects.Load() != 2 || count.Load() != 2 {
			t.Errorf("got %d and %d calls, want 2 and 2", effects.Load(), count.Load())
		}
	})
}
