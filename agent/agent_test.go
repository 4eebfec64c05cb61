package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

func TestRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := llmtest.Script(
			llmtest.Join(llmtest.Think("hm"), llmtest.Say("I will ", "double."), call("double", in{21})),
			llmtest.Say("42"),
		)
		rt := open(t, &agent.Options{Model: model, Tools: []agent.Tool{double}})
		run := start(t, rt, "r")
		res, err := run.Wait(t.Context())
		if err != nil || res.Text != "42" || res.Steps != 2 || res.ToolCalls != 1 || res.StopReason != agent.StopEnd || res.RunID != "r" {
			t.Errorf("Wait: got %+v, %v", res, err)
		}
		want := []string{
			"run_started", "tools_listed",
			`thinking 1 "hm"`, `text 1 "I will double."`, "turn 1 tool_calls, 1 calls",
			`started double {"n":21}`, `result double true "42"`,
			`text 2 "42"`, "turn 2 stop, 0 calls", `finished finished "42"`,
		}
		if got := transcript(t, run); !slices.Equal(got, want) {
			t.Errorf("events:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestEventsAsJSON: every event can be written by the codec, which is strict.
func TestEventsAsJSON(t *testing.T) {
	bubble(t, func(t *testing.T) {
		busy := &llm.Error{Provider: "p", Err: llm.ErrRateLimit, Retryable: true, RetryAfter: 3 * time.Second}
		slow := agent.Func("slow", "", func(ctx context.Context, _ struct{}) (string, error) {
			agent.ReportProgress(ctx, 1, 2, "half")
			time.Sleep(time.Second)
			return "done", nil
		})
		model := llmtest.Script(llmtest.Fail(busy), llmtest.Join(llmtest.Think("hm"), llmtest.Say("so"), call("slow", nil)), llmtest.Say("ok"))
		rt := open(t, &agent.Options{Model: model, Tools: []agent.Tool{agent.NeedsApproval(slow)}})
		seen := make(map[string]bool)
		for ev, err := range start(t, rt, "r").Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ask, ok := ev.(agent.Ask); ok {
				if err := ask.Answer(t.Context(), agent.Accept()); err != nil {
					t.Fatal(err)
				}
			}
			raw, err := jsonx.Marshal(ev)
			if err != nil || !strings.Contains(string(raw), `"runId":"r"`) || !strings.Contains(string(raw), `"path":["agent"]`) {
				t.Errorf("%s: %s, %v", ev.EventType(), raw, err)
			}
			seen[ev.EventType()] = true
		}
		if len(seen) != 12 {
			t.Errorf("types of events: got %d, want all 12: %v", len(seen), seen)
		}
	})
}

// TestSameFromTheStore: a reader of the store sees what a reader of the memory saw.
func TestSameFromTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Join(llmtest.Say("a", "b"), call("double", in{2})), llmtest.Say("c"))
		s := memory()
		rt := open(t, &agent.Options{Model: model, Tools: []agent.Tool{double}, Store: s})
		run := start(t, rt, "r")
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := open(t, &agent.Options{Model: model, Store: s})
		again := start(t, other, "r")
		if got, want := transcript(t, again), transcript(t, run); !slices.Equal(got, want) {
			t.Errorf("events:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		res, err := again.Wait(t.Context())
		if err != nil || res.Text != "c" || res.Steps != 2 {
			t.Errorf("Wait: got %+v, %v", res, err)
		}
	})
}

func TestBadDefinitions(t *testing.T) {
	noop := func(context.Context, struct{}) (string, error) { return "", nil }
	tests := []struct {
		name string
		cfg  agent.Config
		want string
	}{
		{"server", agent.Config{Servers: []string{"nobody"}}, `there is no server "nobody"`},
		{"limit", agent.Config{Limits: agent.Limits{Steps: -1}}, "-1 steps is negative"},
		{"parallel", agent.Config{Parallel: -1}, "must not be negative"},
		{"tool name", agent.Config{Tools: []agent.Tool{agent.Func("a b", "", noop)}}, `has the character ' '`},
		{"two tools", agent.Config{Tools: []agent.Tool{agent.Func("double", "", noop)}}, `two tools named "double"`},
		{"no struct", agent.Config{Tools: []agent.Tool{agent.Func("f", "", func(context.Context, func()) (string, error) { return "", nil })}}, `tool "f"`},
		{"output", agent.Config{Output: json.RawMessage(`{"type":7}`)}, "schema of the answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rt := open(t, &agent.Options{Model: llmtest.Script(), Tools: []agent.Tool{double}})
				_, err := rt.Agent("a", &tt.cfg)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Agent: got error %v, want one with %q", err, tt.want)
				}
			})
		})
	}
}

func TestNoModel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, nil)
		if _, err := rt.Run(t.Context(), "go"); err == nil {
			t.Error("Run without a model: got no error")
		}
		if _, err := rt.Agent("a", nil); err == nil {
			t.Error("Agent without a model: got no error")
		}
	})
}

func TestRunID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := llmtest.NewGate()
		model := llmtest.Script(llmtest.Join(llmtest.Hold(gate), llmtest.Say("one")))
		rt := open(t, &agent.Options{Model: model})
		run := start(t, rt, "r")
		if again := start(t, rt, "r"); again != run {
			t.Error("the same input while it runs: got another run")
		}
		if _, err := rt.Start(t.Context(), "other", &agent.RunOptions{ID: "r"}); !errors.Is(err, agent.ErrRunExists) {
			t.Errorf("another input: got %v, want ErrRunExists", err)
		}
		gate.Open()
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again := start(t, rt, "r"); again != run {
			t.Error("the same input after its end: got another run")
		}
		if n := len(model.Requests()); n != 1 {
			t.Errorf("model requests: got %d, want 1", n)
		}
		for _, id := range []string{"a\nb", strings.Repeat("x", 200)} {
			if _, err := rt.Start(t.Context(), "go", &agent.RunOptions{ID: id}); err == nil {
				t.Errorf("Start with the ID %q: got no error", id)
			}
		}
	})
}

func TestRunIDInTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		first := open(t, &agent.Options{Model: llmtest.Script(llmtest.Join(llmtest.Slow(time.Minute), llmtest.Say("one"))), Store: s})
		second := open(t, &agent.Options{Model: llmtest.Script(), Store: s})
		start(t, first, "r")
		run := start(t, second, "r")
		if _, err := second.Start(t.Context(), "other", &agent.RunOptions{ID: "r"}); !errors.Is(err, agent.ErrRunExists) {
			t.Errorf("another input: got %v, want ErrRunExists", err)
		}
		res, err := run.Wait(t.Context()) // it follows what the other runtime does
		if err != nil || res.Text != "one" {
			t.Errorf("Wait: got %+v, %v", res, err)
		}
	})
}

func TestInterruptedRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Say("x")), Store: s})
		run := start(t, rt, "r")
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		head, err := s.Run(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		// What a process leaves behind that is killed.
		if _, err := s.Create(t.Context(), store.Run{ID: "lost", InputHash: head.InputHash}, "dead", time.Minute); err != nil {
			t.Fatal(err)
		}
		lost := start(t, rt, "lost")
		began := time.Now()
		if _, err := lost.Wait(t.Context()); !errors.Is(err, agent.ErrInterrupted) {
			t.Errorf("Wait: got %v, want ErrInterrupted", err)
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("Wait took %v, want the lease's minute", d)
		}
	})
}

func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Loop(call("hang", nil)), Tools: []agent.Tool{hang}})
		run := start(t, rt, "r")
		synctest.Wait()
		run.Cancel(errTest)
		res, err := run.Wait(t.Context())
		var cancelled *agent.CancelledError
		if !errors.Is(err, errTest) || !errors.As(err, &cancelled) || res.StopReason != agent.StopCancelled || res.Steps != 1 {
			t.Errorf("Wait: got %+v, %v", res, err)
		}
		run.Cancel(errors.New("again"))
		if _, err := run.Wait(t.Context()); !errors.Is(err, errTest) {
			t.Errorf("Wait again: got %v", err)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Slow(time.Hour))})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		res, err := rt.Run(ctx, "go")
		if !errors.Is(err, context.DeadlineExceeded) || res == nil || res.StopReason != agent.StopCancelled {
			t.Errorf("Run: got %+v, %v", res, err)
		}
	})
}

func TestStartWithAnEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Slow(time.Hour))})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errTest)
		if _, err := rt.Start(ctx, "go", nil); !errors.Is(err, errTest) {
			t.Errorf("Start: got %v", err)
		}
		synctest.Wait()
		if n := rt.System().Census().Live(actors.KindRun); n != 0 {
			t.Errorf("runs left: %d", n)
		}
	})
}

func TestRetryIsSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		busy := &llm.Error{Provider: "p", Err: llm.ErrRateLimit, Retryable: true, RetryAfter: 3 * time.Second}
		rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Fail(busy), llmtest.Say("ok"))})
		run := start(t, rt, "r")
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" {
			t.Errorf("Wait: got %+v, %v", res, err)
		}
		want := []string{"run_started", "tools_listed", "model_retried", "text", "model_turn", "run_finished"}
		if got := types(t, run); !slices.Equal(got, want) {
			t.Errorf("events: got %v, want %v", got, want)
		}
	})
}

func TestOutput(t *testing.T) {
	type answer struct {
		Sum int `json:"sum"`
	}
	schema := json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}`)
	bubble(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Say("it is 3"), llmtest.Say(`{"sum":"3"}`), llmtest.Say("```json\n{\"sum\":3}\n```"))
		rt := open(t, &agent.Options{Model: model})
		run, err := rt.Start(t.Context(), "add", &agent.RunOptions{Output: schema})
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := agent.Into[answer](res); err != nil || got.Sum != 3 {
			t.Errorf("Into: got %+v, %v", got, err)
		}
		if string(model.Requests()[0].Schema) != string(schema) {
			t.Errorf("the model was asked for %s", model.Requests()[0].Schema)
		}
		if _, err := agent.Into[answer](&agent.Result{Text: "no"}); err == nil {
			t.Error("Into of no JSON: got no error")
		}
	})
}

func TestFunc(t *testing.T) {
	type out struct {
		Sum int `json:"sum"`
	}
	add := agent.Func("add", "Adds.", func(ctx context.Context, in struct {
		A int `json:"a" jsonschema:"the first number"`
		B int `json:"b,omitempty"`
	}) (out, error) {
		agent.ReportProgress(ctx, 1, 2, agent.CallKey(ctx)[:3])
		if in.A < 0 {
			return out{}, errors.New("a is negative")
		}
		return out{in.A + in.B}, nil
	})
	tests := []struct{ args, want string }{
		{`{"a":1,"b":2}`, `result add true "{\"sum\":3}"`},
		{`{"a":-1}`, `result add true "a is negative"`},
		{`{"b":1}`, `result add false`},
		{`{"a":"1"}`, `result add false`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				model := llmtest.Script(call("add", tt.args), llmtest.Say("ok"))
				rt := open(t, &agent.Options{Model: model, Tools: []agent.Tool{add}})
				run := start(t, rt, "r")
				if _, err := run.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := transcript(t, run); !slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, tt.want) }) {
					t.Errorf("events: got %q, want %q among them", got, tt.want)
				}
				if schema := string(model.Requests()[0].Tools[0].InputSchema); !strings.Contains(schema, "the first number") {
					t.Errorf("schema: got %s", schema)
				}
			})
		})
	}
	if got := agent.CallKey(t.Context()); got != "" {
		t.Errorf("CallKey outside of a call: got %q", got)
	}
	agent.ReportProgress(t.Context(), 1, 2, "nobody hears")
}

// TestProgress: a reader gets the newest progress, with the tool's name.
func TestProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		steps := agent.Func("steps", "", func(ctx context.Context, _ struct{}) (string, error) {
			for i := range 3 {
				agent.ReportProgress(ctx, float64(i+1), 3, "")
				time.Sleep(time.Second)
			}
			return "", nil
		})
		rt := open(t, &agent.Options{Model: llmtest.Script(call("steps", nil), llmtest.Say("ok")), Tools: []agent.Tool{steps}})
		var got []string
		for ev, err := range start(t, rt, "r").Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if p, ok := ev.(agent.ToolProgress); ok {
				got = append(got, fmt.Sprintf("%s %v/%v", p.Tool, p.Done, p.Total))
			}
		}
		if want := []string{"steps 1/3", "steps 2/3", "steps 3/3"}; !slices.Equal(got, want) {
			t.Errorf("progress: got %q, want %q", got, want)
		}
	})
}

func TestReaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var turns []llmtest.Turn
		for i := range 20 {
			turns = append(turns, llmtest.Join(llmtest.Say("x", "y"), llmtest.Slow(time.Second), call("double", in{i})))
		}
		rt := open(t, &agent.Options{Model: llmtest.Script(append(turns, llmtest.Say("end"))...), Tools: []agent.Tool{double}})
		run := start(t, rt, "r")
		all := make([][]string, 10)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Second) // late ones begin at the beginning
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Errorf("reader %d: %v", i, err)
					}
					all[i] = append(all[i], line(ev))
					if i%2 == 1 {
						time.Sleep(700 * time.Millisecond) // slow ones miss nothing
					}
				}
			})
		}
		for ev, err := range run.Events(t.Context()) { // one that leaves
			if _, ok := ev.(agent.Text); ok || err != nil {
				break
			}
		}
		res, err := run.Wait(t.Context())
		if err != nil || res.Text != "end" {
			t.Fatalf("Wait: got %+v, %v", res, err)
		}
		wg.Wait()
		for i := range all {
			if got, want := merged(all[i]), merged(all[0]); !slices.Equal(got, want) {
				t.Errorf("reader %d: got\n%q, reader 0:\n%q", i, got, want)
			}
		}
	})
}

// merged joins neighbouring pieces of text.
func merged(lines []string) []string {
	var out []string
	for _, l := range lines {
		if n := len(out); n > 0 && strings.HasPrefix(l, "text ") && strings.HasPrefix(out[n-1], l[:7]) {
			out[n-1] = strings.TrimSuffix(out[n-1], `"`) + strings.SplitN(l, `"`, 2)[1]
			continue
		}
		out = append(out, l)
	}
	return out
}

func TestEventsEndWithTheirContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Join(llmtest.Slow(time.Minute), llmtest.Say("x")))})
		run := start(t, rt, "r")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTest)
		defer cancel()
		var last error
		for _, err := range run.Events(ctx) {
			last = err
		}
		if !errors.Is(last, errTest) {
			t.Errorf("the last error: got %v", last)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Errorf("Wait: %v; leaving the events cancelled the run", err)
		}
	})
}
