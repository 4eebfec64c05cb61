package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for prompt, want := range map[string]string{
		"What is the weather in Turin?": "It is sunny in Turin.\n",
		"Who are you?":                  "I only know about the weather.\n",
	} {
		var out strings.Builder
		if err := run(t.Context(), rules{}, prompt, &out); err != nil || out.String() != want {
			t.Errorf("%q: got %q and %v, want %q", prompt, out.String(), err, want)
		}
	}
}
