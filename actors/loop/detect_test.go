package loop_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// TestLoopDetector: the model is told at the third equal call in a row, and at the
// sixth the run fails. Layout and order of the arguments do not matter.
func TestLoopDetector(t *testing.T) {
	same := []string{`{"a":1,"b":[2]}`, `{"b":[2], "a":1}`, "{\n\"a\":1,\"b\":[2]}"}
	tests := []struct {
		name    string
		repeats int
		call    func(i int) llmtest.Turn
		told    int // from which turn on; zero for never
		fails   int // at which turn; zero for never
	}{
		{"default", 0, func(i int) llmtest.Turn { return llmtest.Call("echo", same[i%3]) }, 3, 6},
		{"two", 2, func(i int) llmtest.Turn { return llmtest.Call("echo", `{}`) }, 2, 4},
		{"one", 1, func(i int) llmtest.Turn { return llmtest.Call("echo", `{}`) }, 1, 2},
		{"off", -1, func(i int) llmtest.Turn { return llmtest.Call("echo", `{}`) }, 0, 0},
		{"other arguments", 0, func(i int) llmtest.Turn { return llmtest.Call("echo", fmt.Sprintf(`{"n":%d}`, i)) }, 0, 0},
		{"other tools", 0, func(i int) llmtest.Turn { return llmtest.Call([]string{"echo", "other"}[i%2], `{}`) }, 0, 0},
		{"unknown tool", 0, func(i int) llmtest.Turn { return llmtest.Call("nobody", `{}`) }, 3, 6},
		{"in one turn they count as one", 0, func(i int) llmtest.Turn {
			return llmtest.Calls(llmtest.Call("echo", `{}`), llmtest.Call("echo", `{}`), llmtest.Call("echo", `{}`))
		}, 3, 6},
		{"several in each turn", 0, func(i int) llmtest.Turn {
			all := []llmtest.Turn{llmtest.Call("echo", `{}`), llmtest.Call("other", `{}`)}
			return llmtest.Calls(all[i%2], all[1-i%2])
		}, 3, 6},
		{"beside one that changes", 0, func(i int) llmtest.Turn {
			return llmtest.Calls(llmtest.Call("echo", `{}`), llmtest.Call("other", fmt.Sprintf(`{"n":%d}`, i)))
		}, 0, 0},
		{"every other turn", 0, func(i int) llmtest.Turn {
			if i%2 == 0 {
				return llmtest.Call("echo", `{}`)
			}
			return llmtest.Call("echo", fmt.Sprintf(`{"n":%d}`, i))
		}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				var turns []llmtest.Turn
				for i := range 8 {
					turns = append(turns, tt.call(i))
				}
				model := llmtest.Script(append(turns, llmtest.Say("ok"))...)
				cfg := b.config(model, tool("echo", echo), tool("other", echo))
				cfg.Repeats = tt.repeats
				out := b.finish(b.start(cfg))
				told := 0
				for i, req := range model.Requests() {
					if i > 0 && strings.Contains(strings.Join(allText(req), ""), "times in a row") {
						told = i
						break
					}
				}
				if told != tt.told {
					t.Errorf("told after turn %d, want %d", told, tt.told)
				}
				var stuck *loop.RepeatError
				if got := errors.As(out.Err, &stuck); got != (tt.fails > 0) {
					t.Fatalf("outcome: %+v", out)
				}
				if tt.fails > 0 && (out.State != store.Failed || out.Steps != tt.fails || stuck.Times != tt.fails) {
					t.Errorf("got %+v after %d turns, want it after %d", stuck, out.Steps, tt.fails)
				}
			})
		})
	}
}
