package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent/agenttest"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

func TestRun(t *testing.T) {
	files := agenttest.Server("files", agenttest.Tool("read")).Speaks(mcp.V2025_06_18)
	gone := agenttest.Server("gone").Down(errors.New("no such command"))
	opts := (&agenttest.Options{Servers: []*agenttest.FakeServer{files, gone}}).Agent(t)
	model := llmtest.Script(llmtest.Call("clock__now", nil), llmtest.Say("It is late."))

	var out strings.Builder
	if err := run(t.Context(), model, opts.Servers, &out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{"files: 1 tools, MCP 2025-06-18\n", "gone: ", "no such command", "clock: 1 tools, MCP 2026-07-28\n", "It is late.\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	if got := llmtest.Results(model.Requests()[1]); len(got) != 1 || !strings.Contains(got[0], ":") {
		t.Errorf("the clock said %q, want a time", got)
	}
}
