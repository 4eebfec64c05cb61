package main

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm/llmtest"
)

func TestRun(t *testing.T) {
	editor := llmtest.Script(
		llmtest.Call("write", `{"prompt":"supervision trees"}`).Usage(10, 5),
		llmtest.Call("judge", `{"prompt":"A tree that falls"}`).Usage(20, 5),
		llmtest.Say("A tree that stands.").Usage(30, 5),
	)
	team := llmtest.Script(
		llmtest.Say("A tree that falls").Usage(4, 4),
		llmtest.Say("The last line is the weakest.").Usage(6, 6),
	)
	var out strings.Builder
	if err := run(t.Context(), editor, team, &out); err != nil {
		t.Fatal(err)
	}
	want := `editor: 15 tokens
editor › poet: 8 tokens
editor: 25 tokens
editor › critic: 12 tokens
editor: 35 tokens
A tree that stands.
(95 tokens in all)
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
