package main

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm/llmtest"
)

func TestRun(t *testing.T) {
	model := llmtest.Script(
		llmtest.Say(`{"from":"Miller & Daughters","cents":"1044.50","lines":[]}`), // a text, no number: back to it
		llmtest.Say("```json\n"+`{"from":"Miller & Daughters","cents":104450,"lines":[{"text":"repairs","cents":96000},{"text":"tiles","cents":8450}]}`+"\n```"),
	)
	var out strings.Builder
	if err := run(t.Context(), model, &out); err != nil {
		t.Fatal(err)
	}
	want := "Miller & Daughters: 1044.50\n  repairs: 960.00\n  tiles: 84.50\n(2 turns)\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
