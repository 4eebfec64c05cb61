package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// What is relayed is passed as it is, and can be put in the place of what was there
// (TOOL-03, TOOL-11).
func TestRelay(t *testing.T) {
	var watched []string
	s, err := mcpserver.New(mcp.Implementation{Name: "relay", Version: "1"}, &mcpserver.Options{
		Lists: mcpserver.ListOptions{DeclareAll: true}, Events: mcpserver.Events{OnWatched: func(uri string, on bool) { watched = append(watched, fmt.Sprint(uri, on)) }},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// Neither the arguments nor the result below fit, which is not this server's business.
	def := &mcp.Tool{
		Name: "t", InputSchema: json.RawMessage(`{"type":"object","required":["n"]}`),
		OutputSchema: json.RawMessage(`{"type":"object","required":["n"]}`),
	}
	tool := func(text string) func(context.Context, *mcpserver.ToolRequest) (*mcp.CallToolResult, error) {
		return func(_ context.Context, req *mcpserver.ToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(text + string(req.Arguments()) + string(req.LogLevel()))}}, nil
		}
	}
	reads := func(text string) func(context.Context, *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
		return func(_ context.Context, req *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: req.URI(), Text: text}}}, nil
		}
	}
	suggest := func(_ context.Context, req *mcpserver.CompleteRequest) (*mcp.Completion, error) {
		return &mcp.Completion{Values: []string{req.Argument() + req.Value()}}, nil
	}
	for _, text := range []string{"first", "second"} {
		for _, err := range []error{
			mcpserver.RelayTool(s, def, tool(text)),
			mcpserver.RelayResource(s, &mcp.Resource{URI: "test://r", Name: "r"}, reads(text)),
			mcpserver.RelayTemplate(s, &mcp.ResourceTemplate{URITemplate: "test://t/{x}", Name: "t"}, reads(text+" template"), suggest),
			mcpserver.RelayPrompt(s, &mcp.Prompt{Name: "p", Arguments: []mcp.PromptArgument{{Name: "a"}}},
				func(_ context.Context, _ *mcpserver.PromptRequest, args map[string]string) (*mcp.GetPromptResult, error) {
					return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text(text + args["a"])}}}, nil
				}, suggest),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := mcpclient.Dial(t.Context(), mcpclient.InProcess("relay", s), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tools, err := c.ListTools(t.Context())
	if err != nil || len(tools) != 1 || string(tools[0].OutputSchema) != string(def.OutputSchema) {
		t.Errorf("ListTools: got %+v and error %v, want the one tool", tools, err)
	}
	res, err := c.CallTool(t.Context(), "t", json.RawMessage(`{"m":1}`), &mcpclient.CallOptions{AnyOutput: true, LogLevel: mcp.LogError})
	if err != nil || res.IsError || res.Content[0].(*mcp.TextContent).Text != `second{"m":1}error` {
		t.Errorf("CallTool: got %+v and error %v", res, err)
	}
	if _, err := c.ReadResource(t.Context(), "test://other", nil); !errors.Is(err, mcpclient.ErrNotFound) {
		t.Errorf("ReadResource of what nobody has: got error %v, want that it is not there", err)
	}
	mcpserver.RelayOthers(s, reads("others"))
	for uri, want := range map[string]string{"test://r": "second", "test://t/1": "second template", "test://other": "others"} {
		read, err := c.ReadResource(t.Context(), uri, &mcpclient.CallOptions{Fresh: true})
		if err != nil || read.Contents[0].Text != want {
			t.Errorf("ReadResource(%q): got %+v and error %v, want %q", uri, read, err, want)
		}
	}
	if _, err := c.ReadResource(t.Context(), "test://a/../b", nil); !errors.Is(err, mcpclient.ErrNotFound) { // SECA-46
		t.Errorf("ReadResource of a URI that climbs: got error %v, want that it is not there", err)
	}
	for _, ref := range []mcp.CompletionRef{{Type: mcp.RefPrompt, Name: "p"}, {Type: mcp.RefResource, URI: "test://t/{x}"}} {
		argument := map[string]string{mcp.RefPrompt: "a", mcp.RefResource: "x"}[ref.Type]
		got, err := c.Complete(t.Context(), &mcp.CompleteParams{Ref: ref, Argument: mcp.CompletionArgument{Name: argument, Value: "v"}})
		if err != nil || !slices.Equal(got.Values, []string{argument + "v"}) {
			t.Errorf("Complete of %v: got %v and error %v", ref, got, err)
		}
	}
	sub, err := c.Subscribe(t.Context(), "test://r", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	sub.Close()
	c.Close()
	s.Close()
	if want := []string{"test://rtrue", "test://rfalse"}; !slices.Equal(watched, want) {
		t.Errorf("OnWatched heard %q, want %q", watched, want)
	}
}

// What can not be relayed is refused, and keeps nobody from being served.
func TestRelayRefuses(t *testing.T) {
	s, err := mcpserver.New(mcp.Implementation{Name: "relay", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	object := json.RawMessage(`{"type":"object"}`)
	for _, def := range []*mcp.Tool{
		nil, {Name: "a b", InputSchema: object}, {Name: "a"}, {Name: "a", InputSchema: json.RawMessage(`{"type":"string"}`)},
		{Name: "a", InputSchema: object, Icons: []mcp.Icon{{Src: "javascript:x"}}},
		{Name: "a", InputSchema: object, Execution: &mcp.ToolExecution{TaskSupport: "perhaps"}},
	} {
		if err := mcpserver.RelayTool(s, def, nil); err == nil {
			t.Errorf("RelayTool(%+v): got no error", def)
		}
	}
	size := int64(-1)
	for _, def := range []*mcp.Resource{nil, {URI: "no scheme", Name: "x"}, {URI: "test://x"}, {URI: "test://x", Name: "x", Size: &size}} {
		if err := mcpserver.RelayResource(s, def, nil); err == nil {
			t.Errorf("RelayResource(%+v): got no error", def)
		}
	}
	if err := mcpserver.RelayTemplate(s, &mcp.ResourceTemplate{URITemplate: "{+any}", Name: "x"}, nil, nil); err == nil {
		t.Error("RelayTemplate without a scheme: got no error")
	}
	if err := mcpserver.RelayPrompt(s, &mcp.Prompt{}, nil, nil); err == nil {
		t.Error("RelayPrompt without a name: got no error")
	}
	c, err := mcpclient.Dial(t.Context(), mcpclient.InProcess("relay", s), nil)
	if err != nil {
		t.Fatalf("serving after what was refused: %v", err)
	}
	c.Close()
}
