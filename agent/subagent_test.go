package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// define defines an agent, which must be right.
func define(t *testing.T, rt *agent.Runtime, name string, cfg *agent.Config) *agent.Agent {
	t.Helper()
	a, err := rt.Agent(name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// begin starts a run of an agent.
func begin(t *testing.T, a *agent.Agent, id string) *agent.Run {
	t.Helper()
	run, err := a.Start(t.Context(), "go", &agent.RunOptions{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func task(prompt string) map[string]string { return map[string]string{"prompt": prompt} }

// lines are all events of a run, those of sub-agents with a mark for each level.
func lines(t *testing.T, run *agent.Run) []string {
	t.Helper()
	var out []string
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		level := ""
		for n, ok := ev.(agent.Nested); ok; n, ok = ev.(agent.Nested) {
			level, ev = level+"> ", n.Event
		}
		out = append(out, level+line(ev))
	}
	return out
}

// TestSubAgent: a call runs another agent; its run has rows of its own and is named by
// the call, and its events come in their place, for whoever reads, whenever.
func TestSubAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt := open(t, &agent.Options{Store: s, Model: llmtest.Script()})
		sub := define(t, rt, "sub", &agent.Config{Instructions: "Count.", Tools: []agent.Tool{double},
			Model: llmtest.Script(call("double", in{2}), llmtest.Say("four"))})
		boss := define(t, rt, "boss", &agent.Config{Tools: []agent.Tool{sub.AsTool("ask_sub", "Asks.")},
			Model: llmtest.Script(call("ask_sub", task("two and two")), llmtest.Say("it is four"))})
		run := begin(t, boss, "r")
		live := lines(t, run)
		res, err := run.Wait(t.Context())
		if err != nil || res.Text != "it is four" || res.ToolCalls != 1 {
			t.Fatalf("Wait: %+v, %v", res, err)
		}
		want := []string{"run_started", "tools_listed", "turn 1 tool_calls, 1 calls", `started ask_sub {"prompt":"two and two"}`,
			"> run_started", "> tools_listed", "> turn 1 tool_calls, 1 calls", `> started double {"n":2}`, `> result double true "4"`,
			`> text 2 "four"`, "> turn 2 stop, 0 calls", `> finished finished "four"`,
			`result ask_sub true "four"`, `text 2 "it is four"`, "turn 2 stop, 0 calls", `finished finished "it is four"`}
		for name, got := range map[string][]string{"live": live, "later": lines(t, run)} {
			if !slices.Equal(got, want) {
				t.Errorf("%s:\n got %q\nwant %q", name, got, want)
			}
		}
		var child string
		for ev := range run.Events(t.Context()) {
			switch ev := ev.(type) {
			case agent.ToolStarted:
				child = ev.Run
			case agent.Nested:
				if ev.Head().RunID != "r" || ev.Event.Head().RunID != child || !slices.Equal(ev.Event.Head().Path, []string{"boss", "sub"}) {
					t.Errorf("headers: %+v, %+v", ev.Head(), ev.Event.Head())
				}
			case agent.ToolResult:
				var id string
				if ok, err := ev.Result.Meta.Get(agent.MetaRun, &id); !ok || err != nil || id != child {
					t.Errorf("the result names the run %q, %v", id, err)
				}
			}
		}
		if head, err := s.Run(t.Context(), child); err != nil || head.Parent != "r" || head.Agent != "sub" || head.State != store.Finished {
			t.Errorf("the child's row: %+v, %v", head, err)
		}
		if below, err := s.Runs(t.Context(), store.Query{Parent: "r"}); err != nil || len(below) != 1 {
			t.Errorf("runs below: %+v, %v", below, err)
		}
	})
}

// TestNestedJSON: an event of a sub-agent is an object with its type first.
func TestNestedJSON(t *testing.T) {
	ev := agent.Nested{Header: agent.Header{RunID: "r"}, Key: "k", Event: agent.Text{Header: agent.Header{RunID: "c"}, Turn: 1, Delta: "x"}}
	raw, err := json.Marshal(ev)
	if err != nil || !strings.Contains(string(raw), `"key":"k","event":{"type":"text","runId":"c"`) || !strings.HasPrefix(string(raw), `{"runId":"r"`) {
		t.Errorf("got %s, %v", raw, err)
	}
	if got := agent.Unnest(agent.Nested{Event: ev}); got.EventType() != "text" {
		t.Errorf("Inner: got %v", got)
	}
}

// TestSubAgentsSideBySide: calls of one turn run at once, each reader sees each run's
// events in its own order, and before the call's result.
func TestSubAgentsSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script()})
		slow := llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			return llmtest.Join(llmtest.Slow(time.Minute), llmtest.Say("done with "+req.Messages[0].Content.Text()))
		})
		sub := define(t, rt, "sub", &agent.Config{Model: llmtest.Loop(slow)})
		var calls []llmtest.Turn
		for i := range 4 {
			calls = append(calls, call("sub", task(fmt.Sprint(i))))
		}
		boss := define(t, rt, "boss", &agent.Config{Tools: []agent.Tool{sub.AsTool("sub", "")},
			Model: llmtest.Script(llmtest.Calls(calls...), llmtest.Say("all done"))})
		began := time.Now()
		run := begin(t, boss, "r")
		for name := range 2 {
			ended := make(map[string]bool)
			seq := make(map[string]int64)
			for ev, err := range run.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				switch ev := ev.(type) {
				case agent.Nested:
					if h := ev.Event.Head(); h.Seq < seq[h.RunID] {
						t.Errorf("%d: event %d of %s after %d", name, h.Seq, h.RunID, seq[h.RunID])
					} else {
						seq[h.RunID] = h.Seq
					}
					if _, ok := ev.Event.(agent.RunFinished); ok {
						ended[ev.Key] = true
					}
				case agent.ToolResult:
					if !ended[ev.Key] || !strings.HasPrefix(ev.Result.Content.Text(), "done with") {
						t.Errorf("%d: result %q, its run had ended: %v", name, ev.Result.Content.Text(), ended[ev.Key])
					}
				}
			}
			if len(ended) != 4 {
				t.Errorf("%d: %d runs", name, len(ended))
			}
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("they took %v", took)
		}
	})
}

// TestSubAgentCancel: a cancel goes down, each run has one outcome, and nobody is left.
func TestSubAgentCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt := open(t, &agent.Options{Store: s, Model: llmtest.Script()})
		low := define(t, rt, "low", &agent.Config{Tools: []agent.Tool{hang}, Model: llmtest.Script(call("hang", nil))})
		mid := define(t, rt, "mid", &agent.Config{Tools: []agent.Tool{low.AsTool("low", "")}, Model: llmtest.Script(call("low", task("x")))})
		top := define(t, rt, "top", &agent.Config{Tools: []agent.Tool{mid.AsTool("mid", "")}, Model: llmtest.Script(call("mid", task("x")))})
		run := begin(t, top, "r")
		time.Sleep(time.Second) // virtual: all three wait
		run.Cancel(errTest)
		if _, err := run.Wait(t.Context()); !errors.Is(err, errTest) {
			t.Errorf("Wait: %v", err)
		}
		time.Sleep(time.Minute) // virtual
		runs, err := s.Runs(t.Context(), store.Query{})
		if err != nil || len(runs) != 3 {
			t.Fatalf("runs: %+v, %v", runs, err)
		}
		for _, r := range runs {
			if r.State != store.Cancelled {
				t.Errorf("%s: got %s", r.Agent, r.State)
			}
		}
		got := lines(t, run)
		if end := got[len(got)-1]; !strings.HasPrefix(end, "finished cancelled") {
			t.Errorf("the last event: %q", end)
		}
		if !slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "> > finished cancelled") }) {
			t.Errorf("events: %q", got)
		}
	})
}

// TestSubAgentFails: a sub-agent without an answer is a result for the model.
func TestSubAgentFails(t *testing.T) {
	tests := []struct {
		name string
		cfg  agent.Config
		args any
		want string
	}{
		{"its model", agent.Config{Model: llmtest.Script(llmtest.Fail(errors.New("no power")))}, task("x"), "no power"},
		{"a limit", agent.Config{Model: llmtest.Loop(call("double", in{2})), Tools: []agent.Tool{double}, Limits: agent.Limits{Steps: 2}}, task("x"), "2 steps"},
		{"an answer that is cut", agent.Config{Model: llmtest.Script(llmtest.Say("so far").Finish(llm.FinishLength))}, task("x"), "[the answer is not complete: the limit of output tokens cut it]"},
		{"no prompt", agent.Config{Model: llmtest.Script()}, map[string]int{"n": 1}, "do not fit the tool's schema"},
		{"its own input", agent.Config{Model: llmtest.Script(), Input: json.RawMessage(`{"type":"object","required":["city"]}`)}, task("x"), "do not fit the tool's schema"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rt := open(t, &agent.Options{Model: llmtest.Script(), Retry: &llm.RetryOptions{MaxAttempts: 1}})
				sub := define(t, rt, "sub", &tt.cfg)
				model := llmtest.Script(call("sub", tt.args), llmtest.Say("well"))
				boss := define(t, rt, "boss", &agent.Config{Tools: []agent.Tool{sub.AsTool("sub", "")}, Model: model})
				res, err := begin(t, boss, "r").Wait(t.Context())
				if err != nil || res.Text != "well" {
					t.Fatalf("Wait: %+v, %v", res, err)
				}
				if got := resultsOf(model.Requests()[1]); len(got) != 1 || !strings.Contains(got[0], tt.want) {
					t.Errorf("result: got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestSubAgentInput: what an agent takes and gives can be JSON of a form.
func TestSubAgentInput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script()})
		model := llmtest.Script(llmtest.Say("```json\n{\"sum\":3}\n```"))
		sub := define(t, rt, "sub", &agent.Config{Model: model,
			Input:  json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`),
			Output: json.RawMessage(`{"type":"object","required":["sum"]}`)})
		above := llmtest.Script(call("add", map[string]int{"a": 1, "b": 2}), llmtest.Say("ok"))
		boss := define(t, rt, "boss", &agent.Config{Tools: []agent.Tool{sub.AsTool("add", "")}, Model: above})
		run := begin(t, boss, "r")
		for ev := range run.Events(t.Context()) {
			if r, ok := ev.(agent.ToolResult); ok && string(r.Result.StructuredContent) != `{"sum":3}` {
				t.Errorf("result: %+v", r.Result)
			}
		}
		if got := model.Requests()[0].Messages[0].Content.Text(); got != `{"a":1,"b":2}` {
			t.Errorf("prompt: got %q", got)
		}
	})
}

// TestSubAgentBudget: what sub-agents spend is their run's, all together.
func TestSubAgentBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script()})
		sub := define(t, rt, "sub", &agent.Config{Model: llmtest.Loop(llmtest.Say("x").Usage(100, 100))})
		boss := define(t, rt, "boss", &agent.Config{Tools: []agent.Tool{sub.AsTool("sub", "")},
			Limits: agent.Limits{ModelCalls: 4}, MaxRepeats: -1, Model: llmtest.Loop(call("sub", task("x")).Usage(10, 10))})
		res, err := begin(t, boss, "r").Wait(t.Context())
		var limit *agent.LimitError
		if !errors.As(err, &limit) || res.Steps != 2 {
			t.Errorf("Wait: %+v, %v", res, err)
		}
	})
}

// TestSubAgentDepth: agents can not call each other for ever.
func TestSubAgentDepth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script()})
		var depth atomic.Int64
		next := define(t, rt, "leaf", &agent.Config{Model: llmtest.Loop(llmtest.Say("leaf"))})
		for i := range 10 {
			next = define(t, rt, fmt.Sprint("a", i), &agent.Config{Tools: []agent.Tool{next.AsTool("down", "")},
				Model: llmtest.Loop(llmtest.Func(func(context.Context, *llm.Request) llmtest.Turn {
					depth.Add(1)
					return call("down", task("x"))
				}), llmtest.Say("up"))})
		}
		if res, err := begin(t, next, "r").Wait(t.Context()); err != nil || res.Text != "up" {
			t.Errorf("Wait: %+v, %v", res, err)
		}
		if got := depth.Load(); got != 9 { // the run itself and eight below
			t.Errorf("runs below each other: got %d", got)
		}
	})
}

// TestSubAgentAsks: a question of a sub-agent is answered through the run above, whose
// clock stands still meanwhile (TIME-05).
func TestSubAgentAsks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script()})
		low := define(t, rt, "low", &agent.Config{Tools: []agent.Tool{agent.NeedsApproval(double)}, AskExpiry: 5 * time.Hour,
			Model: llmtest.Script(call("double", in{4}), llmtest.Say("eight"))})
		mid := define(t, rt, "mid", &agent.Config{Tools: []agent.Tool{low.AsTool("low", "")}, Model: llmtest.Script(call("low", task("x")), llmtest.Say("8"))})
		top := define(t, rt, "top", &agent.Config{Tools: []agent.Tool{mid.AsTool("mid", "")}, Limits: agent.Limits{Wall: time.Minute},
			Model: llmtest.Script(call("mid", task("x")), llmtest.Say("ok"))})
		run := begin(t, top, "r")
		asked := false
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ask, ok := agent.Unnest(ev).(agent.Ask); ok {
				asked = true
				if !slices.Equal(ask.Path, []string{"top", "mid", "low"}) {
					t.Errorf("ask: %+v", ask)
				}
				time.Sleep(2 * time.Hour) // virtual: the human thinks
				if err := ask.Answer(t.Context(), agent.Accept()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" || !asked {
			t.Errorf("Wait: %+v, %v, asked %v", res, err, asked)
		}
	})
}

// TestSubAgentEndsInTime: a sub-agent whose tool does not heed its context ends before the
// grace of the run above is over, so that its outcome is known.
func TestSubAgentEndsInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script(), Grace: 4 * time.Second})
		deaf, called := make(chan struct{}), make(chan struct{})
		defer close(deaf)
		sub := define(t, rt, "sub", &agent.Config{Model: llmtest.Script(call("deaf", nil)), Tools: []agent.Tool{
			agent.Func("deaf", "Hears nothing.", func(context.Context, struct{}) (string, error) {
				close(called)
				<-deaf
				return "", nil
			})}})
		boss := define(t, rt, "boss", &agent.Config{Tools: []agent.Tool{sub.AsTool("sub", "")}, Model: llmtest.Script(call("sub", task("x")))})
		run := begin(t, boss, "r")
		<-called
		began := time.Now()
		run.Cancel(errTest)
		var results []agent.ToolResult
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if res, ok := ev.(agent.ToolResult); ok {
				results = append(results, res)
			}
		}
		if len(results) != 1 || results[0].Unknown || !results[0].Result.IsError || time.Since(began) >= 4*time.Second {
			t.Errorf("after %v: got %+v, want the cancelled sub-agent's result", time.Since(began), results)
		}
	})
}

// TestSubAgentDiesAsking: the clocks above one that asks go on when it is killed, and not
// only that of the run whose call it was.
func TestSubAgentDiesAsking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script()})
		low := define(t, rt, "low", &agent.Config{Tools: []agent.Tool{agent.NeedsApproval(double)}, Model: llmtest.Script(call("double", in{4}))})
		mid := define(t, rt, "mid", &agent.Config{Tools: []agent.Tool{low.AsTool("low", "")}, Model: llmtest.Script(call("low", task("x")), llmtest.Slow(time.Hour))})
		top := define(t, rt, "top", &agent.Config{Tools: []agent.Tool{mid.AsTool("mid", "")}, Limits: agent.Limits{Wall: time.Minute},
			Model: llmtest.Script(call("mid", task("x")), llmtest.Slow(time.Hour))})
		began := time.Now()
		run := begin(t, top, "r")
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := agent.Unnest(ev).(agent.Ask); ok {
				run.Below()[0].Below()[0].Actor().Stop()
			}
		}
		var limit *agent.LimitError
		if _, err := run.Wait(t.Context()); !errors.As(err, &limit) || time.Since(began) != time.Minute {
			t.Errorf("Wait: %v after %v, want the limit of a minute", err, time.Since(began))
		}
	})
}

// TestHandOff: another agent goes on with the same conversation in the same run.
func TestHandOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script()})
		second := llmtest.Script(call("double", in{3}), llmtest.Say("six"))
		maths := define(t, rt, "the maths", &agent.Config{Instructions: "You count.", Tools: []agent.Tool{double}, Model: second,
			Description: "Counts."})
		first := llmtest.Script(llmtest.Calls(call("transfer_to_the_maths", nil), call("transfer_to_the_maths", nil)))
		desk := define(t, rt, "desk", &agent.Config{Instructions: "You greet.", Tools: agent.HandOff(maths), Model: first})
		run := begin(t, desk, "r")
		got := lines(t, run)
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "six" || res.Steps != 3 {
			t.Fatalf("Wait: %+v, %v", res, err)
		}
		want := []string{"run_started", "tools_listed", "turn 1 tool_calls, 2 calls",
			`result transfer_to_the_maths false "not called: another call of this turn hands the conversation over already"`,
			"started transfer_to_the_maths {}", `result transfer_to_the_maths true "The conversation was handed over. You are the agent \"the maths\" now: go on with it."`,
			"handed_off", "tools_listed", "turn 2 tool_calls, 1 calls", `started double {"n":3}`, `result double true "6"`, `text 3 "six"`, "turn 3 stop, 0 calls", `finished finished "six"`}
		if !slices.Equal(got, want) {
			t.Errorf("events:\n got %q\nwant %q", got, want)
		}
		if tools := first.Requests()[0].Tools; len(tools) != 1 || !strings.HasSuffix(tools[0].Description, "Counts.") {
			t.Errorf("the first has the tools %+v", tools)
		}
		req := second.Requests()[0]
		if req.System != "You count." || len(req.Tools) != 1 || req.Tools[0].Name != "double" || len(req.Messages) != 3 || req.Messages[0].Content.Text() != "go" {
			t.Errorf("the second was asked %+v", req)
		}
		var last agent.Header
		for ev := range run.Events(t.Context()) {
			last = ev.Head()
		}
		if !slices.Equal(last.Path, []string{"desk", "the maths"}) {
			t.Errorf("path: got %q", last.Path)
		}
	})
}

// TestHandOffIsBounded: agents can not hand a conversation on for ever.
func TestHandOffIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script()})
		var next *agent.Agent
		for i := range 12 {
			cfg := &agent.Config{Model: llmtest.Script(llmtest.Say("end"))}
			if next != nil {
				cfg.Tools = agent.HandOff(next)
				cfg.Model = llmtest.Script(call("transfer_to_"+next.Name(), nil), llmtest.Say("no more"))
			}
			next = define(t, rt, fmt.Sprint("a", i), cfg)
		}
		res, err := begin(t, next, "r").Wait(t.Context())
		if err != nil || res.Text != "no more" || res.ToolCalls != 8 {
			t.Errorf("Wait: %+v, %v", res, err)
		}
	})
}

// TestTeamsOfOneRuntime: what can not work is refused where the agent is defined.
func TestTeamsOfOneRuntime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := open(t, &agent.Options{Model: llmtest.Script()}), open(t, &agent.Options{Model: llmtest.Script()})
		a := define(t, one, "a", nil)
		for name, tools := range map[string][]agent.Tool{"as a tool": {a.AsTool("a", "")}, "hand-off": agent.HandOff(a)} {
			if _, err := two.Agent("b", &agent.Config{Tools: tools}); err == nil || !strings.Contains(err.Error(), "another runtime") {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if _, err := one.Agent("b", &agent.Config{Tools: agent.HandOff(a, a)}); err == nil {
			t.Error("two tools of one name are taken")
		}
		if _, err := one.Agent("b", &agent.Config{Input: json.RawMessage(`{"type":7}`)}); err == nil {
			t.Error("a bad input schema is taken")
		}
	})
}

// TestSubAgentsUnderChaos: whatever becomes of the runs below, each has one end, the
// run above goes on, and nothing is left over.
func TestSubAgentsUnderChaos(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		rt := open(t, &agent.Options{Store: s, Model: llmtest.Script(), Retry: &llm.RetryOptions{MaxAttempts: 1}})
		var turn atomic.Int64
		model := llmtest.Loop(llmtest.Func(func(context.Context, *llm.Request) llmtest.Turn {
			switch turn.Add(1) % 5 {
			case 0:
				return llmtest.Fail(errTest)
			case 1:
				return llmtest.Join(llmtest.Slow(time.Second), call("panics", nil))
			case 2:
				return llmtest.Join(llmtest.Slow(time.Hour), llmtest.Say("slow"))
			case 3:
				return call("hang", nil)
			}
			return llmtest.Say("ok")
		}))
		panics := agent.Func("panics", "", func(context.Context, struct{}) (string, error) { panic("no") })
		sub := define(t, rt, "sub", &agent.Config{Model: model, Tools: []agent.Tool{panics, hang}, Limits: agent.Limits{Wall: time.Minute}})
		var calls []llmtest.Turn
		for i := range 40 {
			calls = append(calls, call("sub", task(fmt.Sprint(i))))
		}
		boss := define(t, rt, "boss", &agent.Config{Tools: []agent.Tool{sub.AsTool("sub", "")}, Model: llmtest.Script(llmtest.Calls(calls...), llmtest.Say("done"))})
		run := begin(t, boss, "r")
		ends := make(map[string]int)
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if n, ok := ev.(agent.Nested); ok {
				if _, end := n.Event.(agent.RunFinished); end {
					ends[n.Key]++
				}
			}
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "done" || res.ToolCalls != 40 {
			t.Errorf("Wait: %+v, %v", res, err)
		}
		if len(ends) != 40 {
			t.Errorf("%d runs ended", len(ends))
		}
		for key, n := range ends {
			if n != 1 {
				t.Errorf("%s ended %d times", key, n)
			}
		}
		runs, err := s.Runs(t.Context(), store.Query{Parent: "r"})
		if err != nil || len(runs) != 40 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		for _, r := range runs {
			if !r.State.Ended() {
				t.Errorf("%s: %s", r.ID, r.State)
			}
		}
	})
}
