package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/storetest"
)

func TestRun(t *testing.T) {
	model := llmtest.Script(llmtest.Say("Blue."))
	var out strings.Builder
	if err := run(t.Context(), model, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if want := "colour-1: run.started"; lines[0] != want {
		t.Errorf("the first line: got %q, want %q", lines[0], want)
	}
	end := slices.Index(lines, "colour-1: run.finished")
	if got, want := lines[max(end, 0):], []string{"colour-1: run.finished", "Blue.", "Blue."}; !slices.Equal(got, want) {
		t.Errorf("the last lines: got %q, want %q", got, want)
	}
}

// A store of one's own keeps the rules of stores if it passes the suite.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return &audited{memstore.New(nil), t.Output()} })
}
