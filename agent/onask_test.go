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
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// needing opens a runtime whose model calls a tool that needs approval, and then ends.
func needing(t *testing.T, o *agent.Options) *agent.Runtime {
	t.Helper()
	o.Model = llmtest.Loop(call("double", `{"n":2}`), llmtest.Say("ok"))
	o.Tools = []agent.Tool{agent.NeedsApproval(double)}
	return open(t, o)
}

// What the function says counts, and what it leaves open others can answer.
func TestOnAsk(t *testing.T) {
	leave := func(context.Context, agent.Ask) (agent.Decision, error) { return agent.Decision{}, nil }
	tests := []struct {
		name  string
		onAsk agent.AskFunc
		want  string // the result of the call
	}{
		{"accepted", func(_ context.Context, ask agent.Ask) (agent.Decision, error) {
			if ask.Kind != agent.KindTool || ask.Tool != "double" || string(ask.Arguments) != `{"n":2}` || !slices.Equal(ask.Path, []string{"agent"}) {
				return agent.Decline("the question is wrong"), nil
			}
			return agent.Accept(), nil
		}, "4"},
		{"declined", func(context.Context, agent.Ask) (agent.Decision, error) { return agent.Decline("not today"), nil }, "not today"},
		{"answered by itself", func(ctx context.Context, ask agent.Ask) (agent.Decision, error) {
			return agent.Decline("too late"), ask.Answer(ctx, agent.Accept())
		}, "4"},
		{"left", leave, "no answer came in time"},
		{"an error", func(context.Context, agent.Ask) (agent.Decision, error) { return agent.Accept(), errTest }, "no answer came in time"},
		{"a panic", func(context.Context, agent.Ask) (agent.Decision, error) { panic("for the test") }, "no answer came in time"},
	}
	for _, tt := range tests {
		for _, ofRun := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					o, ro := &agent.Options{OnAsk: tt.onAsk}, &agent.RunOptions{}
					if ofRun { // in place of the runtime's
						o.OnAsk, ro.OnAsk = leave, tt.onAsk
					}
					run, err := needing(t, o).Start(t.Context(), "go", ro)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := run.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
					var got string
					for ev := range run.Events(t.Context()) {
						if res, ok := ev.(agent.ToolResult); ok {
							got = res.Result.Content.Text()
						}
					}
					if !strings.Contains(got, tt.want) {
						t.Errorf("the call: got %q, want %q in it", got, tt.want)
					}
				})
			})
		}
	}
}

// The function's context ends with the question: when it is answered elsewhere, has
// expired, its run is cancelled or suspended, or the runtime is closed (ROB-1).
func TestOnAskEnds(t *testing.T) {
	tests := map[string]func(t *testing.T, rt *agent.Runtime, run *agent.Run, ask agent.Ask){
		"answered": func(t *testing.T, _ *agent.Runtime, _ *agent.Run, ask agent.Ask) {
			if err := ask.Answer(t.Context(), agent.Accept()); err != nil {
				t.Error(err)
			}
		},
		"expired":   func(*testing.T, *agent.Runtime, *agent.Run, agent.Ask) { time.Sleep(time.Hour) }, // virtual
		"cancelled": func(_ *testing.T, _ *agent.Runtime, run *agent.Run, _ agent.Ask) { run.Cancel(errTest) },
		"suspended": func(t *testing.T, _ *agent.Runtime, run *agent.Run, _ agent.Ask) {
			if err := run.Suspend(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"closed": func(t *testing.T, rt *agent.Runtime, _ *agent.Run, _ agent.Ask) {
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		},
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				asked, ended := make(chan agent.Ask, 1), make(chan error, 1)
				rt := needing(t, &agent.Options{OnAsk: func(ctx context.Context, ask agent.Ask) (agent.Decision, error) {
					asked <- ask
					<-ctx.Done()
					ended <- context.Cause(ctx)
					return agent.Accept(), nil
				}})
				run := start(t, rt, "r")
				ask := <-asked
				synctest.Wait()
				end(t, rt, run, ask)
				if err := <-ended; err == nil {
					t.Error("the context has ended without a cause")
				}
			})
		})
	}
}

// Questions of a sub-agent go to the function of the run above it, with the path of who
// asks, and once.
func TestOnAskOfSubAgents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var paths []string
		rt := open(t, &agent.Options{Model: llmtest.Script(call("double", `{"n":1}`), llmtest.Say("two"))})
		sub, err := rt.Agent("sub", &agent.Config{Tools: []agent.Tool{agent.NeedsApproval(double)}})
		if err != nil {
			t.Fatal(err)
		}
		boss, err := rt.Agent("boss", &agent.Config{Tools: []agent.Tool{sub.AsTool("sub", "")},
			Model: llmtest.Script(call("sub", `{"prompt":"x"}`), llmtest.Say("ok"))})
		if err != nil {
			t.Fatal(err)
		}
		_, err = boss.Run(t.Context(), "go", &agent.RunOptions{OnAsk: func(_ context.Context, ask agent.Ask) (agent.Decision, error) {
			paths = append(paths, strings.Join(ask.Path, " › "))
			return agent.Accept(), nil
		}})
		if err != nil || !slices.Equal(paths, []string{"boss › sub"}) {
			t.Errorf("got the questions of %q and %v, want one of boss › sub", paths, err)
		}
	})
}

// RunInto holds the model to the schema of the type.
func TestRunInto(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Say(`{"n":"two"}`), llmtest.Say(`{"n":2}`), llmtest.Fail(errTest))
		rt := open(t, &agent.Options{Model: model})
		a, err := rt.Agent("a", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, res, err := agent.RunInto[in](t.Context(), a, "go", nil)
		if err != nil || got.N != 2 || res.Steps != 2 {
			t.Errorf("RunInto: got %+v, %+v, %v", got, res, err)
		}
		if _, res, err := agent.RunInto[in](t.Context(), a, "go", nil); !errors.Is(err, errTest) || res == nil {
			t.Errorf("RunInto of a run that fails: got %+v, %v, want the error and a result", res, err)
		}
		if _, res, err := agent.RunInto[func()](t.Context(), a, "go", nil); err == nil || res != nil {
			t.Errorf("RunInto of a function: got %+v, %v, want an error", res, err)
		}
	})
}
