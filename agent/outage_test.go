package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// TestOutageOfSubAgent: a sub-agent whose model is away leaves the runs above it too; a call beside it returns. When the tree is
// resumed it goes on where it was, and the model of the run above sees an answer.
func TestOutageOfSubAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		down := &llm.Error{Provider: "p", Status: 429, Err: llm.ErrRateLimit, RetryAfter: 48 * time.Second}
		var written atomic.Int64
		open := func(sub *llmtest.Model) (*agent.Runtime, *agent.Agent, *llmtest.Model) {
			rt := open(t, &agent.Options{Store: s, Model: llmtest.Script(), Retry: &llm.RetryOptions{MaxAttempts: 1}})
			write := agent.Func("write", "Writes.", func(context.Context, in) (string, error) {
				time.Sleep(2 * time.Second)
				written.Add(1)
				return "written", nil
			})
			deep := define(t, rt, "deep", &agent.Config{Model: sub})
			middle := define(t, rt, "middle", &agent.Config{Model: llmtest.ByHistory(call("ask_deep", task("x")), llmtest.Say("from the middle")), Tools: []agent.Tool{deep.AsTool("ask_deep", "")}})
			top := llmtest.ByHistory(llmtest.Calls(call("ask_middle", task("x")), call("write", in{1})), llmtest.Say("done"))
			return rt, define(t, rt, "top", &agent.Config{Model: top, Tools: []agent.Tool{middle.AsTool("ask_middle", ""), write}}), top
		}
		_, top, _ := open(llmtest.Script(llmtest.Fail(down)))
		began := time.Now()
		res, err := top.Run(t.Context(), "go", &agent.RunOptions{ID: "r"})
		away, ok := errors.AsType[*agent.OutageError](err)
		if !ok || away.Provider != "p" || away.Class != "rate_limit" || away.RetryAt.Sub(began) != 48*time.Second || !errors.Is(err, agent.ErrSuspended) || !errors.Is(err, llm.ErrRateLimit) {
			t.Fatalf("Run: got %+v, %v", res, err)
		}
		if !strings.Contains(err.Error(), "goes on when it is resumed") {
			t.Errorf("the error does not say what to do: %v", err)
		}
		if written.Load() != 1 {
			t.Errorf("the call beside it was made %d times", written.Load())
		}
		runs, err := s.Runs(t.Context(), store.Query{})
		if err != nil || len(runs) != 3 {
			t.Fatalf("the runs: %+v, %v", runs, err)
		}
		for _, r := range runs {
			if types := typesOf(t, s, r.ID); r.State != store.Waiting || r.Leased(time.Now()) || types[len(types)-1] != "run.parked" {
				t.Errorf("the run %s: %+v, %v", r.ID, r, types)
			}
		}
		time.Sleep(time.Until(away.RetryAt))
		rt, _, model := open(llmtest.Script(llmtest.Say("from the deep")))
		run, err := rt.Resume(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "done" || res.Spent.ModelCalls != 5 || written.Load() != 1 {
			t.Errorf("resumed: %+v, %v, %d calls", res, err, written.Load())
		}
		if got := strings.Join(resultsOf(model.Requests()[0]), " "); !strings.Contains(got, "from the middle") || !strings.Contains(got, "written") {
			t.Errorf("the model is told %q", got)
		}
	})
}

// TestOutageAgain: a run that was left is taken up by its ID, as one that was suspended; without a store of the program's it fails.
func TestOutageAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		down := &llm.Error{Provider: "p", Err: llm.ErrUnreachable}
		model := llmtest.Script(llmtest.Fail(down), llmtest.Say("ok"))
		opts := agent.Options{Store: memory(), Model: model, Retry: &llm.RetryOptions{MaxAttempts: 1}}
		a := define(t, open(t, &opts), "a", nil)
		for i, want := range []string{"", "ok"} {
			res, err := a.Run(t.Context(), "go", &agent.RunOptions{ID: "r"})
			if away := errors.Is(err, agent.ErrSuspended); away != (want == "") || !away && res.Text != want {
				t.Errorf("time %d: got %+v, %v", i, res, err)
			}
		}
		opts.Store, opts.Model = nil, llmtest.Script(llmtest.Fail(down))
		if res, err := open(t, &opts).Run(t.Context(), "go"); errors.Is(err, agent.ErrSuspended) || !errors.Is(err, llm.ErrUnreachable) || res.StopReason != agent.StopFailed {
			t.Errorf("in memory: got %+v, %v", res, err)
		}
	})
}

// TestRefusedSubAgent: a sub-agent that cannot go on here leaves the runs above it as they are, and none of them ends.
func TestRefusedSubAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		open := func(handsOver bool) (*agent.Runtime, *agent.Agent) {
			rt := open(t, &agent.Options{Store: s, Model: llmtest.Script()})
			last := define(t, rt, "last", &agent.Config{Model: llmtest.ByHistory(llmtest.Say("unused"), call("pay", in{1}), llmtest.Say("paid")),
				Tools: []agent.Tool{agent.NeedsApproval(agent.Func("pay", "Pays.", func(context.Context, in) (string, error) { return "paid", nil }))}})
			cfg := &agent.Config{Model: llmtest.ByHistory(call("transfer_to_last", nil))}
			if handsOver {
				cfg.Tools = agent.HandOff(last)
			}
			sub := define(t, rt, "sub", cfg)
			return rt, define(t, rt, "top", &agent.Config{Model: llmtest.ByHistory(call("ask_sub", task("x")), llmtest.Say("done")), Tools: []agent.Tool{sub.AsTool("ask_sub", "")}})
		}
		_, top := open(true)
		run := begin(t, top, "r")
		synctest.Wait()
		if err := run.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, handsOver := range []bool{false, true} {
			rt, _ := open(handsOver)
			run, err := rt.Resume(t.Context(), "r", nil)
			var refused *agent.NotResumableError
			if errors.As(err, &refused) != !handsOver || handsOver && err != nil {
				t.Fatalf("Resume, where it hands over: %v: got %v", handsOver, err)
			}
			asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
			if err != nil || len(asks) != 1 || asks[0].Tool != "pay" {
				t.Fatalf("the questions: %+v, %v", asks, err)
			}
			if handsOver {
				if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
					t.Fatal(err)
				}
				if res, err := run.Wait(t.Context()); err != nil || res.Text != "done" {
					t.Errorf("got %+v, %v", res, err)
				}
			}
			runs, err := s.Runs(t.Context(), store.Query{})
			if err != nil || len(runs) != 2 {
				t.Fatalf("the runs: %+v, %v", runs, err)
			}
			for _, r := range runs {
				if r.State.Ended() != handsOver || r.Leased(time.Now()) && !handsOver {
					t.Errorf("hands over: %v: the run %+v", handsOver, r)
				}
			}
		}
	})
}
