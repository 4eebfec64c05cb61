package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

func TestAnswerAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		run := b.start(b.config(llmtest.Script(llmtest.Say("Hel", "lo.").Usage(7, 3))))
		out := b.finish(run)
		if out.Err != nil || out.Text != "Hello." || out.State != store.Finished || out.Stop != "stop" || out.Steps != 1 {
			t.Errorf("outcome: %+v", out)
		}
		if out.Usage != (runlog.Usage{Input: 7, Output: 3}) {
			t.Errorf("usage: got %+v", out.Usage)
		}
		b.wantTypes("run.started tools.listed model.intent model.result run.finished")
		if got := b.sink.types(); !slices.Equal(got, b.types()) {
			t.Errorf("the sink saw %v", got)
		}
		for i, e := range b.sink.entries {
			if e.Seq != int64(i+1) {
				t.Errorf("entry %d: got seq %d", i, e.Seq)
			}
		}
		if head, err := b.store.Run(t.Context(), "r1"); err != nil || head.State != store.Finished || head.Summary != "Hello." || head.Title != "go" {
			t.Errorf("head: %+v, %v", head, err)
		}
	})
}

func TestTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(
			llmtest.Call("echo", `{"n":1}`),
			llmtest.Calls(llmtest.Call("echo", `{"n":2}`), llmtest.Call("echo", `{"n":3}`)),
			llmtest.Say("done"),
		)
		out := b.finish(b.start(b.config(model, tool("echo", echo))))
		if out.Err != nil || out.Text != "done" || out.Steps != 3 || out.ToolCalls != 3 {
			t.Errorf("outcome: %+v", out)
		}
		b.wantTypes("run.started tools.listed model.intent model.result i d r model.intent model.result i i d d r r model.intent model.result run.finished")
		if got := results(model.Requests()[2]); !slices.Equal(got, []string{`{"n":2}`, `{"n":3}`}) {
			t.Errorf("results: got %q", got)
		}
		for _, e := range b.events() {
			if i, ok := e.Body.(*runlog.ToolIntent); ok && i.Turn == 2 && string(i.Arguments) == `{"n":3}` && e.Key != "nonce-2-1" {
				t.Errorf("key: got %q", e.Key)
			}
		}
	})
}

// TestUnknownTool: a model that calls what is no tool reads the names of all where there are few, and else of the five
// nearest.
func TestUnknownTool(t *testing.T) {
	six := []string{"files__read_file", "git__log", "files__list", "mail__send", "web__fetch", "files__write_file"}
	for n, want := range map[int]string{
		0: "There are no tools",
		5: "The tools are: files__list, files__read_file, git__log, mail__send, web__fetch",
		6: "Of the 6 tools the nearest are: files__read_file, files__list, files__write_file, ",
	} {
		inBubble(t, func(t *testing.T, b *bench) {
			var list []loop.Tool
			for _, name := range six[:n] {
				list = append(list, tool(name, echo))
			}
			model := llmtest.Script(llmtest.Call("file_read", "{}"), llmtest.Say("ok"))
			b.finish(b.start(b.config(model, list...)))
			got := results(model.Requests()[1])
			if len(got) != 1 || !strings.HasPrefix(got[0], "error: there is no tool \"file_read\". "+want) || n == 6 && strings.Count(got[0], ",") != 4 {
				t.Errorf("of %d tools: got %q, want %q", n, got, want)
			}
		})
	}
}

// TestMistakesOfTheModel: whatever it asks for, it gets a result that it can act on.
func TestMistakesOfTheModel(t *testing.T) {
	strict := tool("strict", echo)
	strict.Validate = func(raw rawJSON) error { return errors.New("/n is missing") }
	boom := tool("boom", func(context.Context, *loop.Call) (string, error) { panic("secret state") })
	fails := tool("fails", func(context.Context, *loop.Call) (string, error) { return "", errors.New("no such file") })
	lost := tool("lost", func(context.Context, *loop.Call) (string, error) {
		return "", &loop.UnknownError{Err: errors.New("connection lost")}
	})
	nothing := loop.Tool{Tool: llm.Tool{Name: "nothing"}, Do: func(context.Context, *loop.Call) (*mcp.CallToolResult, error) { return nil, nil }}
	bytes := tool("bytes", func(context.Context, *loop.Call) (string, error) { return "a\xff\xfeb", nil })
	garbage := loop.Tool{Tool: llm.Tool{Name: "garbage"}, Do: func(context.Context, *loop.Call) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: rawJSON("{")}, nil
	}}
	tests := []struct {
		call, args string
		want       string // of the result
		events     string
	}{
		{"missing", "{}", "error: there is no tool \"missing\". Of the 7 tools the nearest are: nothing, ", "r"},
		{"no_thing", "{}", "error: there is no tool \"no_thing\". Of the 7 tools the nearest are: nothing, ", "r"},
		{"strict", "{}", "error: not called: the arguments do not fit the tool's schema: /n is missing", "r"},
		{"fails", "[1]", "error: not called: the arguments are not one valid JSON object", "r"},
		{"boom", "{}", "error: the tool failed: internal error", "i d r"},
		{"fails", "{}", "error: no such file", "i d r"},
		{"lost", "{}", "error: The outcome of this call is unknown, it may have taken effect: connection lost", "i d u"},
		{"bytes", "{}", "a\uFFFDb", "i d r"},
		{"garbage", "{}", "error: the tool's result cannot be written as JSON", "i d r"},
		{"nothing", "{}", "error: the tool gave no result", "i d r"},
	}
	for _, tt := range tests {
		t.Run(tt.call+tt.args, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(llmtest.Call(tt.call, tt.args), llmtest.Say("ok"))
				cfg := b.config(model, strict, boom, fails, lost, nothing, bytes, garbage)
				cfg.Unknown = runlog.OutcomeTell
				out := b.finish(b.start(cfg))
				if out.Err != nil || out.Text != "ok" {
					t.Fatalf("outcome: %+v", out)
				}
				if got := results(model.Requests()[1]); len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
					t.Errorf("result: got %q, want %q", got, tt.want)
				}
				b.wantTypes("run.started tools.listed model.intent model.result " + tt.events + " model.intent model.result run.finished")
			})
		})
	}
}

func TestParallelCallsAreBounded(t *testing.T) {
	for _, parallel := range []int{1, 3, 8} {
		t.Run(fmt.Sprint(parallel), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				var now, most atomic.Int64
				slow := tool("slow", func(context.Context, *loop.Call) (string, error) {
					if n := now.Add(1); n > most.Load() {
						most.Store(n)
					}
					time.Sleep(time.Second)
					now.Add(-1)
					return "ok", nil
				})
				var calls []llmtest.Turn
				for range 20 {
					calls = append(calls, llmtest.Call("slow", nil))
				}
				cfg := b.config(llmtest.Script(llmtest.Calls(calls...), llmtest.Say("done")), slow)
				cfg.Parallel = parallel
				if out := b.finish(b.start(cfg)); out.Err != nil || out.ToolCalls != 20 {
					t.Errorf("outcome: %+v", out)
				}
				if got := most.Load(); got != int64(parallel) {
					t.Errorf("calls at once: got %d, want %d", got, parallel)
				}
			})
		})
	}
}

// TestIntentBeforeEffect: when a tool runs, its intent and dispatch are durable (SECA-53).
func TestIntentBeforeEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		look := tool("look", func(_ context.Context, call *loop.Call) (string, error) {
			var types []string
			for _, e := range b.events() {
				if e.Key == call.Key {
					types = append(types, e.Type)
				}
			}
			return strings.Join(types, " "), nil
		})
		model := llmtest.Script(llmtest.Calls(llmtest.Call("look", nil), llmtest.Call("look", nil)), llmtest.Say("ok"))
		cfg := b.config(model, look)
		cfg.Parallel = 1
		b.finish(b.start(cfg))
		want := "tool.intent tool.dispatched"
		if got := results(model.Requests()[1]); !slices.Equal(got, []string{want, want}) {
			t.Errorf("journal seen by the tool: got %q", got)
		}
	})
}

func TestLimits(t *testing.T) {
	call := llmtest.Call("echo", nil).Usage(40, 10)
	three := llmtest.Calls(call, call, call).Usage(40, 10)
	tests := []struct {
		name   string
		limits loop.Limits
		turn   llmtest.Turn
		steps  int // turns that were asked for
		calls  int // calls that were made
		want   string
	}{
		{"steps", loop.Limits{Steps: 3}, call, 3, 3, "3 steps"},
		{"tool calls", loop.Limits{ToolCalls: 3}, call, 4, 3, "3 tool calls"},
		{"tool calls in one turn", loop.Limits{ToolCalls: 4}, three, 2, 4, "4 tool calls"},
		{"tokens", loop.Limits{Tokens: 120}, call, 2, 2, "120 tokens"},
		{"tokens for nothing", loop.Limits{Tokens: 5}, call, 0, 0, "5 tokens"},
		{"wall time", loop.Limits{Wall: 90 * time.Second}, llmtest.Join(llmtest.Slow(time.Minute), call), 2, 1, "1m30s wall time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				var made atomic.Int64
				model := llmtest.Loop(tt.turn)
				began := time.Now()
				cfg := b.config(model, tool("echo", func(context.Context, *loop.Call) (string, error) {
					made.Add(1)
					return "", nil
				}))
				cfg.Limits = tt.limits
				out := b.finish(b.start(cfg))
				var limit *budget.LimitError
				if !errors.As(out.Err, &limit) || !strings.Contains(out.Err.Error(), " "+tt.want) || out.State != store.Limited || out.Stop != runlog.StopLimit {
					t.Errorf("outcome: got %+v, want the limit of %s", out, tt.want)
				}
				if n := len(model.Requests()); n != tt.steps {
					t.Errorf("turns: got %d, want %d", n, tt.steps)
				}
				if n := int(made.Load()); n != tt.calls || out.ToolCalls != tt.calls {
					t.Errorf("calls: got %d made and %d counted, want %d", n, out.ToolCalls, tt.calls)
				}
				if tt.limits.Wall > 0 && time.Since(began) != tt.limits.Wall {
					t.Errorf("ended after %v, want %v", time.Since(began), tt.limits.Wall)
				}
				if head, _ := b.store.Run(t.Context(), "r1"); head.State != store.Limited {
					t.Errorf("state: got %s", head.State)
				}
			})
		})
	}
}

// TestTokenLimitBoundsTheOutput: what is left of the tokens is the most a turn may say.
func TestTokenLimitBoundsTheOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Say("cut").Finish(llm.FinishLength))
		cfg := b.config(model)
		cfg.Limits.Tokens = 100
		out := b.finish(b.start(cfg))
		req := model.Requests()[0]
		if want := 100 - llm.EstimateTokens(req); req.MaxTokens != want {
			t.Errorf("MaxTokens: got %d, want %d", req.MaxTokens, want)
		}
		if out.State != store.Limited {
			t.Errorf("outcome: %+v", out)
		}
	})
}

func TestModelFailures(t *testing.T) {
	broken := errors.New("line cut")
	tests := []struct {
		name string
		turn llmtest.Turn
		want string
	}{
		{"in the middle", llmtest.Join(llmtest.Say("Hel"), llmtest.Fail(broken)), "asking the model: line cut"},
		{"panic", llmtest.Func(func(context.Context, *llm.Request) llmtest.Turn { panic("bug") }), "asking the model: panic: bug"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				out := b.finish(b.start(b.config(llmtest.Script(tt.turn))))
				if out.Err == nil || out.Err.Error() != tt.want || out.State != store.Failed {
					t.Errorf("outcome: got %+v, want the error %q", out, tt.want)
				}
				if out.Usage.Input == 0 || !out.Usage.Estimated {
					t.Errorf("usage of the lost turn: got %+v", out.Usage)
				}
				b.wantTypes("run.started tools.listed model.intent model.failed run.finished")
			})
		})
	}
}

func TestCallIDsAreUnique(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := &sameIDs{}
		out := b.finish(b.start(b.config(model, tool("echo", echo))))
		if out.Err != nil || out.Text != "ok" {
			t.Errorf("outcome: %+v", out)
		}
	})
}

func TestResultsAreCut(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		big := tool("big", func(context.Context, *loop.Call) (string, error) { return strings.Repeat("é", 1000), nil })
		model := llmtest.Script(llmtest.Call("big", nil), llmtest.Say("ok"))
		cfg := b.config(model, big)
		cfg.MaxResult = 101
		b.finish(b.start(cfg))
		want := strings.Repeat("é", 50) + "\n[cut here: this text has 2000 bytes, 100 of them are shown]"
		if got := results(model.Requests()[1]); got[0] != want {
			t.Errorf("the model saw %q", got[0])
		}
		for _, e := range b.events() {
			if r, ok := e.Body.(*runlog.ToolResult); ok && len(r.Result.Content.Text()) != 2000 {
				t.Errorf("the journal holds %d bytes", len(r.Result.Content.Text()))
			}
		}
	})
}

func TestStructuredAnswer(t *testing.T) {
	check := func(text string) (rawJSON, error) {
		if !strings.HasPrefix(text, "{") {
			return nil, errors.New("this is no object")
		}
		return rawJSON(text), nil
	}
	tests := []struct {
		name  string
		turns []llmtest.Turn
		ok    bool
	}{
		{"first", []llmtest.Turn{llmtest.Say(`{"a":1}`)}, true},
		{"third", []llmtest.Turn{llmtest.Say("x"), llmtest.Say(""), llmtest.Say(`{"a":1}`)}, true},
		{"never", []llmtest.Turn{llmtest.Say("x"), llmtest.Say("y"), llmtest.Say("z")}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(tt.turns...)
				cfg := b.config(model)
				cfg.Check = check
				out := b.finish(b.start(cfg))
				if (out.Err == nil) != tt.ok || tt.ok && string(out.Structured) != `{"a":1}` {
					t.Errorf("outcome: %+v", out)
				}
				if n := model.Remaining(); n != 0 {
					t.Errorf("turns left: %d", n)
				}
			})
		})
	}
}

func TestPanicOfTheActor(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		gate := llmtest.NewGate()
		cfg := b.config(llmtest.Script(llmtest.Hold(gate)))
		run := b.start(cfg)
		<-gate.Reached()
		run.Poison()
		out := b.finish(run)
		var failure *actors.Failure
		if !errors.As(out.Err, &failure) || out.State != store.Failed {
			t.Errorf("outcome: %+v", out)
		}
		b.wantTypes("run.started tools.listed model.intent model.failed run.finished")
	})
}
