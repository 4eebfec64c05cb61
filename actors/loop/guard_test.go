package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// acted are the events of guards in the journal, in short.
func (b *bench) acted() []string {
	var out []string
	for _, e := range b.events() {
		if g, ok := e.Body.(*runlog.GuardActed); ok {
			out = append(out, strings.TrimSpace(g.Guard+" "+string(g.Point)+" "+g.Action+" "+g.Text))
		}
	}
	return out
}

// TestGuards: what each point can do, what the model and the journal see of it.
func TestGuards(t *testing.T) {
	refuseSecret := func(text string) guard.Result {
		if strings.Contains(text, "secret") {
			return guard.Refused("no secrets please")
		}
		return guard.Result{}
	}
	tests := []struct {
		name    string
		guards  []guard.Guard
		turns   []llmtest.Turn
		text    string // of the answer
		results []string
		acted   []string
		check   func(t *testing.T, m *llmtest.Model, out loop.Outcome)
	}{
		{"before model changes", []guard.Guard{{Name: "g", BeforeModel: func(_ context.Context, g *guard.Turn) guard.Result {
			g.Request.System += "Be brief."
			g.Request.Messages[0] = llm.User("changed")
			return guard.Changed("brevity")
		}}}, []llmtest.Turn{llmtest.Say("ok")}, "ok", nil, []string{"g before model changed brevity"},
			func(t *testing.T, m *llmtest.Model, _ loop.Outcome) {
				if req := m.Requests()[0]; req.System != "Be brief." || req.Messages[0].Content.Text() != "changed" {
					t.Errorf("request: got %+v", req)
				}
			}},
		{"a change that is not said does not count", []guard.Guard{{BeforeModel: func(_ context.Context, g *guard.Turn) guard.Result {
			g.Request.System, g.Request.Messages[0] = "changed", llm.User("changed")
			return guard.Result{}
		}, AfterModel: func(_ context.Context, g *guard.Reply) guard.Result {
			g.Response.Content[0] = mcp.Text("changed")
			return guard.Result{}
		}, Final: func(_ context.Context, g *guard.Answer) guard.Result {
			g.Text = "changed"
			return guard.Result{}
		}}}, []llmtest.Turn{llmtest.Say("ok")}, "ok", nil, nil,
			func(t *testing.T, m *llmtest.Model, _ loop.Outcome) {
				if req := m.Requests()[0]; req.System != "" || req.Messages[0].Content.Text() != "go" {
					t.Errorf("request: got %+v", req)
				}
			}},
		{"before model refuses", []guard.Guard{{Name: "g", BeforeModel: func(context.Context, *guard.Turn) guard.Result {
			return guard.Refused("I may not talk about this.")
		}}}, nil, "I may not talk about this.", nil, []string{"g before model refused I may not talk about this."},
			func(t *testing.T, m *llmtest.Model, out loop.Outcome) {
				if len(m.Requests()) != 0 || out.Stop != runlog.StopGuard || out.State != store.Finished || out.Steps != 0 {
					t.Errorf("%d requests, outcome %+v", len(m.Requests()), out)
				}
			}},
		{"after model changes", []guard.Guard{{Name: "g", AfterModel: func(_ context.Context, g *guard.Reply) guard.Result {
			g.Response.Content[0] = mcp.Text(strings.ReplaceAll(g.Response.Text(), "4711", "****"))
			return guard.Changed("masked")
		}}}, []llmtest.Turn{llmtest.Say("it is 4711").Usage(5, 7)}, "it is ****", nil, []string{"g after model changed masked"},
			func(t *testing.T, _ *llmtest.Model, out loop.Outcome) {
				if out.Usage.Input != 5 || out.Usage.Output != 7 {
					t.Errorf("usage: got %+v", out.Usage)
				}
			}},
		{"after model refuses an answer", []guard.Guard{{Name: "g", AfterModel: func(_ context.Context, g *guard.Reply) guard.Result {
			return refuseSecret(g.Response.Text())
		}}}, []llmtest.Turn{llmtest.Say("the secret"), llmtest.Say("fine")}, "fine", nil, []string{"g after model refused no secrets please"},
			func(t *testing.T, m *llmtest.Model, _ loop.Outcome) {
				last := m.Requests()[1].Messages
				if got := last[1].Content.Text() + "|" + last[2].Content.Text(); got != "[withheld by a guard]|no secrets please" {
					t.Errorf("the model saw %q", got)
				}
			}},
		{"after model refuses calls", []guard.Guard{{Name: "g", AfterModel: func(_ context.Context, g *guard.Reply) guard.Result {
			if len(g.Response.Calls()) > 1 {
				return guard.Refused("one at a time")
			}
			return guard.Result{}
		}}}, []llmtest.Turn{llmtest.Calls(llmtest.Call("echo", `{"n":1}`), llmtest.Call("echo", `{"n":2}`)), llmtest.Say("ok")}, "ok",
			[]string{"error: not called: one at a time", "error: not called: one at a time"}, []string{"g after model refused one at a time"}, nil},
		{"before tool changes", []guard.Guard{{Name: "g", BeforeTool: func(_ context.Context, g *guard.Call) guard.Result {
			g.Arguments = json.RawMessage(`{"n":42}`)
			return guard.Changed("the answer")
		}}}, []llmtest.Turn{llmtest.Call("echo", `{"n":1}`), llmtest.Say("ok")}, "ok", []string{`{"n":42}`}, []string{"g before tool changed the answer"}, nil},
		{"before tool refuses", []guard.Guard{{Name: "g", BeforeTool: func(_ context.Context, g *guard.Call) guard.Result {
			return guard.Refused("not " + g.Tool)
		}}}, []llmtest.Turn{llmtest.Call("echo", `{"n":1}`), llmtest.Say("ok")}, "ok", []string{"error: not called: not echo"}, []string{"g before tool refused not echo"},
			func(t *testing.T, _ *llmtest.Model, out loop.Outcome) {
				if out.ToolCalls != 0 {
					t.Errorf("calls: got %d", out.ToolCalls)
				}
			}},
		{"after tool changes", []guard.Guard{{Name: "g", AfterTool: func(_ context.Context, g *guard.Return) guard.Result {
			g.Result.Content[0] = mcp.Text("<" + g.Result.Content.Text() + ">")
			return guard.Changed("")
		}}}, []llmtest.Turn{llmtest.Call("echo", `{"n":1}`), llmtest.Say("ok")}, "ok", []string{`<{"n":1}>`}, []string{"g after tool changed"}, nil},
		{"after tool sees errors, and refuses", []guard.Guard{{Name: "g", AfterTool: func(_ context.Context, g *guard.Return) guard.Result {
			return refuseSecret(g.Result.Content.Text())
		}}}, []llmtest.Turn{llmtest.Call("fails", nil), llmtest.Say("ok")}, "ok", []string{"error: no secrets please"}, []string{"g after tool refused no secrets please"}, nil},
		{"final changes", []guard.Guard{{Name: "g", Final: func(_ context.Context, g *guard.Answer) guard.Result {
			g.Text = strings.ToUpper(g.Text)
			return guard.Changed("")
		}}}, []llmtest.Turn{llmtest.Say("ok")}, "OK", nil, []string{"g final changed"}, nil},
		{"final refuses", []guard.Guard{{Name: "g", Final: func(_ context.Context, g *guard.Answer) guard.Result {
			return refuseSecret(g.Text)
		}}}, []llmtest.Turn{llmtest.Say("secret"), llmtest.Say("ok")}, "ok", nil, []string{"g final refused no secrets please"}, nil},
		{"a chain", []guard.Guard{
			{Name: "a", Final: func(_ context.Context, g *guard.Answer) guard.Result { g.Text += "a"; return guard.Changed("1") }},
			{Name: "none"},
			{Name: "b", Final: func(_ context.Context, g *guard.Answer) guard.Result { g.Text += "b"; return guard.Changed("2") }},
		}, []llmtest.Turn{llmtest.Say("ok")}, "okab", nil, []string{"a final changed 1", "b final changed 2"}, nil},
	}
	fails := tool("fails", func(context.Context, *loop.Call) (string, error) { return "", errors.New("the secret of the tool") })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(tt.turns...)
				cfg := b.config(model, tool("echo", echo), fails)
				cfg.Guards = tt.guards
				out := b.finish(b.start(cfg))
				if out.Err != nil || out.Text != tt.text {
					t.Fatalf("outcome: %+v", out)
				}
				if tt.results != nil && !slices.Equal(results(model.Requests()[1]), tt.results) {
					t.Errorf("results: got %q, want %q", results(model.Requests()[1]), tt.results)
				}
				if got := b.acted(); !slices.Equal(got, tt.acted) {
					t.Errorf("journal: got %q, want %q", got, tt.acted)
				}
				if tt.check != nil {
					tt.check(t, model, out)
				}
			})
		})
	}
}

// TestGuardsStop: a stop, a panic, and a change that is not valid end the run at every
// point, and what was under way has an outcome.
func TestGuardsStop(t *testing.T) {
	no := guard.Stopped("enough")
	at := func(point string, res guard.Result) guard.Guard {
		g := guard.Guard{Name: "g"}
		switch point {
		case "before model":
			g.BeforeModel = func(_ context.Context, t *guard.Turn) guard.Result { t.Request = nil; return res }
		case "after model":
			g.AfterModel = func(_ context.Context, t *guard.Reply) guard.Result { t.Response = nil; return res }
		case "before tool":
			g.BeforeTool = func(_ context.Context, t *guard.Call) guard.Result {
				t.Arguments = json.RawMessage("[]")
				return res
			}
		case "after tool":
			g.AfterTool = func(_ context.Context, t *guard.Return) guard.Result { t.Result = nil; return res }
		default:
			g.Final = func(_ context.Context, t *guard.Answer) guard.Result { t.Text = "not JSON"; return res }
		}
		return g
	}
	for _, point := range []string{"before model", "after model", "before tool", "after tool", "final"} {
		for name, tt := range map[string]struct {
			guard guard.Guard
			want  string
		}{
			"stops":       {at(point, no), "enough"},
			"bad changes": {at(point, guard.Changed("")), "its change is not valid"},
			"panics": {guard.Guard{Name: "g",
				BeforeModel: func(context.Context, *guard.Turn) guard.Result { panic("secret") },
				AfterModel:  func(context.Context, *guard.Reply) guard.Result { panic("secret") },
				BeforeTool:  func(context.Context, *guard.Call) guard.Result { panic("secret") },
				AfterTool:   func(context.Context, *guard.Return) guard.Result { panic("secret") },
				Final:       func(context.Context, *guard.Answer) guard.Result { panic("secret") }}, "it panicked"},
		} {
			t.Run(point+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bench) {
					one := tt.guard
					if name == "panics" { // at this point only
						all := one
						one = guard.Guard{Name: "g"}
						switch point {
						case "before model":
							one.BeforeModel = all.BeforeModel
						case "after model":
							one.AfterModel = all.AfterModel
						case "before tool":
							one.BeforeTool = all.BeforeTool
						case "after tool":
							one.AfterTool = all.AfterTool
						default:
							one.Final = all.Final
						}
					}
					cfg := b.config(llmtest.Script(llmtest.Call("echo", `{"n":1}`), llmtest.Say("{}")), tool("echo", echo))
					cfg.Guards = []guard.Guard{one}
					cfg.Check = func(text string) (json.RawMessage, error) {
						if text != "{}" {
							return nil, errors.New("not JSON")
						}
						return json.RawMessage(text), nil
					}
					out := b.finish(b.start(cfg))
					var stop *guard.Error
					if !errors.As(out.Err, &stop) || out.State != store.Failed || stop.Guard != "g" || stop.Point != point || !strings.Contains(stop.Reason, tt.want) {
						t.Fatalf("outcome: %+v", out)
					}
					if strings.Contains(out.Err.Error(), "secret") {
						t.Errorf("the panic's text is in %q", out.Err)
					}
					if got := b.acted(); len(got) != 1 || !strings.HasPrefix(got[0], "g "+point+" stopped") {
						t.Errorf("journal: got %q", got)
					}
					if point == "after tool" && !slices.Contains(b.types(), store.ToolResult) {
						t.Errorf("the call that was made has no result: %q", b.types())
					}
				})
			})
		}
	}
}

// TestGuardsRefuseABoundedNumberOfTimes: a model that does not heed a guard does not go
// on for ever.
func TestGuardsRefuseABoundedNumberOfTimes(t *testing.T) {
	refuse := guard.Refused("no")
	for name, g := range map[string]guard.Guard{
		"final":       {Name: "g", Final: func(context.Context, *guard.Answer) guard.Result { return refuse }},
		"after model": {Name: "g", AfterModel: func(context.Context, *guard.Reply) guard.Result { return refuse }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(llmtest.Loop(llmtest.Say("x")))
				cfg.Guards = []guard.Guard{g}
				out := b.finish(b.start(cfg))
				var stop *guard.Error
				if !errors.As(out.Err, &stop) || stop.Guard != "g" || out.Steps != 6 {
					t.Errorf("outcome: %+v", out)
				}
			})
		})
	}
}

// TestGuardsSeeTextFirst: nothing is streamed that a guard has not seen.
func TestGuardsSeeTextFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Say("the ", "secret"), llmtest.Say("fine")))
		cfg.Guards = []guard.Guard{{AfterModel: func(_ context.Context, g *guard.Reply) guard.Result {
			if g.Turn == 1 {
				return guard.Refused("no")
			}
			return guard.Result{}
		}}}
		if out := b.finish(b.start(cfg)); out.Text != "fine" {
			t.Errorf("outcome: %+v", out)
		}
		if got := b.sink.text.String(); got != "" {
			t.Errorf("streamed: %q", got)
		}
		for _, e := range b.events() {
			if m, ok := e.Body.(*runlog.ModelResult); ok && strings.Contains(m.Message.Content.Text(), "secret") {
				t.Errorf("the journal has %q", m.Message.Content.Text())
			}
		}
	})
}

// TestGateSeesWhatGuardsLeave: who allows a call decides on the arguments that are sent.
func TestGateSeesWhatGuardsLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Call("echo", `{"n":1}`), llmtest.Say("ok")), tool("echo", echo))
		cfg.Guards = []guard.Guard{{BeforeTool: func(_ context.Context, g *guard.Call) guard.Result {
			g.Arguments = json.RawMessage(`{"n":2}`)
			return guard.Changed("")
		}}}
		var seen string
		cfg.Gate = func(_ context.Context, _ *loop.Tool, args json.RawMessage) guard.Verdict {
			seen = string(args)
			return guard.Ask
		}
		run := b.start(cfg)
		ask := <-b.sink.asked
		var p runlog.ApprovalPayload
		if err := json.Unmarshal(ask.Payload, &p); err != nil || string(p.Arguments) != `{"n":2}` || seen != `{"n":2}` {
			t.Errorf("the human sees %s, the gate %s, %v", p.Arguments, seen, err)
		}
		if _, err := run.Answer(t.Context(), ask.ID, store.Decision{Status: store.AskAccepted}); err != nil {
			t.Fatal(err)
		}
		b.finish(run)
	})
}

// TestGuardHangs: a cancel ends a run whose guard does not come back.
func TestGuardHangs(t *testing.T) {
	hang := func(ctx context.Context) guard.Result { <-ctx.Done(); return guard.Result{} }
	for name, g := range map[string]guard.Guard{
		"before model": {BeforeModel: func(ctx context.Context, _ *guard.Turn) guard.Result { return hang(ctx) }},
		"after model":  {AfterModel: func(ctx context.Context, _ *guard.Reply) guard.Result { return hang(ctx) }},
		"before tool":  {BeforeTool: func(ctx context.Context, _ *guard.Call) guard.Result { return hang(ctx) }},
		"after tool":   {AfterTool: func(ctx context.Context, _ *guard.Return) guard.Result { return hang(ctx) }},
		"final":        {Final: func(ctx context.Context, _ *guard.Answer) guard.Result { return hang(ctx) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(llmtest.Script(llmtest.Call("echo", nil), llmtest.Say("ok")), tool("echo", echo))
				cfg.Guards = []guard.Guard{g}
				run := b.start(cfg)
				time.Sleep(time.Second) // virtual: it hangs by now
				run.Cancel(errors.New("enough"))
				if out := b.finish(run); out.State != store.Cancelled {
					t.Errorf("outcome: %+v", out)
				}
			})
		})
	}
}

// TestGuardsOfTheLastTurn: a run that wraps up is guarded to its end.
func TestGuardsOfTheLastTurn(t *testing.T) {
	tests := []struct {
		name  string
		guard guard.Guard
		text  string
		asked int
	}{
		{"changed", guard.Guard{BeforeModel: func(_ context.Context, g *guard.Turn) guard.Result {
			g.Request.System = "guarded"
			return guard.Changed("")
		}, Final: func(_ context.Context, g *guard.Answer) guard.Result {
			g.Text += "!"
			return guard.Changed("")
		}}, "so far!", 2},
		{"refused before", guard.Guard{BeforeModel: func(_ context.Context, g *guard.Turn) guard.Result {
			if g.Request.ToolChoice == llm.ToolChoiceNone { // the last one
				return guard.Refused("no")
			}
			return guard.Result{}
		}}, "no", 1},
		{"refused after", guard.Guard{Final: func(context.Context, *guard.Answer) guard.Result { return guard.Refused("no") }}, "", 2},
		{"stopped", guard.Guard{Final: func(context.Context, *guard.Answer) guard.Result { return guard.Stopped("no") }}, "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(llmtest.Call("echo", `{"n":1}`), llmtest.Say("so far"))
				cfg := b.config(model, tool("echo", echo))
				cfg.Limits = loop.Limits{Steps: 2, OnLimit: runlog.LimitWrapUp}
				cfg.Guards = []guard.Guard{tt.guard}
				out := b.finish(b.start(cfg))
				if out.State != store.Limited || out.Text != tt.text || len(model.Requests()) != tt.asked {
					t.Errorf("asked %d times, outcome %+v", len(model.Requests()), out)
				}
				if first := llm.EstimateTokens(model.Requests()[0]); tt.asked == 1 && out.Usage.Input != first {
					t.Errorf("the input: got %d tokens, want the %d of the one turn that was asked", out.Usage.Input, first)
				}
				for i, req := range model.Requests() {
					if want := tt.name == "changed"; (req.System == "guarded") != want {
						t.Errorf("request %d: system %q", i, req.System)
					}
				}
			})
		})
	}
}

// TestGuardsBoundTheOutput: a guard sees the bound of a turn's output, and what it makes
// of it is what is reserved and asked for.
func TestGuardsBoundTheOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Say("ok"))
		cfg := b.config(model)
		cfg.MaxTokens = 500
		cfg.Guards = []guard.Guard{{BeforeModel: func(_ context.Context, g *guard.Turn) guard.Result {
			if g.Request.MaxTokens != 500 {
				t.Errorf("the guard sees a bound of %d", g.Request.MaxTokens)
			}
			g.Request.MaxTokens = 50
			return guard.Changed("")
		}}}
		b.finish(b.start(cfg))
		req := model.Requests()[0]
		for _, e := range b.events() {
			if intent, ok := e.Body.(*runlog.ModelIntent); ok && (req.MaxTokens != 50 || intent.Held.Tokens != llm.EstimateTokens(req)+50) {
				t.Errorf("asked for %d tokens, held %+v", req.MaxTokens, intent.Held)
			}
		}
	})
}

// TestGuardsOfTheLastTurnSpendNoMore: what a guard adds to the last turn fits what was
// held for it, or the turn is not asked. It stays one that allows no calls.
func TestGuardsOfTheLastTurnSpendNoMore(t *testing.T) {
	tests := []struct {
		name  string
		more  int // bytes
		asked bool
	}{
		{"little", 40, true},
		{"too much", 40_000, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := caller(60)
				cfg := b.config(model, tool("echo", echo))
				cfg.Limits = loop.Limits{Tokens: 1500, OnLimit: runlog.LimitWrapUp}
				cfg.Guards = []guard.Guard{{Name: "g", BeforeModel: func(_ context.Context, g *guard.Turn) guard.Result {
					if g.Request.ToolChoice != llm.ToolChoiceNone {
						return guard.Result{}
					}
					g.Request.System = strings.Repeat("x", tt.more)
					g.Request.MaxTokens, g.Request.ToolChoice = 1_000_000, llm.ToolChoiceAuto
					g.Request.Tools = []llm.Tool{{Name: "echo"}}
					return guard.Changed("")
				}}}
				out := b.finish(b.start(cfg))
				reqs := model.Requests()
				last := reqs[len(reqs)-1]
				if asked := last.System != ""; asked != tt.asked || out.State != store.Limited || (out.Text == "what I have") != tt.asked {
					t.Fatalf("outcome: %+v", out)
				}
				if out.Usage.Over != 0 || out.Spent.Tokens > 1500 {
					t.Errorf("spent %+v, usage %+v", out.Spent, out.Usage)
				}
				if tt.asked && (last.ToolChoice != llm.ToolChoiceNone || last.MaxTokens > 1024) {
					t.Errorf("the last turn: %+v", last)
				}
			})
		})
	}
}

// TestGuardsHeedTheSchema: arguments that a guard has made of the model's must fit the
// tool as those do.
func TestGuardsHeedTheSchema(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		picky := tool("echo", echo)
		picky.Validate = func(args json.RawMessage) error {
			if string(args) != `{"n":1}` {
				return errors.New("n is not 1")
			}
			return nil
		}
		cfg := b.config(llmtest.Script(llmtest.Call("echo", `{"n":1}`)), picky)
		cfg.Guards = []guard.Guard{{Name: "g", BeforeTool: func(_ context.Context, g *guard.Call) guard.Result {
			g.Arguments = json.RawMessage(`{"n":2}`)
			return guard.Changed("")
		}}}
		out := b.finish(b.start(cfg))
		if stop, ok := errors.AsType[*guard.Error](out.Err); !ok || !strings.Contains(stop.Reason, "n is not 1") || out.ToolCalls != 0 {
			t.Errorf("outcome: %+v", out)
		}
	})
}

// attaching is a model whose provider attaches something to each answer and each call.
type attaching struct{ *llmtest.Model }

func (m attaching) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	attach := func(data string) []llm.ProviderState {
		return []llm.ProviderState{{Provider: "p", Kind: "k", Data: json.RawMessage(data)}}
	}
	return func(yield func(llm.Event, error) bool) {
		for ev, err := range m.Model.Stream(ctx, req) {
			switch e := ev.(type) {
			case llm.ToolCall:
				e.State = attach(`"signature"`)
				ev = e
			case llm.Finish:
				e.State = attach(`"the secret"`)
				ev = e
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// What a provider has attached to a withheld answer may be its text in other words: only what belongs to its calls stays.
func TestGuardWithholdsState(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		script := llmtest.Script(llmtest.Calls(llmtest.Say("the secret"), llmtest.Call("echo", `{}`)), llmtest.Say("fine"))
		cfg := b.config(attaching{script}, tool("echo", echo))
		cfg.Guards = []guard.Guard{{Name: "g", AfterModel: func(_ context.Context, g *guard.Reply) guard.Result {
			if strings.Contains(g.Response.Text(), "secret") {
				return guard.Refused("no secrets please")
			}
			return guard.Result{}
		}}}
		if out := b.finish(b.start(cfg)); out.Err != nil {
			t.Fatalf("outcome: %+v", out)
		}
		if state := script.Requests()[1].Messages[1].State; len(state) != 1 || state[0].Call == "" || string(state[0].Data) != `"signature"` {
			t.Errorf("state that was given back: got %+v", state)
		}
	})
}
