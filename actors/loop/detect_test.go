package loop_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// circling is a model that makes the calls of turns for as long as it may, and then says what it has.
func circling(call func(i int) llmtest.Turn, turns int) *llmtest.Model {
	var n atomic.Int64
	return llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		i := int(n.Add(1)) - 1
		switch {
		case req.ToolChoice == llm.ToolChoiceNone:
			return llmtest.Say("what I have")
		case i >= turns:
			return llmtest.Say("ok")
		}
		return call(i)
	}))
}

// TestLoopDetector: a model that comes to the same for the third time is told, and after the sixth time the run wraps up: it
// answers once more, by whatever limits it has. Layout and order of the arguments do not matter.
func TestLoopDetector(t *testing.T) {
	same := []string{`{"a":1,"b":[2]}`, `{"b":[2], "a":1}`, "{\n\"a\":1,\"b\":[2]}"}
	numbered := func(name string, i int) llmtest.Turn { return llmtest.Call(name, fmt.Sprintf(`{"n":%d}`, i)) }
	round := func(turns ...llmtest.Turn) func(i int) llmtest.Turn {
		return func(i int) llmtest.Turn { return turns[i%len(turns)] }
	}
	a, b, c, d := llmtest.Call("echo", nil), llmtest.Call("other", nil), llmtest.Call("echo", `{"c":1}`), llmtest.Call("other", `{"d":1}`)
	tests := []struct {
		name    string
		repeats int
		call    func(i int) llmtest.Turn
		told    int // after which turn first; zero for never
		last    int // after which turn the last one comes; zero for never
	}{
		{"default", 0, func(i int) llmtest.Turn { return llmtest.Call("echo", same[i%3]) }, 3, 6},
		{"two", 2, round(a), 2, 4},
		{"one", 1, round(a), 1, 2},
		{"off", -1, round(a), 0, 0},
		{"other arguments", 0, func(i int) llmtest.Turn { return numbered("echo", i) }, 0, 0},
		{"unknown tool", 0, func(i int) llmtest.Turn { return llmtest.Call("nobody", `{}`) }, 3, 6},
		{"in one turn they count as one", 0, round(llmtest.Calls(a, a, a)), 3, 6},
		{"several in each turn", 0, round(llmtest.Calls(a, b), llmtest.Calls(b, a)), 3, 6},
		{"beside one that changes", 0, func(i int) llmtest.Turn { return llmtest.Calls(a, numbered("other", i)) }, 0, 0},
		{"every other turn", 0, func(i int) llmtest.Turn {
			if i%2 == 0 {
				return a
			}
			return numbered("echo", i)
		}, 0, 0},
		{"rounds of two", 0, round(a, b), 6, 12},
		{"rounds of three", 0, round(a, b, c), 9, 18},
		{"rounds of four", 0, round(a, b, c, d), 12, 24},
		{"rounds that are off", -1, round(a, b), 0, 0},
		{"the same error of other calls", 0, func(i int) llmtest.Turn { return numbered("fails", i) }, 3, 6},
		{"an error beside what succeeds", 0, func(i int) llmtest.Turn { return llmtest.Calls(numbered("fails", i), numbered("echo", i)) }, 0, 0},
		{"the same long result", 0, func(i int) llmtest.Turn { return numbered("long", i) }, 3, 6},
		{"many that succeed alike", 0, func(i int) llmtest.Turn { return llmtest.Calls(numbered("ok", i), numbered("ok", i+100)) }, 0, 0},
		{"arguments that do not fit", 0, func(i int) llmtest.Turn { return numbered("strict", i) }, 3, 6},
		{"a tool that polls", 0, round(llmtest.Call("poll", nil)), 0, 0},
		{"polls between", 0, round(a, llmtest.Call("poll", nil)), 5, 11},
		{"polls beside", 0, func(i int) llmtest.Turn { return llmtest.Calls(a, numbered("poll", i)) }, 3, 6},
	}
	says := func(text string) func(context.Context, *loop.Call) (string, error) {
		return func(context.Context, *loop.Call) (string, error) { return text, nil }
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := circling(tt.call, 26)
				poll, strict := tool("poll", echo), tool("strict", echo)
				poll.Polls = true
				strict.Validate = func(rawJSON) error { return errors.New("/m is missing") }
				cfg := b.config(model, tool("echo", echo), tool("other", echo), poll, strict, tool("ok", says("ok")), tool("long", says(strings.Repeat("x", 300))),
					tool("fails", func(context.Context, *loop.Call) (string, error) { return "", errors.New("no luck") }))
				cfg.Repeats = tt.repeats
				out := b.finish(b.start(cfg))
				told := 0
				reqs := model.Requests()
				for i, req := range reqs {
					if i > 0 && strings.Contains(strings.Join(allText(req), ""), "times in a row") {
						told = i
						break
					}
				}
				if told != tt.told {
					t.Errorf("told after turn %d, want %d", told, tt.told)
				}
				if tt.last == 0 {
					if out.Err != nil || out.Text != "ok" {
						t.Errorf("outcome: %+v", out)
					}
					return
				}
				limit, over := errors.AsType[*budget.LimitError](out.Err)
				if !over || limit.Limit != budget.Repeats || out.State != store.Limited || out.Stop != runlog.StopRepeats || out.Text != "what I have" || out.Steps != tt.last+1 {
					t.Fatalf("outcome: %+v, want a last turn after %d", out, tt.last)
				}
				last := reqs[len(reqs)-1]
				if n, want := strings.Count(strings.Join(allText(last), ""), "times in a row"), cmp.Or(tt.repeats, 3); n != want {
					t.Errorf("told %d times, want %d", n, want)
				}
				if text := last.Messages[len(last.Messages)-1].Content.Text(); !strings.HasPrefix(text, "You have turned in circles") || len(last.Tools) == 0 || last.MaxTokens != 0 {
					t.Errorf("the last turn: %q, with %d tools and %d tokens", text, len(last.Tools), last.MaxTokens)
				}
			})
		})
	}
}

// TestRepeatsWithinLimits: the last turn of a run that repeats itself fits its limits. A run that holds such a turn has it
// where there is no room for another; else it ends without one.
func TestRepeatsWithinLimits(t *testing.T) {
	for _, tt := range []struct {
		limits loop.Limits
		text   string
	}{
		{loop.Limits{Steps: 3, OnLimit: runlog.LimitWrapUp}, "what I have"},
		{loop.Limits{ModelCalls: 3, OnLimit: runlog.LimitAsk}, "what I have"}, // there is nothing to ask about
		{loop.Limits{Steps: 2}, ""},
		{loop.Limits{ModelCalls: 2}, ""},
	} {
		inBubble(t, func(t *testing.T, b *bench) {
			cfg := b.config(circling(func(int) llmtest.Turn { return llmtest.Call("echo", nil) }, 9), tool("echo", echo))
			cfg.Repeats, cfg.Limits = 1, tt.limits
			out := b.finish(b.start(cfg))
			if out.Text != tt.text || out.State != store.Limited || out.Stop != runlog.StopRepeats || out.Usage.Over != 0 {
				t.Errorf("at %+v: %+v", tt.limits, out)
			}
		})
	}
}
