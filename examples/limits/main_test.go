package main

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent/agenttest"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

func TestRun(t *testing.T) {
	agenttest.Bubble(t, func(t *testing.T) {
		model := llmtest.Script(
			llmtest.Call("next", `{"n":1}`),
			llmtest.Call("next", `{"n":2}`),
			llmtest.Call("next", `{"n":3}`),
			llmtest.Call("next", `{"n":4}`),
			llmtest.Say("I came to 4."),
			llmtest.Call("next", `{"n":1}`),
			llmtest.Slow(time.Hour),
		)
		var out strings.Builder
		if err := run(t.Context(), model, &out); err != nil {
			t.Fatal(err)
		}
		want := "the limit of tool calls (3) was reached: I came to 4.\ncancelled after 2 turns: the answer is no longer needed\n"
		if got := out.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
