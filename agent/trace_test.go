package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// tracer writes down which runs have begun and how they have ended.
type tracer struct {
	panics string // where

	mu   sync.Mutex
	runs []string
}

func (tr *tracer) note(what, line string) {
	tr.mu.Lock()
	tr.runs = append(tr.runs, what+" "+line)
	tr.mu.Unlock()
	if what == tr.panics {
		panic(errTest)
	}
}

func (tr *tracer) took() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.runs)
}

func (tr *tracer) Run(ctx context.Context, r *agent.RunTrace) (context.Context, func(*agent.Result, error)) {
	tr.note("begins", r.ID)
	return ctx, func(res *agent.Result, err error) {
		line := fmt.Sprintf("%s %v", r.ID, err)
		if res != nil {
			line = fmt.Sprintf("%s %s %v", r.ID, res.StopReason, err)
		}
		tr.note("ends", line)
	}
}

func (*tracer) Turn(ctx context.Context, _ *agent.TurnTrace) (context.Context, func(*llm.Response, error)) {
	return ctx, func(*llm.Response, error) {}
}

func (*tracer) Tool(ctx context.Context, _ *agent.ToolTrace) (context.Context, func(*mcp.CallToolResult, error)) {
	return ctx, func(*mcp.CallToolResult, error) {}
}

// Each run that begins ends once for the tracer, with what it has come to: also one whose
// actor dies, and one that another has the ID of.
func TestTracerOfRuns(t *testing.T) {
	tests := []struct {
		name string
		end  func(t *testing.T, rt *agent.Runtime, run *agent.Run, gate *llmtest.Gate)
		want string
	}{
		{"finished", func(_ *testing.T, _ *agent.Runtime, _ *agent.Run, gate *llmtest.Gate) { gate.Open() }, "ends r stop <nil>"},
		{"cancelled", func(_ *testing.T, _ *agent.Runtime, run *agent.Run, _ *llmtest.Gate) { run.Cancel(errTest) }, "ends r cancelled "},
		{"killed", func(_ *testing.T, _ *agent.Runtime, run *agent.Run, _ *llmtest.Gate) { run.Actor().Stop() }, "ends r left this process does not work on the run any more"},
		{"killed with all others", func(_ *testing.T, rt *agent.Runtime, _ *agent.Run, _ *llmtest.Gate) { rt.Poison() }, "ends r left this process does not work on the run any more"},
		{"closed", func(t *testing.T, rt *agent.Runtime, _ *agent.Run, _ *llmtest.Gate) {
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		}, "ends r waiting "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate, tr := llmtest.NewGate(), new(tracer)
				defer gate.Open()
				rt := open(t, &agent.Options{Store: memory(), Tracer: tr, Model: llmtest.Script(llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok")))})
				run := start(t, rt, "r")
				<-gate.Reached()
				synctest.Wait()
				tt.end(t, rt, run, gate)
				_, _ = run.Wait(t.Context())
				synctest.Wait()
				if got := tr.took(); len(got) != 2 || got[0] != "begins r" || !strings.HasPrefix(got[1], tt.want) {
					t.Errorf("the tracer was told %q, want the end %q", got, tt.want)
				}
			})
		})
	}
}

// A run that can not begin, as another one has its ID, has no result.
func TestTracerOfNoRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, tr := memory(), new(tracer)
		if _, err := start(t, open(t, &agent.Options{Store: s, Model: llmtest.Script(llmtest.Say("ok"))}), "r").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		rt := open(t, &agent.Options{Store: s, Tracer: tr, Model: llmtest.Script()})
		if _, err := rt.Start(t.Context(), "something else", &agent.RunOptions{ID: "r"}); !errors.Is(err, agent.ErrRunExists) {
			t.Fatalf("Start: got %v, want %v", err, agent.ErrRunExists)
		}
		synctest.Wait()
		if got := tr.took(); len(got) != 2 || !strings.HasPrefix(got[1], "ends r store: ") {
			t.Errorf("the tracer was told %q, want a beginning and an end without a result", got)
		}
	})
}

// A tracer that panics harms no run, and not the runtime (ROB-1).
func TestTracerPanics(t *testing.T) {
	for _, where := range []string{"begins", "ends"} {
		t.Run(where, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := llmtest.NewGate()
				rt := open(t, &agent.Options{Store: memory(), Tracer: &tracer{panics: where},
					Model: llmtest.Loop(llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok")))})
				runs := []*agent.Run{start(t, rt, "a"), start(t, rt, "b")}
				gate.Open()
				for _, run := range runs {
					if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" {
						t.Errorf("Wait: got %+v, %v", res, err)
					}
				}
				synctest.Wait()
				if n := rt.System().Census().Actors[actors.KindAgents].Failed; n != 0 {
					t.Errorf("%d actors have failed", n)
				}
			})
		})
	}
}
