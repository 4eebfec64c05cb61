package runlog

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// TestRepeats: turns count as the same whatever the order and layout of their calls and arguments.
func TestRepeats(t *testing.T) {
	type turn []string // tool and arguments, in turn
	tests := []struct {
		name  string
		turns []turn
		want  []int
	}{
		{"as written", []turn{{"a", `{}`}, {"a", `{}`}, {"a", `{}`}}, []int{1, 2, 3}},
		{"another layout", []turn{{"a", `{"x":1,"y":2}`}, {"a", `{"x":1,"y":2}`}, {"a", `{ "y": 2, "x": 1.0 }`}, {"a", `{"x":1,"y":2}`}}, []int{1, 2, 3, 4}},
		{"other arguments", []turn{{"a", `{"x":1}`}, {"a", `{"x":2}`}, {"a", `{"x": 2}`}, {"a", `{"x":1}`}}, []int{1, 1, 2, 1}},
		{"other tools", []turn{{"a", `{}`}, {"b", `{}`}, {"a", `{}`}}, []int{1, 1, 1}},
		{"another order", []turn{{"a", `{}`, "b", `{}`}, {"b", `{}`, "a", `{}`}}, []int{1, 2}},
		{"equal ones of a turn are one", []turn{{"a", `{}`}, {"a", `{}`, "a", `{ }`}, {"a", `{}`, "a", `{}`, "a", `{}`}}, []int{1, 2, 3}},
		{"one more", []turn{{"a", `{}`}, {"a", `{}`, "b", `{}`}, {"b", `{}`}}, []int{1, 1, 1}},
		{"no JSON", []turn{{"a", `{`}, {"a", `{`}, {"a", `{ `}}, []int{1, 2, 1}},
		{"name and arguments are apart", []turn{{"a", `1`}, {"a1", ``}}, []int{1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Repeats
			var got []int
			for _, turn := range tt.turns {
				var calls []*mcp.ToolUseContent
				for call := range slices.Chunk(turn, 2) {
					calls = append(calls, &mcp.ToolUseContent{Name: call[0], Input: []byte(call[1])})
				}
				got = append(got, r.See(calls))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
