package worker_test

import (
	"context"
	"slices"
	"strings"
	"sync"
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

// TestLost: a worker has gone, at every point of a job's life. What was begun of it is
// closed, and it is tried again unless it has done what must not be done twice.
func TestLost(t *testing.T) {
	intent := store.Event{Type: store.ToolIntent, Key: "k1", Body: []byte(`{"turn":1,"callId":"c","tool":"pay","arguments":{}}`)}
	safe := store.Event{Type: store.ToolIntent, Key: "k1", Body: []byte(`{"turn":1,"callId":"c","tool":"read","arguments":{},"safe":true}`)}
	sent := store.Event{Type: store.ToolDispatched, Key: "k1", Body: []byte(`{"turn":1,"callId":"c"}`)}
	child := store.Event{Type: store.ToolDispatched, Key: "k1", Body: []byte(`{"turn":1,"callId":"c","run":"sub-k1"}`)}
	back := store.Event{Type: store.ToolResult, Key: "k1", Body: []byte(`{"turn":1,"callId":"c","tool":"pay","made":true,"result":{"content":[]}}`)}
	refused := store.Event{Type: store.ToolResult, Key: "k1", Body: []byte(`{"turn":1,"callId":"c","tool":"pay","made":false,"result":{"content":[]}}`)}
	done := store.Event{Type: store.RunFinished, Body: []byte(`{"state":"finished","stop":"stop","text":"by the lost one","usage":{"input":1,"output":2},"steps":1,"toolCalls":0}`)}
	tests := []struct {
		name   string
		events []store.Event // of its run; nil: it was not begun
		child  []store.Event // of the run it has started
		ended  store.RunState
		losses int // before
		state  store.JobState
		run    store.RunState // of the lost attempt, afterwards
		says   string
	}{
		{name: "claimed only", state: store.JobDone, run: store.Failed},
		{name: "begun", events: []store.Event{}, state: store.JobDone, run: store.Failed},
		{name: "about to call", events: []store.Event{intent}, state: store.JobDone, run: store.Failed},
		{name: "calling", events: []store.Event{intent, sent}, state: store.JobUnknown, run: store.Failed, says: "pay"},
		{name: "called", events: []store.Event{intent, sent, back}, state: store.JobUnknown, run: store.Failed, says: "pay"},
		{name: "refused", events: []store.Event{intent, refused}, state: store.JobDone, run: store.Failed},
		{name: "not made after all", events: []store.Event{intent, sent, refused}, state: store.JobDone, run: store.Failed},
		{name: "calling a safe one", events: []store.Event{safe, sent}, state: store.JobDone, run: store.Failed},
		{name: "a sub-agent has done nothing", events: []store.Event{safe, child}, child: []store.Event{intent}, state: store.JobDone, run: store.Failed},
		{name: "a sub-agent was calling", events: []store.Event{safe, child}, child: []store.Event{intent, sent}, state: store.JobUnknown, run: store.Failed, says: "pay"},
		{name: "a sub-agent was not begun", events: []store.Event{intent, child}, state: store.JobDone, run: store.Failed},
		{name: "finished, and could not say so", events: []store.Event{intent, sent, back, done}, ended: store.Finished, state: store.JobDone, run: store.Finished},
		{name: "for the last time", events: []store.Event{}, losses: 9, state: store.JobFailed, run: store.Failed, says: "lost 10 times"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, s := t.Context(), memory()
				j := add(t, s, store.Job{ID: "j"})
				for range tt.losses {
					lost := claim(t, s, "j")
					if _, err := s.UpdateJob(ctx, store.JobUpdate{JobLease: lost, Owner: "dead", State: store.JobQueued, Lost: true}); err != nil {
						t.Fatal(err)
					}
				}
				lease := claim(t, s, "j")
				attempt := j.RunID(tt.losses + 1)
				if tt.events != nil {
					begun(t, s, attempt, "", tt.ended, tt.events)
				}
				if tt.child != nil {
					begun(t, s, "sub-k1", attempt, "", tt.child)
				}
				open(t, s, llmtest.Loop(llmtest.Say("again")), nil, nil)
				time.Sleep(29 * time.Second)
				synctest.Wait()
				want(t, s, "j", store.JobRunning) // until the leases expire
				time.Sleep(40 * time.Second)
				synctest.Wait()
				got := want(t, s, "j", tt.state)
				if !strings.Contains(got.Error, tt.says) {
					t.Errorf("error: got %q, want %q", got.Error, tt.says)
				}
				again := tt.state == store.JobDone && tt.run != store.Finished
				if text := "by the lost one"; !again && tt.state == store.JobDone && !strings.Contains(string(got.Result), text) {
					t.Errorf("result: got %s, want that of the lost attempt", got.Result)
				}
				if again != (got.Attempts == tt.losses+2) {
					t.Errorf("got %d attempts", got.Attempts)
				}
				r, err := s.Run(ctx, attempt)
				if err != nil || r.State != tt.run {
					t.Errorf("the lost run: got %+v, %v, want %s", r, err, tt.run)
				}
				if tt.child != nil {
					if r, err := s.Run(ctx, "sub-k1"); err != nil || r.State != store.Failed {
						t.Errorf("the run of its sub-agent: got %+v, %v, want failed", r, err)
					}
				}
				// Whoever was lost comes back, and has no say any more.
				if _, err := s.UpdateJob(ctx, store.JobUpdate{JobLease: lease, Owner: "dead", State: store.JobDone, Result: []byte(`"late"`)}); err == nil {
					t.Error("an update of the lost worker was taken")
				}
				if _, err := s.Append(ctx, store.Append{Run: attempt, Owner: "agent-dead", Epoch: 1, After: store.Unchecked, Events: []store.Event{sent}}); err == nil {
					t.Error("an append of the lost worker was taken")
				}
				if _, err := s.Create(ctx, store.Run{ID: attempt}, "dead", time.Minute); err == nil {
					t.Error("the lost worker could begin its run")
				}
			})
		})
	}
}

// TestLostTwice: a worker has gone before a job's run began, and another one after it had taken the place of
// that run. No run was lost, so that no loss counts, and the job begins anew.
func TestLostTwice(t *testing.T) {
	for _, losses := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			ctx, s := t.Context(), memory()
			j := add(t, s, store.Job{ID: "j"})
			for range losses {
				if _, err := s.UpdateJob(ctx, store.JobUpdate{JobLease: claim(t, s, "j"), Owner: "dead", State: store.JobQueued, Lost: true}); err != nil {
					t.Fatal(err)
				}
			}
			claim(t, s, "j")
			if _, err := s.Create(ctx, store.Run{ID: j.RunID(losses + 1), Agent: "a", Title: "a run that was not begun"}, "another", 30*time.Second,
				store.Event{Type: store.RunStarted, Body: []byte(`{"agent":"a","path":["a"],"model":"","input":[]}`)}); err != nil {
				t.Fatal(err)
			}
			open(t, s, llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
				return llmtest.Say("asked: " + req.Messages[0].Content.Text())
			})), nil, nil)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			got := want(t, s, "j", store.JobDone)
			if got.Losses != losses || got.Attempts != losses+2 || !strings.Contains(string(got.Result), "asked: go") {
				t.Errorf("got %d losses, %d attempts, %s, want %d losses and another attempt", got.Losses, got.Attempts, got.Result, losses)
			}
		})
	}
}

// claim lets a worker that is about to die have a job.
func claim(t *testing.T, s store.Store, id string) store.JobLease {
	t.Helper()
	list, err := s.ClaimJobs(t.Context(), "dead", 1, 30*time.Second, []string{"a"})
	if err != nil || len(list) != 1 || list[0].ID != id {
		t.Fatalf("ClaimJobs: got %+v, %v", list, err)
	}
	return store.JobLease{ID: id, Epoch: list[0].Epoch}
}

// TestLostBatch: a worker has gone between the claim of a batch and the start of its jobs. Once the
// leases are over each job runs once. They are examined side by side, so that none waits for another.
func TestLostBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ids := memory(), []string{"j1", "j2", "j3", "j4", "j5", "j6"}
		for _, id := range ids {
			add(t, s, store.Job{ID: id, Prompt: id})
		}
		if list, err := s.ClaimJobs(t.Context(), "dead", len(ids), 30*time.Second, []string{"a"}); err != nil || len(list) != len(ids) {
			t.Fatalf("ClaimJobs: got %d jobs, %v", len(list), err)
		}
		var mu sync.Mutex // guards asked: the test reads it while jobs may follow
		var asked []string
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, req.Messages[0].Content.Text())
			return llmtest.Say("done")
		}))
		sh := open(t, s, model, nil, &worker.Options{Concurrency: 1})
		time.Sleep(29 * time.Second)
		synctest.Wait()
		mu.Lock()
		if len(asked) > 0 {
			t.Errorf("begun before the leases are over: %v", asked)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, id := range ids {
			if j := want(t, s, id, store.JobDone); j.Attempts != 2 || j.Losses != 0 {
				t.Errorf("%s: got %d attempts, %d losses, want 2 and none: its worker was lost before it began", id, j.Attempts, j.Losses)
			}
		}
		sh.drain()
		mu.Lock()
		defer mu.Unlock()
		if slices.Sort(asked); !slices.Equal(asked, ids) {
			t.Errorf("asked: got %v, want each of %v once", asked, ids)
		}
	})
}

// begun writes the journal of a run whose process has died.
func begun(t *testing.T, s store.Store, id, parent string, ended store.RunState, events []store.Event) {
	t.Helper()
	first := store.Event{Type: store.RunStarted, Body: []byte(`{"model":"m","input":[],"nonce":"n","steps":1,"toolCalls":1,"wallMs":1,"maxResult":1}`)}
	r, err := s.Create(t.Context(), store.Run{ID: id, Parent: parent, Epoch: 1, Agent: "a"}, "agent-dead", time.Minute, first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), store.Append{Run: id, Owner: r.Owner, Epoch: r.Epoch, After: store.Unchecked, State: ended, Events: events}); err != nil {
		t.Fatal(err)
	}
}

// TestStandstill: a worker stands still past its lease while one of its calls is under
// way, and comes back; another has its job by then.
func TestStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		frozen := &gated{Store: s, thaw: make(chan struct{})}
		var effects atomic.Int64
		release := make(chan struct{})
		slow := agent.Func("count", "Counts.", func(context.Context, struct{}) (string, error) {
			effects.Add(1)
			<-release
			return "1", nil
		})
		script := llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			if len(req.Messages) == 1 {
				return llmtest.Call("count", nil)
			}
			return llmtest.Say("done")
		})
		first := open(t, frozen, llmtest.Loop(script), &agent.Config{Tools: []agent.Tool{slow}}, nil)
		add(t, s, store.Job{ID: "j"})
		time.Sleep(time.Second)
		synctest.Wait()
		frozen.freeze()
		second := open(t, s, llmtest.Loop(script), &agent.Config{Tools: []agent.Tool{slow}}, &worker.Options{ParkAfter: -1})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want(t, s, "j", store.JobWaiting)
		close(frozen.thaw)
		close(release)
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, s, "j", store.JobWaiting)
		asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
		if err != nil || len(asks) != 1 || asks[0].Kind != agent.KindOutcome {
			t.Fatalf("the questions: got %+v, %v, want what came of the call", asks, err)
		}
		if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskDeclined, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		j := want(t, s, "j", store.JobDone)
		if effects.Load() != 1 || j.Attempts != 1 {
			t.Errorf("got %d effects in %d attempts, want one", effects.Load(), j.Attempts)
		}
		if types := first.types("j"); !slices.Equal(types, []worker.EventType{worker.JobStarted, worker.JobLost}) {
			t.Errorf("events of the one that stood still: got %v", types)
		}
		if types := second.types("j"); !slices.Equal(types, []worker.EventType{worker.JobResumed, worker.JobWaiting, worker.JobResumed, worker.JobEnded}) {
			t.Errorf("events of the other: got %v", types)
		}
		if st := first.worker.Status(); st.Lost != 1 || st.Running != 0 {
			t.Errorf("Status: got %+v", st)
		}
	})
}
