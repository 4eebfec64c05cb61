package runlog

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// TestRepeats: turns count as the same whatever the order and layout of their calls and arguments.
func TestRepeats(t *testing.T) {
	type turn []string // tool and arguments, in turn
	a, b, c, d, e := turn{"a", `{}`}, turn{"b", `{}`}, turn{"c", `{}`}, turn{"d", `{}`}, turn{"e", `{}`}
	tests := []struct {
		name  string
		turns []turn
		want  []int // how often what each turn closes has come
	}{
		{"as written", []turn{a, a, a}, []int{1, 2, 3}},
		{"another layout", []turn{{"a", `{"x":1,"y":2}`}, {"a", `{"x":1,"y":2}`}, {"a", `{ "y": 2, "x": 1.0 }`}, {"a", `{"x":1,"y":2}`}}, []int{1, 2, 3, 4}},
		{"other arguments", []turn{{"a", `{"x":1}`}, {"a", `{"x":2}`}, {"a", `{"x": 2}`}, {"a", `{"x":1}`}}, []int{1, 1, 2, 1}},
		{"other tools", []turn{a, b, a}, []int{1, 1, 1}},
		{"another order", []turn{{"a", `{}`, "b", `{}`}, {"b", `{}`, "a", `{}`}}, []int{1, 2}},
		{"equal ones of a turn are one", []turn{a, {"a", `{}`, "a", `{ }`}, {"a", `{}`, "a", `{}`, "a", `{}`}}, []int{1, 2, 3}},
		{"one more", []turn{a, {"a", `{}`, "b", `{}`}, b}, []int{1, 1, 1}},
		{"no JSON", []turn{{"a", `{`}, {"a", `{`}, {"a", `{ `}}, []int{1, 2, 1}},
		{"name and arguments are apart", []turn{{"a", `1`}, {"a1", ``}}, []int{1, 1}},
		{"rounds of two", []turn{a, b, a, b, a, b, a, c}, []int{1, 1, 1, 2, 1, 3, 1, 1}},
		{"rounds of three", []turn{a, a, b, a, a, b, a, a, b}, []int{1, 2, 1, 1, 2, 2, 1, 2, 3}},
		{"rounds of four", []turn{a, b, c, d, a, b, c, d, a, b, c, d}, []int{1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 3}},
		{"rounds of five", []turn{a, b, c, d, e, a, b, c, d, e, a, b, c, d, e}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{"rounds in another layout", []turn{{"a", `{"x":1,"y":2}`}, b, {"a", `{"y":2,"x":1}`}, b}, []int{1, 1, 1, 2}},
		{"polls are no calls", []turn{a, {"poll", `1`}, {"a", `{}`, "poll", `2`}, {"poll", `2`}, {"poll", `2`}, {"poll", `3`, "a", `{}`}}, []int{1, 1, 2, 2, 2, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Repeats
			var got []int
			for _, turn := range tt.turns {
				var calls []*mcp.ToolUseContent
				var results mcp.Contents
				for call := range slices.Chunk(turn, 2) {
					calls = append(calls, &mcp.ToolUseContent{Name: call[0], Input: []byte(call[1])})
					results = append(results, new(mcp.ToolResultContent))
				}
				r.See(calls, results, func(i int) Traits { return Traits{Polls: calls[i].Name == "poll"} })
				got = append(got, r.Circle().Times)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestRepeatedResults: different calls come to the same if all of a turn have one result that says so: an error, or much text.
func TestRepeatedResults(t *testing.T) {
	long := strings.Repeat("x", minResult)
	tests := []struct {
		name  string
		turns [][]string // results of each turn; an error begins with !
		want  []int
		reads bool // the calls have no effect
	}{
		{"the same error", [][]string{{"!no"}, {"!no"}, {"!no"}}, []int{1, 2, 3}, false},
		{"other errors", [][]string{{"!no"}, {"!not"}, {"!no"}}, []int{1, 1, 1}, false},
		{"short results", [][]string{{"ok"}, {"ok"}, {"ok"}}, []int{1, 1, 1}, false},
		{"nothing", [][]string{{""}, {""}, {""}}, []int{1, 1, 1}, false},
		{"long results", [][]string{{long}, {long}, {long + "."}, {long}}, []int{1, 2, 1, 1}, false},
		{"an error and the same words", [][]string{{long}, {"!" + long}}, []int{1, 1}, false},
		{"several in a turn are one", [][]string{{"!no", "!no", "!no"}, {"!no"}}, []int{1, 2}, false},
		{"beside one that succeeds", [][]string{{"!no"}, {"!no", "ok"}, {"!no"}}, []int{1, 1, 1}, false},
		{"a turn between", [][]string{{"!no"}, {"ok"}, {"!no"}}, []int{1, 1, 1}, false},
		{"short results without an effect", [][]string{{"no such word"}, {"no such word"}, {""}, {""}}, []int{1, 2, 1, 2}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Repeats
			var got []int
			for i, turn := range tt.turns {
				var calls []*mcp.ToolUseContent
				var results mcp.Contents
				for j, text := range turn {
					text, failed := strings.CutPrefix(text, "!")
					name := string(rune('a' + i))
					if tt.reads {
						name = "r" + name
					}
					calls = append(calls, &mcp.ToolUseContent{Name: name, Input: []byte{byte('0' + j)}})
					results = append(results, &mcp.ToolResultContent{ToolUseID: calls[j].Name, IsError: failed, Content: mcp.Contents{mcp.Text(text)}})
				}
				r.See(calls, results, func(i int) Traits { return Traits{ReadOnly: strings.HasPrefix(calls[i].Name, "r")} })
				circle := r.Circle()
				if got = append(got, circle.Times); (circle.Period == 0) != (circle.Times > 1) {
					t.Errorf("turn %d: got %+v", i, circle)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
