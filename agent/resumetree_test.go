package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// dies is the store of a process that ends once its n-th append is durable.
type dies struct {
	killed
	mu   sync.Mutex
	left int
}

func (d *dies) Append(ctx context.Context, a store.Append) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, err := d.killed.Append(ctx, a)
	if d.left--; d.left == 0 {
		d.dead.Store(true)
		return 0, store.ErrFenced
	}
	return last, err
}

func (d *dies) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.alive(); err != nil {
		return store.Run{}, err
	}
	return d.Store.Create(ctx, r, owner, ttl, first...)
}

func (d *dies) Release(ctx context.Context, run, owner string, epoch int64) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.Store.Release(ctx, run, owner, epoch)
}

// lead opens a runtime with a lead, which has two sub-agents: one asks before it writes, the other
// has one of its own that writes, and hands over then.
func lead(t *testing.T, s store.Store, write func(key string), policy agent.UnknownPolicy) (*agent.Runtime, *agent.Agent) {
	t.Helper()
	writer := agent.Func("write", "Writes.", func(ctx context.Context, in in) (string, error) {
		write(fmt.Sprint(in.N))
		return "written", nil
	})
	rt := open(t, &agent.Options{Store: s, Model: llmtest.ByHistory(llmtest.Say("unused")), OnUnknown: policy})
	make := func(name string, m llm.Model, tools ...agent.Tool) *agent.Agent {
		a, err := rt.Agent(name, &agent.Config{Model: m, Tools: tools, AskExpiry: 24 * time.Hour, Limits: agent.Limits{Tokens: 1_000_000}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	last := make("last", llmtest.ByHistory(llmtest.Say("unused"), llmtest.Say("unused"), llmtest.Say("b")))
	deep := make("deep", llmtest.ByHistory(call("write", in{1}), llmtest.Say("deep")), writer)
	a := make("a", llmtest.ByHistory(call("write", in{2}), llmtest.Say("a")), agent.NeedsApproval(writer))
	b := make("b", llmtest.ByHistory(call("deep", `{"prompt":"go"}`), call("transfer_to_last", nil)), append(agent.HandOff(last), deep.AsTool("deep", "asks deep"))...)
	top := make("top", llmtest.ByHistory(llmtest.Calls(call("a", `{"prompt":"go"}`), call("b", `{"prompt":"go"}`)), llmtest.Say("done")), a.AsTool("a", "asks a"), b.AsTool("b", "asks b"))
	return rt, top
}

// TestResumeTree: a run with sub-agents of its own under way, whose process ends after any append of
// any of them, goes on as a tree: each goes on where it was, under the one that has started it, a
// question keeps its ID, each effect comes once, and what all of them have spent is what an
// undisturbed tree spends, and a turn that was lost.
func TestResumeTree(t *testing.T) {
	var undisturbed agent.Spent
	for n, ended := 0, false; !ended; n++ {
		if testing.Short() && n > 0 && n%3 > 0 {
			continue
		}
		bubble(t, func(t *testing.T) {
			s := memory()
			var mu sync.Mutex // guards made: tools of two runs write it
			made := map[string]int{}
			write := func(key string) {
				mu.Lock()
				defer mu.Unlock()
				made[key]++
			}
			answer := func() {
				synctest.Wait()
				asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range asks {
					if a.Kind != agent.KindTool {
						t.Errorf("died at %d: the question is %+v", n, a)
					}
					if _, err := s.SettleAsk(t.Context(), a.ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(2 * time.Second)
			}
			d := &dies{killed: killed{Store: s}, left: n}
			_, top := lead(t, d, write, agent.RepeatUnknown)
			run, err := top.Start(t.Context(), "go", &agent.RunOptions{ID: "r1"})
			if err != nil {
				t.Fatal(err)
			}
			answer()
			if !d.dead.Load() {
				res, err := run.Wait(t.Context())
				if err != nil || res.Text != "done" {
					t.Fatalf("undisturbed: got %+v, %v", res, err)
				}
				undisturbed, ended = res.Spent, n > 0
				return
			}
			time.Sleep(2 * time.Minute)
			second, _ := lead(t, s, write, agent.AskUnknown)
			again, err := second.Resume(t.Context(), "r1", &agent.ResumeOptions{OnUnknown: agent.RepeatUnknown})
			if err != nil {
				t.Fatalf("died at %d: %v", n, err)
			}
			if again.Done() != nil {
				answer()
			}
			res, err := again.Wait(t.Context())
			if err != nil || res.Text != "done" {
				t.Errorf("died at %d: got %+v, %v", n, res, err)
			}
			if got := res.Spent; got.Tokens < undisturbed.Tokens || got.ModelCalls > undisturbed.ModelCalls+3 || got.ModelCalls < undisturbed.ModelCalls || got.ToolCalls != undisturbed.ToolCalls || got.Steps != undisturbed.Steps {
				t.Errorf("died at %d: got %+v, undisturbed %+v", n, got, undisturbed)
			}
			if made["1"] > 2 || made["2"] > 2 || made["1"] == 0 || made["2"] == 0 {
				t.Errorf("died at %d: made %v", n, made)
			}
			asks, err := s.Asks(t.Context(), store.AskQuery{})
			if err != nil || len(asks) != 1 {
				t.Errorf("died at %d: the questions are %+v, %v", n, asks, err)
			}
			runs, err := s.Runs(t.Context(), store.Query{})
			if err != nil || len(runs) != 4 {
				t.Errorf("died at %d: the runs are %+v, %v, want four", n, runs, err)
			}
			for _, r := range runs {
				if r.State != store.Finished {
					t.Errorf("died at %d: run %s is %s", n, r.ID, r.State)
				}
			}
		})
	}
}

// suspends is the store of a tree of runs that is suspended at its n-th append.
type suspends struct {
	store.Store
	mu   sync.Mutex
	left int
	now  func()
}

func (d *suspends) Append(ctx context.Context, a store.Append) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left == 0 {
		go d.now()
	}
	return d.Store.Append(ctx, a)
}

func (d *suspends) more() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left
}

// TestSuspendTree: a run with sub-agents of its own under way is suspended as one, wherever they are:
// no process works on any of them, nothing is written, and all go on in another process at once. Each effect
// comes once, without a question whether it did.
func TestSuspendTree(t *testing.T) {
	for n, ended := 1, false; !ended; n++ {
		if testing.Short() && n%2 > 0 {
			continue
		}
		bubble(t, func(t *testing.T) {
			d, suspended := &suspends{Store: memory(), left: n}, make(chan error, 1)
			var mu sync.Mutex // guards made: tools of two runs write it
			made := map[string]int{}
			write := func(key string) {
				mu.Lock()
				defer mu.Unlock()
				made[key]++
			}
			first, top := lead(t, d, write, agent.AskUnknown)
			begun := make(chan *agent.Run, 1)
			d.now = func() { suspended <- (<-begun).Suspend(context.Background()) }
			run, err := top.Start(t.Context(), "go", &agent.RunOptions{ID: "r1"})
			if err != nil {
				t.Fatal(err)
			}
			begun <- run
			answer := func() {
				asks, err := d.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range asks {
					_, _ = d.SettleAsk(t.Context(), a.ID, store.Decision{Status: store.AskAccepted, By: "ada"})
				}
				time.Sleep(2 * time.Second)
			}
			time.Sleep(2 * time.Second)
			answer()
			if d.more() > 0 {
				ended = true
				return
			}
			if err := <-suspended; err != nil && !errors.Is(err, agent.ErrNotWaiting) {
				t.Fatalf("suspended at %d: %v", n, err)
			} else if err != nil {
				return
			}
			if live, err := first.Runs(t.Context()); err != nil || len(live) > 0 {
				t.Errorf("suspended at %d: the runs under way are %v, %v", n, live, err)
			}
			before := d.more()
			time.Sleep(time.Hour)
			if d.more() != before {
				t.Errorf("suspended at %d: %d appends meanwhile", n, before-d.more())
			}
			second, _ := lead(t, d, write, agent.AskUnknown)
			again, err := second.Resume(t.Context(), "r1", nil)
			if err != nil {
				t.Fatalf("suspended at %d: %v", n, err)
			}
			synctest.Wait()
			answer()
			if res, err := again.Wait(t.Context()); err != nil || res.Text != "done" || made["1"] != 1 || made["2"] != 1 {
				t.Errorf("suspended at %d: got %+v, %v, made %v", n, res, err, made)
			}
			if asks, err := d.Asks(t.Context(), store.AskQuery{}); err != nil || len(asks) != 1 {
				t.Errorf("suspended at %d: the questions are %+v, %v", n, asks, err)
			}
			runs, err := d.Runs(t.Context(), store.Query{})
			if err != nil || len(runs) != 4 {
				t.Errorf("suspended at %d: the runs are %+v, %v, want four", n, runs, err)
			}
			for _, r := range runs {
				if r.State != store.Finished {
					t.Errorf("suspended at %d: run %s is %s", n, r.ID, r.State)
				}
			}
		})
	}
}
