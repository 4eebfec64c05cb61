package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// TestOurClientAndFixture: our client drives the fixture of the conformance suite as
// a process, in every revision over every transport that it has.
func TestOurClientAndFixture(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real MCP servers")
	}
	t.Parallel()
	program := peers.RequireFixture(t)
	for _, v := range mcp.Versions() {
		for _, transport := range []string{"stdio", mcpclient.TransportHTTP, mcpclient.TransportSSE} {
			if transport == mcpclient.TransportSSE && v != mcp.V2024_11_05 || transport == mcpclient.TransportHTTP && v == mcp.V2024_11_05 {
				continue
			}
			t.Run(transport+" "+string(v), func(t *testing.T) {
				t.Parallel()
				server := mcpclient.Command(program, "-stdio")
				switch transport {
				case mcpclient.TransportHTTP:
					server = mcpclient.Server{URL: peers.ListenFixture(t, program).URL, Transport: transport}
				case mcpclient.TransportSSE:
					server = mcpclient.Server{URL: peers.ListenFixture(t, program).SSE(), Transport: transport}
				}
				server.Name, server.Protocol = "fixture", string(v)
				useFixture(t, server, v)
			})
		}
	}
}

// useFixture calls what asks the client, and what does not.
func useFixture(t *testing.T, server mcpclient.Server, v mcp.Version) {
	root := Root(t)
	p := &Person{Says: "Paris", Fills: map[string]json.RawMessage{
		"name": Quote("Ada"), "color": Quote("red"), "username": Quote("ada"), "email": Quote("ada@example.com"), "ok": json.RawMessage("true"),
		"confirm": json.RawMessage("true"), "context": Quote("cats"),
	}}
	ctx, client := Connect(t, server, Offering(p, root))
	forms := v >= mcp.V2025_06_18 // ELIC-01
	for _, c := range []struct {
		tool, args, want string
		forms            bool // it asks a person
	}{
		{tool: "test_simple_text", want: "This is a simple text response for testing."},
		{tool: "greet", args: `{"name":"Ada"}`, want: "Hello, Ada!"},
		{tool: "test_reconnection", want: "Reconnection test completed successfully"},
		{tool: "slow_compute", args: `{"seconds":0,"label":"it"}`, want: "Computed it in 0 s"},
		{tool: "test_sampling", args: `{"prompt":"q"}`, want: "LLM response: Paris"},
		{tool: "test_input_required_result_list_roots", want: "Roots: " + root.URI},
		{tool: "test_elicitation", args: `{"message":"Who?"}`, forms: true, want: `User response: action=accept, content={"email":"ada@example.com","username":"ada"}`},
		{tool: "test_input_required_result_multiple_inputs", forms: true, want: `Paris "Ada" of ` + root.URI},
		{tool: "test_input_required_result_multi_round", forms: true, want: "Ada likes red."},
		{tool: "test_input_required_result_request_state", forms: true, want: "state-ok"},
		{tool: "confirm_delete", args: `{"filename":"x"}`, forms: true, want: "x is deleted"},
		{tool: "multi_input", forms: true, want: `"Ada" and "Ada"`},
	} {
		res, err := client.CallTool(ctx, c.tool, json.RawMessage(c.args), nil)
		switch {
		case err != nil:
			t.Errorf("CallTool(%s): %v", c.tool, err)
		case c.forms && !forms:
			if !res.IsError {
				t.Errorf("CallTool(%s) in a revision without forms: got %+v, want an error", c.tool, res)
			}
		case res.IsError || res.Content.Text() != c.want:
			t.Errorf("CallTool(%s): got %q, want %q", c.tool, res.Content.Text(), c.want)
		}
	}
	prompt, err := client.GetPrompt(ctx, "test_input_required_result_prompt", nil, nil)
	switch {
	case !forms:
		if err == nil {
			t.Errorf("GetPrompt in a revision without forms: got %+v, want an error", prompt)
		}
	case err != nil || len(prompt.Messages) != 1:
		t.Errorf("GetPrompt: got %+v, %v", prompt, err)
	default:
		if text, ok := prompt.Messages[0].Content.(*mcp.TextContent); !ok || !strings.HasSuffix(text.Text, "cats") {
			t.Errorf("GetPrompt: got %+v", prompt.Messages[0].Content)
		}
	}
}
