package main

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm/llmtest"
)

func TestRun(t *testing.T) {
	const question = `May it call transfer with {"to":"Ada","euros":20}? [y/N] `
	for typed, want := range map[string]string{
		"y\n": "20 euros were sent to Ada",
		"n\n": "the person said no",
		"":    "the person said no", // nobody is there
	} {
		model := llmtest.Script(llmtest.Call("transfer", `{"to":"Ada","euros":20}`), llmtest.Say("That is all."))
		var out strings.Builder
		if err := run(t.Context(), model, strings.NewReader(typed), &out); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != question+"That is all.\n" {
			t.Errorf("%q: got %q", typed, got)
		}
		if got := llmtest.Results(model.Requests()[1]); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%q: the model was told %q, want %q in it", typed, got, want)
		}
	}
}
