package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent/agenttest"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// The agent is a tool to clients of both eras.
func TestFront(t *testing.T) {
	rt := agenttest.Open(t, &agenttest.Options{Model: llmtest.Loop(llmtest.Say("Hut. The brim was lost."))})
	front, err := newFront(rt)
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	srv := httptest.NewServer(front.Handler())
	defer srv.Close()
	for _, version := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		c, err := mcpclient.Dial(t.Context(), mcpclient.Server{Name: "translator", URL: srv.URL, Protocol: string(version)}, nil)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		defer c.Close()
		tools, err := c.ListTools(t.Context())
		if err != nil || len(tools) != 1 || tools[0].Name != "translator" || !strings.HasPrefix(tools[0].Description, "Translates a text") {
			t.Errorf("%s: the tools: got %+v, %v", version, tools, err)
		}
		res, err := c.CallTool(t.Context(), "translator", json.RawMessage(`{"prompt":"hat, in German"}`), nil)
		if err != nil || res.IsError || !strings.Contains(res.Content.Text(), "Hut.") {
			t.Errorf("%s: the call: got %+v, %v", version, res, err)
		}
	}
}
