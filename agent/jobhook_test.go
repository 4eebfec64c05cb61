package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/internal/jobhook"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

var jobHooks = jobhook.Get[*jobhook.Hooks[agent.Agent, agent.Run, agent.RunOptions, agent.ResumeOptions, agent.ForkOptions, agent.Result]]()

// claimed claims the job j for owner w, and returns it for its run.
func claimed(t *testing.T, s store.Store) (store.Job, jobhook.Job[agent.Result]) {
	t.Helper()
	list, err := s.ClaimJobs(t.Context(), "w", 1, time.Minute, []string{"a"})
	if err != nil || len(list) != 1 {
		t.Fatalf("ClaimJobs: got %+v, %v", list, err)
	}
	j := list[0]
	lease := store.JobLease{ID: j.ID, Epoch: j.Epoch}
	return j, jobhook.Job[agent.Result]{ID: j.ID, Owner: "w", Epoch: j.Epoch, Lease: time.Minute, Ends: func(res *agent.Result, err error) *store.JobUpdate {
		if err != nil {
			return nil
		}
		return &store.JobUpdate{JobLease: lease, Owner: "w", State: store.JobDone, Result: jobHooks.Encode(res)}
	}}
}

// begins starts the run of a job.
func begins(t *testing.T, a *agent.Agent, j store.Job, job jobhook.Job[agent.Result]) *agent.Run {
	t.Helper()
	begun := make(chan *agent.Run, 1)
	jobHooks.Start(t.Context(), a, "go", &agent.RunOptions{ID: j.Run}, job, func(run *agent.Run, err error) {
		if err != nil {
			t.Errorf("Start: %v", err)
		}
		begun <- run
	})
	return <-begun
}

func addJob(t *testing.T, s store.Store) {
	t.Helper()
	if _, err := s.AddJob(t.Context(), store.Job{ID: "j", Agent: "a", Prompt: "go"}); err != nil {
		t.Fatal(err)
	}
}

// TestLeaseOfAJob: the run of a job, and that of its sub-agent, work under the job's lease, and renew it; once another has the job
// neither can write, nor have an effect.
func TestLeaseOfAJob(t *testing.T) {
	for _, lost := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			s := memory()
			release, effects := make(chan struct{}), 0
			holds := agent.Func("holds", "Holds.", func(context.Context, struct{}) (string, error) { <-release; return "ok", nil })
			does := agent.Func("does", "Has an effect.", func(context.Context, struct{}) (string, error) { effects++; return "ok", nil })
			model := llmtest.ByHistory(call("holds", `{}`), call("does", `{}`), llmtest.Say("ok"))
			rt := open(t, &agent.Options{Store: s, Model: model, Approve: agent.NeverAsk, Lease: time.Hour})
			sub, err := rt.Agent("sub", &agent.Config{Tools: []agent.Tool{holds, does}})
			if err != nil {
				t.Fatal(err)
			}
			a, err := rt.Agent("a", &agent.Config{Model: llmtest.ByHistory(call("sub", `{"prompt":"go"}`), llmtest.Say("ok")), Tools: []agent.Tool{sub.AsTool("sub", "Works.")}})
			if err != nil {
				t.Fatal(err)
			}
			addJob(t, s)
			j, job := claimed(t, s)
			run := begins(t, a, j, job)
			time.Sleep(5 * time.Minute) // the runs renew the lease
			runs, err := s.Runs(t.Context(), store.Query{})
			if err != nil || len(runs) != 2 {
				t.Fatalf("Runs: got %+v, %v", runs, err)
			}
			for _, r := range runs {
				if r.Job != "j" || r.Root != "j.1" || r.Owner != "w" || r.Epoch != j.Epoch || !r.Leased(time.Now()) {
					t.Errorf("Run: got %+v, want that of the job's tree", r)
				}
			}
			if lost {
				if _, err := s.UpdateJob(t.Context(), store.JobUpdate{JobLease: store.JobLease{ID: "j", Epoch: j.Epoch}, Owner: "w", State: store.JobWaiting, Release: true}); err != nil {
					t.Fatal(err)
				}
			}
			close(release)
			_, err = run.Wait(t.Context())
			got, e := s.Job(t.Context(), "j")
			switch {
			case e != nil:
				t.Fatal(e)
			case lost && (!errors.Is(err, store.ErrFenced) || effects != 0 || got.State != store.JobWaiting):
				t.Errorf("got %v, %d effects, the job %+v, want it fenced", err, effects, got)
			case !lost && (err != nil || effects != 1 || got.State != store.JobDone || !strings.Contains(string(got.Result), `"text":"ok"`)):
				t.Errorf("got %v, %d effects, the job %+v, want it done", err, effects, got)
			}
		})
	}
}

// parked returns a runtime, a job whose run was parked by a worker while its call asks, and that run's question.
func parked(t *testing.T, s *memstore.Store) (*agent.Runtime, store.Job, store.Ask) {
	t.Helper()
	model := llmtest.ByHistory(call("asks", `{"n":1}`), llmtest.Say("ok"))
	e := &effects{made: make(map[string]int)}
	rt := open(t, &agent.Options{Store: s, Model: model, Tools: []agent.Tool{agent.NeedsApproval(e.tool("asks"))}})
	a, err := rt.Agent("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	addJob(t, s)
	j, job := claimed(t, s)
	run := begins(t, a, j, job)
	synctest.Wait()
	if err := run.Suspend(t.Context()); err != nil {
		t.Fatal(err)
	}
	asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
	if err != nil || len(asks) != 1 {
		t.Fatalf("Asks: got %+v, %v", asks, err)
	}
	if r, err := s.Run(t.Context(), j.Run); err != nil || r.State != store.Waiting || r.Owner != "w" {
		t.Errorf("Run: got %+v, %v, want it parked, with the lease of its worker", r, err)
	}
	if _, err := s.UpdateJob(t.Context(), store.JobUpdate{JobLease: store.JobLease{ID: "j", Epoch: j.Epoch}, Owner: "w", State: store.JobWaiting, Release: true, Waits: []string{asks[0].ID}}); err != nil {
		t.Fatal(err)
	}
	return rt, j, asks[0]
}

// TestResumeRunOfAJob: a process that goes on with the run of a parked job ends the job with it.
func TestResumeRunOfAJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt, j, ask := parked(t, s)
		got, err := s.Job(t.Context(), "j")
		if err != nil || got.State != store.JobWaiting || got.Owner != "" {
			t.Fatalf("Job: got %+v, %v, want it to wait", got, err)
		}
		run, err := rt.Resume(t.Context(), j.Run, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err = s.Job(t.Context(), "j"); err != nil || got.State != store.JobRunning || got.Owner == "w" || got.Owner == "" {
			t.Errorf("Job: got %+v, %v, want it to run here", got, err)
		}
		time.Sleep(5 * time.Minute)
		if list, err := s.ClaimJobs(t.Context(), "w", 1, time.Minute, []string{"a"}); err != nil || len(list) > 0 {
			t.Errorf("ClaimJobs: got %+v, %v, want none", list, err)
		}
		if _, err := s.SettleAsk(t.Context(), ask.ID, store.Decision{Status: store.AskAccepted}); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err = s.Job(t.Context(), "j"); err != nil || got.State != store.JobDone || !strings.Contains(string(got.Result), `"text":"ok"`) || got.Attempts != 1 {
			t.Errorf("Job: got %+v, %v, want it done", got, err)
		}
	})
}

// TestResumeUnderAJob: a worker that holds a job goes on with its run under that lease, without a claim, and keeps it
// where that is refused.
func TestResumeUnderAJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt, j, ask := parked(t, s)
		if _, err := s.SettleAsk(t.Context(), ask.ID, store.Decision{Status: store.AskAccepted}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		old := jobhook.Job[agent.Result]{ID: "j", Owner: "w", Epoch: j.Epoch, Ends: func(*agent.Result, error) *store.JobUpdate { return nil }}
		j, job := claimed(t, s)
		o := new(agent.ResumeOptions)
		jobHooks.Resumes(o, old)
		if _, err := rt.Resume(t.Context(), j.Run, o); !errors.Is(err, store.ErrFenced) {
			t.Errorf("Resume under the lease of before: got %v, want %v", err, store.ErrFenced)
		}
		o = &agent.ResumeOptions{Agent: mustAgent(t, rt, "a"), Drift: agent.StopDrift}
		jobHooks.Resumes(o, job)
		var refused *agent.NotResumableError
		if _, err := rt.Resume(t.Context(), j.Run, o); !errors.As(err, &refused) {
			t.Errorf("Resume with drift: got %v", err)
		}
		if got, err := s.Job(t.Context(), "j"); err != nil || got.Owner != "w" || got.Epoch != j.Epoch {
			t.Errorf("Job after a refusal: got %+v, %v, want it held", got, err)
		}
		o = new(agent.ResumeOptions)
		jobHooks.Resumes(o, job)
		run, err := rt.Resume(t.Context(), j.Run, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err := s.Job(t.Context(), "j"); err != nil || got.State != store.JobDone || got.Epoch != j.Epoch {
			t.Errorf("Job: got %+v, %v, want it done", got, err)
		}
	})
}

func mustAgent(t *testing.T, rt *agent.Runtime, name string) *agent.Agent {
	t.Helper()
	a, err := rt.Agent(name, &agent.Config{Instructions: "Others."})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestForkOfAJob: the next attempt of a job goes on from the last one: what that has recorded is not asked for and not called again,
// its calls keep their keys, and all that it has spent counts. A question that it has asked is asked anew.
func TestForkOfAJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, e := memory(), &effects{made: make(map[string]int)}
		broken := true
		asked := 0
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			asked++
			switch {
			case len(req.Messages) == 1:
				return llmtest.Calls(call("free", `{"n":1}`)).Usage(100, 10)
			case broken:
				return llmtest.Fail(errors.New("broken"))
			case len(req.Messages) == 3:
				return call("asks", `{"n":2}`).Usage(100, 10)
			}
			return llmtest.Say("ok").Usage(100, 10)
		}))
		rt := open(t, &agent.Options{Store: s, Model: model, Tools: []agent.Tool{e.tool("free"), agent.NeedsApproval(e.tool("asks"))}})
		a, err := rt.Agent("a", nil)
		if err != nil {
			t.Fatal(err)
		}
		addJob(t, s)
		j, job := claimed(t, s)
		first := begins(t, a, j, job)
		if _, err := first.Wait(t.Context()); err == nil {
			t.Fatal("the first attempt has not failed")
		}
		fork := func(then func(run *agent.Run)) {
			t.Helper()
			queue(t, s, j)
			before := j.Run
			if j, job = claimed(t, s); j.From != before {
				t.Fatalf("ClaimJobs: got %+v, want it to go on from %s", j, before)
			}
			o := &agent.ForkOptions{ID: j.Run}
			jobHooks.Forks(o, job)
			run, err := rt.Fork(t.Context(), j.From, 0, o)
			if err != nil {
				t.Fatal(err)
			}
			then(run)
		}
		broken = false
		fork(func(run *agent.Run) { // it asks, and is ended
			synctest.Wait()
			run.Cancel(errors.New("enough"))
			_, _ = run.Wait(t.Context())
		})
		fork(func(run *agent.Run) {
			synctest.Wait()
			asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
			if err != nil || len(asks) != 1 || asks[0].Run != "j.3" {
				t.Fatalf("Asks: got %+v, %v", asks, err)
			}
			if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted}); err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if got, err := s.Job(t.Context(), "j"); err != nil || got.State != store.JobDone || got.Run != "j.3" {
			t.Errorf("Job: got %+v, %v, want it done", got, err)
		}
		if made := e.take(); made["free 1"] != 1 || made["asks 2"] != 1 {
			t.Errorf("got the effects %v, want each once", made)
		}
		if asked != 4 {
			t.Errorf("the model was asked %d times, want 4: once for nothing", asked)
		}
		keys := make(map[string][]string)
		for _, id := range []string{"j.1", "j.2", "j.3"} {
			state, err := runlog.Fold(t.Context(), s, id)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range state.Calls {
				keys[id] = append(keys[id], c.Key)
			}
			if id == "j.3" && (state.Spent.ModelCalls != 4 || state.Spent.Tokens < 330 || state.Spent.Steps != 3 || state.Spent.ToolCalls != 2) {
				t.Errorf("%s: got %+v spent, want what all attempts have", id, state.Spent)
			}
		}
		if !slices.Equal(keys["j.2"], keys["j.3"]) || len(keys["j.1"]) != 1 || keys["j.1"][0] != keys["j.3"][0] {
			t.Errorf("got the keys %v, want those of the first attempt", keys)
		}
	})
}

// queue has a job whose run has ended tried again.
func queue(t *testing.T, s store.Store, j store.Job) {
	t.Helper()
	if _, err := s.UpdateJob(t.Context(), store.JobUpdate{JobLease: store.JobLease{ID: j.ID, Epoch: j.Epoch}, Owner: "w", State: store.JobFailed}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RetryJob(t.Context(), "j", false); err != nil {
		t.Fatal(err)
	}
}
