package main

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm/llmtest"
)

func TestRun(t *testing.T) {
	model := llmtest.Script(
		llmtest.Calls(llmtest.Call("price", `{"item":"apple"}`), llmtest.Call("price", `{"item":"bread"}`), llmtest.Call("price", `{"item":"wine"}`)),
		llmtest.Say("That is 4.10."),
	)
	var out strings.Builder
	if err := run(t.Context(), model, &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "That is 4.10.\n(3 prices were looked up)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	results := llmtest.Results(model.Requests()[1])
	for i, want := range []string{`{"cents":45}`, `{"cents":320}`, `the shop has no "wine"`} {
		if !strings.Contains(results[i], want) {
			t.Errorf("result %d: got %q, want %q in it", i, results[i], want)
		}
	}
}
