package main

import (
	"strings"
	"testing"
)

func TestUnknownScenario(t *testing.T) {
	for _, name := range []string{"", "no-such-scenario"} {
		t.Setenv("MCP_CONFORMANCE_SCENARIO", name)
		if err := run(t.Context(), "http://127.0.0.1:1/mcp"); err == nil || !strings.Contains(err.Error(), "unknown scenario") {
			t.Errorf("run of %q: got %v, want an error that says so", name, err)
		}
	}
}

func TestCallsOfContext(t *testing.T) {
	for _, detail := range []string{"", "{}", "[]", `{"toolCalls":[]}`, `{"toolCalls":7}`} {
		if err := callsOfContext(t.Context(), nil, []byte(detail)); err == nil {
			t.Errorf("callsOfContext(%q): got no error", detail)
		}
	}
}
