package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// acted are the events of guards in the journal, in short.
func (b *bench) acted() []string {
	var out []string
	for _, e := range b.events() {
		if g, ok := e.Body.(*loop.GuardActed); ok {
			out = append(out, strings.TrimSpace(g.Guard+" "+string(g.Point)+" "+g.Action+" "+g.Text))
		}
	}
	return out
}

// TestGuards: what each point can do, what the model and the journal see of it.
func TestGuards(t *testing.T) {
	refuseSecret := func(text string) loop.GuardResult {
		if strings.Contains(text, "secret") {
			return loop.Refused("no secrets please")
		}
		return loop.GuardResult{}
	}
	tests := []struct {
		name    string
		guards  []loop.Guard
		turns   []llmtest.Turn
		text    string // of the answer
		results []string
		acted   []string
		check   func(t *testing.T, m *llmtest.Model, out loop.Outcome)
	}{
		{"before model changes", []loop.Guard{{Name: "g", BeforeModel: func(_ context.Context, g *loop.GuardTurn) loop.GuardResult {
			g.Request.System += "Be brief."
			g.Request.Messages[0] = llm.User("changed")
			return loop.Changed("brevity")
		}}}, []llmtest.Turn{llmtest.Say("ok")}, "ok", nil, []string{"g before model changed brevity"},
			func(t *testing.T, m *llmtest.Model, _ loop.Outcome) {
				if req := m.Requests()[0]; req.System != "Be brief." || req.Messages[0].Content.Text() != "changed" {
					t.Errorf("request: got %+v", req)
				}
			}},
		{"a change that is not said does not count", []loop.Guard{{BeforeModel: func(_ context.Context, g *loop.GuardTurn) loop.GuardResult {
			g.Request.System, g.Request.Messages[0] = "changed", llm.User("changed")
			return loop.GuardResult{}
		}, AfterModel: func(_ context.Context, g *loop.GuardReply) loop.GuardResult {
			g.Response.Content[0] = mcp.Text("changed")
			return loop.GuardResult{}
		}, Final: func(_ context.Context, g *loop.GuardAnswer) loop.GuardResult {
			g.Text = "changed"
			return loop.GuardResult{}
		}}}, []llmtest.Turn{llmtest.Say("ok")}, "ok", nil, nil,
			func(t *testing.T, m *llmtest.Model, _ loop.Outcome) {
				if req := m.Requests()[0]; req.System != "" || req.Messages[0].Content.Text() != "go" {
					t.Errorf("request: got %+v", req)
				}
			}},
		{"before model refuses", []loop.Guard{{Name: "g", BeforeModel: func(context.Context, *loop.GuardTurn) loop.GuardResult {
			return loop.Refused("I may not talk about this.")
		}}}, nil, "I may not talk about this.", nil, []string{"g before model refused I may not talk about this."},
			func(t *testing.T, m *llmtest.Model, out loop.Outcome) {
				if len(m.Requests()) != 0 || out.Stop != loop.StopGuard || out.State != store.Finished || out.Steps != 0 {
					t.Errorf("%d requests, outcome %+v", len(m.Requests()), out)
				}
			}},
		{"after model changes", []loop.Guard{{Name: "g", AfterModel: func(_ context.Context, g *loop.GuardReply) loop.GuardResult {
			g.Response.Content[0] = mcp.Text(strings.ReplaceAll(g.Response.Text(), "4711", "****"))
			return loop.Changed("masked")
		}}}, []llmtest.Turn{llmtest.Say("it is 4711").Usage(5, 7)}, "it is ****", nil, []string{"g after model changed masked"},
			func(t *testing.T, _ *llmtest.Model, out loop.Outcome) {
				if out.Usage.Input != 5 || out.Usage.Output != 7 {
					t.Errorf("usage: got %+v", out.Usage)
				}
			}},
		{"after model refuses an answer", []loop.Guard{{Name: "g", AfterModel: func(_ context.Context, g *loop.GuardReply) loop.GuardResult {
			return refuseSecret(g.Response.Text())
		}}}, []llmtest.Turn{llmtest.Say("the secret"), llmtest.Say("fine")}, "fine", nil, []string{"g after model refused no secrets please"},
			func(t *testing.T, m *llmtest.Model, _ loop.Outcome) {
				last := m.Requests()[1].Messages
				if got := last[1].Content.Text() + "|" + last[2].Content.Text(); got != "[withheld by a guard]|no secrets please" {
					t.Errorf("the model saw %q", got)
				}
			}},
		{"after model refuses calls", []loop.Guard{{Name: "g", AfterModel: func(_ context.Context, g *loop.GuardReply) loop.GuardResult {
			if len(g.Response.Calls()) > 1 {
				return loop.Refused("one at a time")
			}
			return loop.GuardResult{}
		}}}, []llmtest.Turn{llmtest.Calls(llmtest.Call("echo", `{"n":1}`), llmtest.Call("echo", `{"n":2}`)), llmtest.Say("ok")}, "ok",
			[]string{"error: not called: one at a time", "error: not called: one at a time"}, []string{"g after model refused one at a time"}, nil},
		{"before tool changes", []loop.Guard{{Name: "g", BeforeTool: func(_ context.Context, g *loop.GuardCall) loop.GuardResult {
			g.Arguments = json.RawMessage(`{"n":42}`)
			return loop.Changed("the answer")
		}}}, []llmtest.Turn{llmtest.Call("echo", `{"n":1}`), llmtest.Say("ok")}, "ok", []string{`{"n":42}`}, []string{"g before tool changed the answer"}, nil},
		{"before tool refuses", []loop.Guard{{Name: "g", BeforeTool: func(_ context.Context, g *loop.GuardCall) loop.GuardResult {
			return loop.Refused("not " + g.Tool)
		}}}, []llmtest.Turn{llmtest.Call("echo", `{"n":1}`), llmtest.Say("ok")}, "ok", []string{"error: not called: not echo"}, []string{"g before tool refused not echo"},
			func(t *testing.T, _ *llmtest.Model, out loop.Outcome) {
				if out.ToolCalls != 0 {
					t.Errorf("calls: got %d", out.ToolCalls)
				}
			}},
		{"after tool changes", []loop.Guard{{Name: "g", AfterTool: func(_ context.Context, g *loop.GuardReturn) loop.GuardResult {
			g.Result.Content[0] = mcp.Text("<" + g.Result.Content.Text() + ">")
			return loop.Changed("")
		}}}, []llmtest.Turn{llmtest.Call("echo", `{"n":1}`), llmtest.Say("ok")}, "ok", []string{`<{"n":1}>`}, []string{"g after tool changed"}, nil},
		{"after tool sees errors, and refuses", []loop.Guard{{Name: "g", AfterTool: func(_ context.Context, g *loop.GuardReturn) loop.GuardResult {
			return refuseSecret(g.Result.Content.Text())
		}}}, []llmtest.Turn{llmtest.Call("fails", nil), llmtest.Say("ok")}, "ok", []string{"error: no secrets please"}, []string{"g after tool refused no secrets please"}, nil},
		{"final changes", []loop.Guard{{Name: "g", Final: func(_ context.Context, g *loop.GuardAnswer) loop.GuardResult {
			g.Text = strings.ToUpper(g.Text)
			return loop.Changed("")
		}}}, []llmtest.Turn{llmtest.Say("ok")}, "OK", nil, []string{"g final changed"}, nil},
		{"final refuses", []loop.Guard{{Name: "g", Final: func(_ context.Context, g *loop.GuardAnswer) loop.GuardResult {
			return refuseSecret(g.Text)
		}}}, []llmtest.Turn{llmtest.Say("secret"), llmtest.Say("ok")}, "ok", nil, []string{"g final refused no secrets please"}, nil},
		{"a chain", []loop.Guard{
			{Name: "a", Final: func(_ context.Context, g *loop.GuardAnswer) loop.GuardResult { g.Text += "a"; return loop.Changed("1") }},
			{Name: "none"},
			{Name: "b", Final: func(_ context.Context, g *loop.GuardAnswer) loop.GuardResult { g.Text += "b"; return loop.Changed("2") }},
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
	no := loop.Stopped("enough")
	at := func(point loop.GuardPoint, res loop.GuardResult) loop.Guard {
		g := loop.Guard{Name: "g"}
		switch point {
		case loop.PointBeforeModel:
			g.BeforeModel = func(_ context.Context, t *loop.GuardTurn) loop.GuardResult { t.Request = nil; return res }
		case loop.PointAfterModel:
			g.AfterModel = func(_ context.Context, t *loop.GuardReply) loop.GuardResult { t.Response = nil; return res }
		case loop.PointBeforeTool:
			g.BeforeTool = func(_ context.Context, t *loop.GuardCall) loop.GuardResult {
				t.Arguments = json.RawMessage("[]")
				return res
			}
		case loop.PointAfterTool:
			g.AfterTool = func(_ context.Context, t *loop.GuardReturn) loop.GuardResult { t.Result = nil; return res }
		default:
			g.Final = func(_ context.Context, t *loop.GuardAnswer) loop.GuardResult { t.Text = "not JSON"; return res }
		}
		return g
	}
	for _, point := range []loop.GuardPoint{loop.PointBeforeModel, loop.PointAfterModel, loop.PointBeforeTool, loop.PointAfterTool, loop.PointFinal} {
		for name, tt := range map[string]struct {
			guard loop.Guard
			want  string
		}{
			"stops":       {at(point, no), "enough"},
			"bad changes": {at(point, loop.Changed("")), "its change is not valid"},
			"panics": {loop.Guard{Name: "g",
				BeforeModel: func(context.Context, *loop.GuardTurn) loop.GuardResult { panic("secret") },
				AfterModel:  func(context.Context, *loop.GuardReply) loop.GuardResult { panic("secret") },
				BeforeTool:  func(context.Context, *loop.GuardCall) loop.GuardResult { panic("secret") },
				AfterTool:   func(context.Context, *loop.GuardReturn) loop.GuardResult { panic("secret") },
				Final:       func(context.Context, *loop.GuardAnswer) loop.GuardResult { panic("secret") }}, "it panicked"},
		} {
			t.Run(string(point)+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bench) {
					guard := tt.guard
					if name == "panics" { // at this point only
						all := guard
						guard = loop.Guard{Name: "g"}
						switch point {
						case loop.PointBeforeModel:
							guard.BeforeModel = all.BeforeModel
						case loop.PointAfterModel:
							guard.AfterModel = all.AfterModel
						case loop.PointBeforeTool:
							guard.BeforeTool = all.BeforeTool
						case loop.PointAfterTool:
							guard.AfterTool = all.AfterTool
						default:
							guard.Final = all.Final
						}
					}
					cfg := b.config(llmtest.Script(llmtest.Call("echo", `{"n":1}`), llmtest.Say("{}")), tool("echo", echo))
					cfg.Guards = []loop.Guard{guard}
					cfg.Check = func(text string) (json.RawMessage, error) {
						if text != "{}" {
							return nil, errors.New("not JSON")
						}
						return json.RawMessage(text), nil
					}
					out := b.finish(b.start(cfg))
					var stop *loop.GuardError
					if !errors.As(out.Err, &stop) || out.State != store.Failed || stop.Guard != "g" || stop.Point != point || !strings.Contains(stop.Reason, tt.want) {
						t.Fatalf("outcome: %+v", out)
					}
					if strings.Contains(out.Err.Error(), "secret") {
						t.Errorf("the panic's text is in %q", out.Err)
					}
					if got := b.acted(); len(got) != 1 || !strings.HasPrefix(got[0], "g "+string(point)+" stopped") {
						t.Errorf("journal: got %q", got)
					}
					if point == loop.PointAfterTool && !slices.Contains(b.types(), store.ToolResult) {
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
	refuse := loop.Refused("no")
	for name, g := range map[string]loop.Guard{
		"final":       {Name: "g", Final: func(context.Context, *loop.GuardAnswer) loop.GuardResult { return refuse }},
		"after model": {Name: "g", AfterModel: func(context.Context, *loop.GuardReply) loop.GuardResult { return refuse }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(llmtest.Loop(llmtest.Say("x")))
				cfg.Guards = []loop.Guard{g}
				out := b.finish(b.start(cfg))
				var stop *loop.GuardError
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
		cfg.Guards = []loop.Guard{{AfterModel: func(_ context.Context, g *loop.GuardReply) loop.GuardResult {
			if g.Turn == 1 {
				return loop.Refused("no")
			}
			return loop.GuardResult{}
		}}}
		if out := b.finish(b.start(cfg)); out.Text != "fine" {
			t.Errorf("outcome: %+v", out)
		}
		if got := b.sink.text.String(); got != "" {
			t.Errorf("streamed: %q", got)
		}
		for _, e := range b.events() {
			if m, ok := e.Body.(*loop.ModelResult); ok && strings.Contains(m.Message.Content.Text(), "secret") {
				t.Errorf("the journal has %q", m.Message.Content.Text())
			}
		}
	})
}

// TestGateSeesWhatGuardsLeave: who allows a call decides on the arguments that are sent.
func TestGateSeesWhatGuardsLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Call("echo", `{"n":1}`), llmtest.Say("ok")), tool("echo", echo))
		cfg.Guards = []loop.Guard{{BeforeTool: func(_ context.Context, g *loop.GuardCall) loop.GuardResult {
			g.Arguments = json.RawMessage(`{"n":2}`)
			return loop.Changed("")
		}}}
		var seen string
		cfg.Gate = func(_ context.Context, _ *loop.Tool, args json.RawMessage) loop.Verdict {
			seen = string(args)
			return loop.Ask
		}
		run := b.start(cfg)
		ask := <-b.sink.asked
		var p loop.ApprovalPayload
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
	hang := func(ctx context.Context) loop.GuardResult { <-ctx.Done(); return loop.GuardResult{} }
	for name, g := range map[string]loop.Guard{
		"before model": {BeforeModel: func(ctx context.Context, _ *loop.GuardTurn) loop.GuardResult { return hang(ctx) }},
		"after model":  {AfterModel: func(ctx context.Context, _ *loop.GuardReply) loop.GuardResult { return hang(ctx) }},
		"before tool":  {BeforeTool: func(ctx context.Context, _ *loop.GuardCall) loop.GuardResult { return hang(ctx) }},
		"after tool":   {AfterTool: func(ctx context.Context, _ *loop.GuardReturn) loop.GuardResult { return hang(ctx) }},
		"final":        {Final: func(ctx context.Context, _ *loop.GuardAnswer) loop.GuardResult { return hang(ctx) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(llmtest.Script(llmtest.Call("echo", nil), llmtest.Say("ok")), tool("echo", echo))
				cfg.Guards = []loop.Guard{g}
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
		guard loop.Guard
		text  string
		asked int
	}{
		{"changed", loop.Guard{BeforeModel: func(_ context.Context, g *loop.GuardTurn) loop.GuardResult {
			g.Request.System = "guarded"
			return loop.Changed("")
		}, Final: func(_ context.Context, g *loop.GuardAnswer) loop.GuardResult {
			g.Text += "!"
			return loop.Changed("")
		}}, "so far!", 2},
		{"refused before", loop.Guard{BeforeModel: func(_ context.Context, g *loop.GuardTurn) loop.GuardResult {
			if len(g.Request.Tools) == 0 { // the last one
				return loop.Refused("no")
			}
			return loop.GuardResult{}
		}}, "no", 1},
		{"refused after", loop.Guard{Final: func(context.Context, *loop.GuardAnswer) loop.GuardResult { return loop.Refused("no") }}, "", 2},
		{"stopped", loop.Guard{Final: func(context.Context, *loop.GuardAnswer) loop.GuardResult { return loop.Stopped("no") }}, "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(llmtest.Call("echo", `{"n":1}`), llmtest.Say("so far"))
				cfg := b.config(model, tool("echo", echo))
				cfg.Limits = loop.Limits{Steps: 2, OnLimit: loop.LimitWrapUp}
				cfg.Guards = []loop.Guard{tt.guard}
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
		cfg.Guards = []loop.Guard{{BeforeModel: func(_ context.Context, g *loop.GuardTurn) loop.GuardResult {
			if g.Request.MaxTokens != 500 {
				t.Errorf("the guard sees a bound of %d", g.Request.MaxTokens)
			}
			g.Request.MaxTokens = 50
			return loop.Changed("")
		}}}
		b.finish(b.start(cfg))
		req := model.Requests()[0]
		for _, e := range b.events() {
			if intent, ok := e.Body.(*loop.ModelIntent); ok && (req.MaxTokens != 50 || intent.Held.Tokens != llm.EstimateTokens(req)+50) {
				t.Errorf("asked for %d tokens, held %+v", req.MaxTokens, intent.Held)
			}
		}
	})
}

// TestGuardsOfTheLastTurnSpendNoMore: what a guard adds to the last turn fits what was
// held for it, or the turn is not asked. It stays one without tools.
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
				cfg.Limits = loop.Limits{Tokens: 1500, OnLimit: loop.LimitWrapUp}
				cfg.Guards = []loop.Guard{{Name: "g", BeforeModel: func(_ context.Context, g *loop.GuardTurn) loop.GuardResult {
					if len(g.Request.Tools) > 0 {
						return loop.GuardResult{}
					}
					g.Request.System = strings.Repeat("x", tt.more)
					g.Request.MaxTokens, g.Request.ToolChoice = 1_000_000, llm.ToolChoiceAuto
					g.Request.Tools = []llm.Tool{{Name: "echo"}}
					return loop.Changed("")
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
				if tt.asked && (len(last.Tools) > 0 || last.ToolChoice != llm.ToolChoiceNone || last.MaxTokens > 1024) {
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
		cfg.Guards = []loop.Guard{{Name: "g", BeforeTool: func(_ context.Context, g *loop.GuardCall) loop.GuardResult {
			g.Arguments = json.RawMessage(`{"n":2}`)
			return loop.Changed("")
		}}}
		out := b.finish(b.start(cfg))
		if stop, ok := errors.AsType[*loop.GuardError](out.Err); !ok || !strings.Contains(stop.Reason, "n is not 1") || out.ToolCalls != 0 {
			t.Errorf("outcome: %+v", out)
		}
	})
}
