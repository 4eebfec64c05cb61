package worker_test

import (
	"context"
	"slices"
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

// lose ends a worker as a kill would: nothing more is written by it, and its leases last.
func (sh *shop) lose() {
	sh.t.Helper()
	sh.worker.Break()
	<-sh.ended
	synctest.Wait()
}

// TestLost: a worker has gone, at every point of a job's life. Its run goes on in another one, once the lease is over,
// and the job ends by the outcome of the run.
func TestLost(t *testing.T) {
	tests := []struct {
		name    string
		first   llmtest.Turn // of the model that is asked before the loss
		safe    bool
		claimed bool // the worker is lost before its run began
		state   store.JobState
		effects int64
		losses  int
	}{
		{name: "claimed only", claimed: true, state: store.JobDone},
		{name: "the model is asked", first: llmtest.Slow(time.Hour), state: store.JobDone, losses: 1},
		{name: "a safe call is under way", first: llmtest.Call("count", nil), safe: true, state: store.JobDone, effects: 2, losses: 1},
		{name: "a call is under way", first: llmtest.Call("count", nil), state: store.JobWaiting, effects: 1, losses: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory()
				add(t, s, store.Job{ID: "j"})
				var effects atomic.Int64
				hangs := agent.Func("count", "Counts.", func(ctx context.Context, _ struct{}) (string, error) {
					if effects.Add(1) == 1 {
						<-ctx.Done()
					}
					return "1", nil
				})
				hangs.Safe = tt.safe
				cfg := &agent.Config{Tools: []agent.Tool{hangs}}
				var lease store.JobLease
				if tt.claimed {
					lease = claim(t, s, "j")
				} else {
					first := open(t, s, llmtest.Loop(tt.first), cfg, nil)
					time.Sleep(time.Second)
					synctest.Wait()
					j := want(t, s, "j", store.JobRunning)
					lease = store.JobLease{ID: "j", Epoch: j.Epoch}
					first.lose()
				}
				open(t, s, llmtest.Loop(llmtest.Say("by another one")), cfg, nil)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				want(t, s, "j", store.JobRunning) // until the lease is over
				time.Sleep(40 * time.Second)
				synctest.Wait()
				j := want(t, s, "j", tt.state)
				if j.Attempts != 1 || j.Run != "j.1" || j.Losses != tt.losses || effects.Load() != tt.effects {
					t.Errorf("got %d attempts, run %s, %d losses, %d effects; want the first run, %d losses, %d effects", j.Attempts, j.Run, j.Losses, effects.Load(), tt.losses, tt.effects)
				}
				// The worker that was lost comes back, and has no say any more.
				if _, err := s.UpdateJob(t.Context(), store.JobUpdate{JobLease: lease, Owner: "dead", State: store.JobDone, Result: []byte(`"late"`)}); err == nil {
					t.Error("an update of the lost worker was taken")
				}
				if _, err := s.Append(t.Context(), store.Append{Run: "j.1", Owner: "dead", Epoch: lease.Epoch, After: store.Unchecked, Events: []store.Event{{Type: "x"}}}); err == nil {
					t.Error("an append of the lost worker was taken")
				}
			})
		})
	}
}

// TestManyLosses: a job whose worker is lost again and again asks a person whether it goes on, where nothing of it is recorded between
// the losses; the answer counts, whether a worker is up or not. With progress between them losses do not add up.
func TestManyLosses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer store.AskStatus
		state  store.JobState
	}{{"go on", store.AskAccepted, store.JobDone}, {"end", store.AskDeclined, store.JobCancelled}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory()
				add(t, s, store.Job{ID: "j"})
				opts := &worker.Options{Retry: worker.Retry{MaxLosses: 3}}
				for range 3 {
					sh := open(t, s, llmtest.Loop(llmtest.Slow(time.Hour)), nil, opts)
					time.Sleep(40 * time.Second)
					want(t, s, "j", store.JobRunning)
					sh.lose()
				}
				sh := open(t, s, llmtest.Loop(llmtest.Slow(time.Hour)), nil, opts)
				time.Sleep(40 * time.Second)
				synctest.Wait()
				j := want(t, s, "j", store.JobWaiting)
				asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
				if err != nil || len(asks) != 1 || asks[0].Kind != agent.KindJob || j.Losses != 3 || j.Owner != "" {
					t.Fatalf("got the questions %+v, %v, and %+v; want its own after 3 losses", asks, err, j)
				}
				sh.drain()
				if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: tt.answer, By: "ada"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				open(t, s, llmtest.Loop(llmtest.Say("at last")), nil, opts)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				want(t, s, "j", tt.state)
				r, err := s.Run(t.Context(), "j.1")
				if err != nil || !r.State.Ended() {
					t.Errorf("its run: got %+v, %v, want its end", r, err)
				}
				if open, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending}); err != nil || len(open) != 0 {
					t.Errorf("questions: got %+v, %v, want none", open, err)
				}
			})
		})
	}
	t.Run("with progress between", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := memory()
			add(t, s, store.Job{ID: "j"})
			var effects atomic.Int64
			cfg := &agent.Config{MaxRepeats: -1, Tools: []agent.Tool{counted(false, &effects)}}
			for n := range 6 {
				turns := []llmtest.Turn{llmtest.Call("count", nil), llmtest.Slow(time.Hour)}
				sh := open(t, s, llmtest.Script(turns...), cfg, &worker.Options{Retry: worker.Retry{MaxLosses: 3}})
				time.Sleep(40 * time.Second)
				synctest.Wait()
				if j := want(t, s, "j", store.JobRunning); j.Losses > 1 || effects.Load() != int64(n+1) {
					t.Fatalf("after %d losses: got %+v, %d effects", n, j, effects.Load())
				}
				sh.lose()
			}
			open(t, s, llmtest.Loop(llmtest.Say("done")), cfg, nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if j := want(t, s, "j", store.JobDone); j.Attempts != 1 || effects.Load() != 6 {
				t.Errorf("got %+v, %d effects, want one attempt and 6 effects", j, effects.Load())
			}
		})
	})
}

// TestLossesOfTree: what a sub-agent has recorded between two losses is progress of its job.
func TestLossesOfTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		add(t, s, store.Job{ID: "j"})
		var effects atomic.Int64
		team := func(below ...llmtest.Turn) *shop {
			first := func(rt *agent.Runtime, cfg *agent.Config) {
				sub, err := rt.Agent("below", &agent.Config{MaxRepeats: -1, Model: llmtest.Script(below...), Tools: []agent.Tool{counted(false, &effects)}})
				if err != nil {
					t.Fatal(err)
				}
				cfg.Tools = []agent.Tool{sub.AsTool("below", "asks below")}
			}
			model := llmtest.ByHistory(llmtest.Call("below", map[string]string{"prompt": "go"}), llmtest.Say("done"))
			return openTeam(t, s, &agent.Options{Model: model}, new(agent.Config), &worker.Options{Retry: worker.Retry{MaxLosses: 3}}, first, func(*worker.Worker) {})
		}
		for n := range 6 {
			sh := team(llmtest.Call("count", nil), llmtest.Slow(time.Hour))
			time.Sleep(40 * time.Second)
			synctest.Wait()
			if j := want(t, s, "j", store.JobRunning); j.Losses > 1 || effects.Load() != int64(n+1) {
				t.Fatalf("after %d losses: got %+v, %d effects", n, j, effects.Load())
			}
			sh.lose()
		}
		team(llmtest.Say("ok"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if j := want(t, s, "j", store.JobDone); j.Attempts != 1 || effects.Load() != 6 {
			t.Errorf("got %+v, %d effects, want one attempt and 6 effects", j, effects.Load())
		}
	})
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
			if j := want(t, s, id, store.JobDone); j.Attempts != 1 || j.Losses != 0 {
				t.Errorf("%s: got %d attempts, %d losses, want 1 and none: its worker was lost before it began", id, j.Attempts, j.Losses)
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
