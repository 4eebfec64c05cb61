package agent_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// brittle is a model whose name can not be had once it is broken: whoever asks for it
// panics, a run's actor before its next turn.
type brittle struct {
	llm.Model
	broken atomic.Bool
}

func (m *brittle) Name() string {
	if m.broken.Load() {
		panic(errTest)
	}
	return m.Model.Name()
}

// TestSubAgentDies: a sub-agent's run whose actor is killed or panics is a failed call of
// the run above, which goes on, and may call again: nothing is held for who is gone.
func TestSubAgentDies(t *testing.T) {
	// The run's two turns and the one it ends with, and one of each sub-agent's.
	limits := agent.Limits{ModelCalls: 5}
	ends := map[string]struct {
		end    func(run *agent.Run, m *brittle, gate *llmtest.Gate)
		failed int64 // actors
	}{
		"killed": {func(run *agent.Run, _ *brittle, _ *llmtest.Gate) { run.Actor().Stop() }, 0},
		"panicked": {func(_ *agent.Run, m *brittle, gate *llmtest.Gate) {
			m.broken.Store(true)
			gate.Open()
		}, 1},
	}
	for name, tt := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, gate := memory(), llmtest.NewGate()
				defer gate.Open()
				rt := open(t, &agent.Options{Store: s, Model: llmtest.Script()})
				model := &brittle{Model: llmtest.Script(llmtest.Join(llmtest.Hold(gate), call("double", in{2})), llmtest.Say("never"))}
				sub := define(t, rt, "sub", &agent.Config{Model: model, Tools: []agent.Tool{double}})
				well := define(t, rt, "well", &agent.Config{Model: llmtest.Script(llmtest.Say("four"))})
				above := llmtest.Script(call("ask_sub", task("x")), call("ask_well", task("y")), llmtest.Say("it is four"))
				boss := define(t, rt, "boss", &agent.Config{Model: above, Limits: limits,
					Tools: []agent.Tool{sub.AsTool("ask_sub", ""), well.AsTool("ask_well", "")}})
				run := begin(t, boss, "r")
				<-gate.Reached()
				synctest.Wait()
				below := run.Below()
				if len(below) != 1 {
					t.Fatalf("%d runs below", len(below))
				}
				tt.end(below[0], model, gate)
				res, err := run.Wait(t.Context())
				if err != nil || res.Text != "it is four" || res.Spent.ModelCalls != 5 {
					t.Fatalf("Wait: %+v, %v", res, err)
				}
				if got := resultsOf(above.Requests()[1]); len(got) != 1 || !strings.Contains(got[0], "the run's actor: ") {
					t.Errorf("the model is told %q", got)
				}
				got := lines(t, run)
				n := slices.IndexFunc(got, func(l string) bool { return strings.HasPrefix(l, "result ask_sub ") })
				if n < 1 || !strings.HasPrefix(got[n-1], "> finished failed") || strings.Count(strings.Join(got, "\n"), "> finished failed") != 1 {
					t.Errorf("events: %q", got)
				}
				if head, err := s.Run(t.Context(), below[0].ID()); err != nil || head.State != store.Failed || head.Parent != "r" {
					t.Errorf("its row: %+v, %v", head, err)
				}
				if n := rt.System().Census().Actors[actors.KindRun].Failed; n != tt.failed {
					t.Errorf("%d runs' actors have failed, want %d", n, tt.failed)
				}
			})
		})
	}
}

// TestBrittleModel: a model whose own code panics is a failure of its runs, at their start
// as well, and of nobody else's.
func TestBrittleModel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := llmtest.NewGate()
		defer gate.Open()
		rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok")))})
		other := start(t, rt, "other")
		<-gate.Reached()
		model := &brittle{Model: llmtest.Script(llmtest.Say("never"))}
		a := define(t, rt, "a", &agent.Config{Model: model})
		model.broken.Store(true)
		for range 10 {
			if run, err := a.Start(t.Context(), "go", nil); !errors.Is(err, errTest) {
				t.Fatalf("Start: got %v, %v, want %v", run, err, errTest)
			}
		}
		gate.Open()
		if res, err := other.Wait(t.Context()); err != nil || res.Text != "ok" {
			t.Errorf("the other run: %+v, %v", res, err)
		}
		if n := rt.System().Census().Actors[actors.KindAgents].Failed; n != 0 {
			t.Errorf("the runs' parent has failed %d times", n)
		}
	})
}

// TestAgentsRestart: when the actor fails that all runs are children of, each of them is left and goes on when it is
// resumed, and what is started then works.
func TestAgentsRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, gate := memory(), llmtest.NewGate()
		defer gate.Open()
		rt := open(t, &agent.Options{Store: s, Model: llmtest.Loop(llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok")))})
		run := start(t, rt, "first")
		<-gate.Reached()
		rt.Poison()
		if res, err := run.Wait(t.Context()); !errors.Is(err, agent.ErrLeft) {
			t.Errorf("Wait: got %+v, %v, want %v", res, err, agent.ErrLeft)
		}
		var last error
		for _, err := range run.Events(t.Context()) { // of the store: the handle of a run that was left does not know
			last = err
		}
		if !errors.Is(last, agent.ErrInterrupted) {
			t.Errorf("the events of the run that was left end with %v, want %v", last, agent.ErrInterrupted)
		}
		if head, err := s.Run(t.Context(), "first"); err != nil || head.State.Ended() || head.Leased(time.Now()) {
			t.Errorf("its row: %+v, %v", head, err)
		}
		gate.Open()
		if again, err := rt.Resume(t.Context(), "first", nil); err != nil {
			t.Errorf("Resume: %v", err)
		} else if res, err := again.Wait(t.Context()); err != nil || res.Text != "ok" {
			t.Errorf("resumed: %+v, %v", res, err)
		}
		if got := types(t, run); got[len(got)-1] != "run_finished" || slices.Index(got, "run_finished") != len(got)-1 {
			t.Errorf("events: %q", got)
		}
		if res, err := start(t, rt, "second").Wait(t.Context()); err != nil || res.Text != "ok" {
			t.Errorf("the next run: %+v, %v", res, err)
		}
		if n := rt.System().Census().Actors[actors.KindAgents].Restarted; n != 1 {
			t.Errorf("restarted %d times, want once", n)
		}
	})
}
