package loop_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// TestASubRunDies: when the actor of a run below is killed or panics, exactly its own work
// ends, with one outcome: the call above is a failure that the model is told of, the run
// above goes on, and the run beside it too. Nothing stays held for who is gone.
func TestASubRunDies(t *testing.T) {
	ends := map[string]struct {
		end  func(run *loop.Run)
		says string
	}{
		"panicked": {func(run *loop.Run) { run.Poison() }, "the run's actor: "},
		"killed":   {func(run *loop.Run) { run.Ref().Stop() }, actors.ErrStopped.Error()},
	}
	for name, tt := range ends {
		for _, where := range []string{"in a turn", "in a call"} {
			t.Run(name+" "+where, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bench) {
					gate := llmtest.NewGate()
					defer gate.Open()
					told := &recorder{} // of the run that dies
					below := func(name string, says llmtest.Turn) loop.Tool {
						return b.subRun(name, func(cfg *loop.Config) {
							cfg.Model, cfg.Tools = llmtest.Script(says), tools{hang}
							if name == "dies" {
								cfg.Sink = told
							}
						})
					}
					turn := llmtest.Call("hang", nil)
					if where == "in a turn" {
						turn = llmtest.Hold(gate)
					}
					dies, lives := below("dies", turn), below("lives", llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok")))
					model := llmtest.Script(llmtest.Calls(llmtest.Call("dies", nil), llmtest.Call("lives", nil)), llmtest.Say("I go on."))
					cfg := b.config(model, dies, lives)
					cfg.Budget = budget.New("tree", budget.Limits{ModelCalls: 4, Tokens: 100_000})
					run := b.start(cfg)
					synctest.Wait()
					if r := cfg.Budget.Report(); r.Reserved.ModelCalls == 0 {
						t.Errorf("while they run %+v is held", r.Reserved)
					}
					victim, other := b.sub("dies"), b.sub("lives")
					tt.end(victim)
					synctest.Wait()
					died := victim.Outcome()
					if _, panicked := errors.AsType[*actors.Failure](died.Err); died.State != store.Failed || panicked != (name == "panicked") || len(told.closed) != 1 {
						t.Errorf("the run that dies: %+v, told %d times", died, len(told.closed))
					}
					if failed, err := b.store.Runs(t.Context(), store.Query{States: []store.RunState{store.Failed}}); err != nil || len(failed) != 1 {
						t.Errorf("runs that have failed: %+v, %v", failed, err)
					}
					for _, alive := range []*loop.Run{run, other} {
						select {
						case <-alive.Ended():
							t.Errorf("a run beside or above it has ended: %+v", alive.Outcome())
						default:
						}
					}
					gate.Open()
					out := b.finish(run)
					if out.Err != nil || out.Text != "I go on." {
						t.Errorf("the run above: %+v", out)
					}
					said := results(model.Requests()[1])
					if len(said) != 2 || !strings.Contains(said[0], tt.says) || !strings.Contains(said[1], "finished") {
						t.Errorf("the model is told %q, want %q of the first", said, tt.says)
					}
					b.wantTypes("run.started tools.listed model.intent model.result i i d d r r model.intent model.result run.finished")
					if r := nobodyHolds(t, cfg.Budget); r.Spent.ModelCalls != 4 {
						t.Errorf("spent: %+v", r.Spent)
					}
				})
			})
		}
	}
}

// nameless is a model whose name can not be had.
type nameless struct{ llm.Model }

func (nameless) Name() string { panic(errUser) }

// TestASubRunDoesNotBegin: a run below whose model panics when it is asked for its name is a
// failed call, and has no account any more.
func TestASubRunDoesNotBegin(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		dies := b.subRun("dies", func(cfg *loop.Config) {
			cfg.Model = nameless{cfg.Model}
		})
		model := llmtest.Script(llmtest.Call("dies", nil), llmtest.Say("I go on."))
		cfg := b.config(model, dies)
		cfg.Budget = budget.New("tree", budget.Limits{Tokens: 100_000})
		out := b.finish(b.start(cfg))
		if said := results(model.Requests()[1]); out.Err != nil || len(said) != 1 || said[0] != "error: the tool failed: internal error" {
			t.Errorf("outcome: %+v; the model is told %q", out, said)
		}
		nobodyHolds(t, cfg.Budget)
	})
}

// sub returns the newest run of a tool that is one.
func (b *bench) sub(tool string) *loop.Run {
	b.t.Helper()
	run, ok := b.subs.Load(tool)
	if !ok {
		b.t.Fatalf("no run of %s has begun", tool)
	}
	return run.(*loop.Run)
}
