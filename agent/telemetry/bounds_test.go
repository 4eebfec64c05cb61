package telemetry_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// What was said is cut where it is long, and not within a character: an exporter would
// refuse it, and all that it sends with it (ROB-3).
func TestContentIsCut(t *testing.T) {
	r := record(t, true)
	for shift := range 3 {
		text := strings.Repeat("x", shift) + strings.Repeat("€", 100_000)
		_, end := r.Turn(t.Context(), &agent.TurnTrace{Model: "test/model", Request: &llm.Request{System: text, Messages: []llm.Message{llm.User(text)}}})
		end(&llm.Response{Content: mcp.Contents{mcp.Text(text)}}, nil)
	}
	for _, s := range r.Ended() {
		for _, key := range []string{"gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"} {
			if got := attr(s, key); got == "" || len(got) > 64<<10 || !utf8.ValidString(got) {
				t.Errorf("%s: got %d bytes, valid %v", key, len(got), utf8.ValidString(got))
			}
		}
	}
}

// The names of tools that there are not, which a client makes up, are no values of
// metrics, and long ones are cut (ROB-3).
func TestNamesOfClients(t *testing.T) {
	r := record(t, false)
	for _, method := range []string{mcp.MethodCallTool, mcp.MethodGetPrompt} {
		for _, name := range []string{"made-up", strings.Repeat("é", 10_000)} {
			_, err := r.Middleware(t.Context(), &mcpserver.Incoming{Method: method, Name: name}, func(context.Context) (json.RawMessage, error) {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown")
			})
			if err == nil {
				t.Errorf("%s: got no error", method)
			}
		}
	}
	for _, s := range r.Ended() {
		if len(s.Name()) > 200 || !utf8.ValidString(s.Name()) {
			t.Errorf("a span has a name of %d bytes", len(s.Name()))
		}
	}
	sets := r.metrics(t)["mcp.server.operation.duration"]
	if len(sets) != 2 {
		t.Errorf("got %d sets of attributes, want one for each method: %v", len(sets), sets)
	}
	for _, set := range sets {
		for _, key := range []attribute.Key{"gen_ai.tool.name", "gen_ai.prompt.name"} {
			if v, has := set.Value(key); has {
				t.Errorf("%s is %q", key, v.String())
			}
		}
	}
}
