package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
)

// TestSDKClientDrivesFixture: the go-sdk client uses all that the fixture of the
// conformance suite has, in every revision, over every transport it knows.
func TestSDKClientDrivesFixture(t *testing.T) {
	program := peers.RequireFixture(t)
	transports := []struct {
		name string
		open func(t *testing.T) sdk.Transport
	}{
		{"stdio", func(t *testing.T) sdk.Transport {
			cmd := exec.Command(program, "-stdio")
			cmd.Stderr = os.Stderr
			return &sdk.CommandTransport{Command: cmd}
		}},
		{"http", func(t *testing.T) sdk.Transport {
			return &sdk.StreamableClientTransport{Endpoint: peers.ListenFixture(t, program).URL}
		}},
		{"sse", func(t *testing.T) sdk.Transport {
			return &sdk.SSEClientTransport{Endpoint: peers.ListenFixture(t, program).SSE()}
		}},
	}
	for _, via := range transports {
		for _, v := range mcp.Versions() {
			if via.name == "sse" && v != mcp.V2024_11_05 || via.name == "http" && v == mcp.V2024_11_05 {
				continue // SHL-01: HTTP+SSE is of 2024-11-05, and it has nothing else
			}
			t.Run(via.name+" "+string(v), func(t *testing.T) {
				t.Parallel()
				useFixture(t, via.open(t), v)
			})
		}
	}
}

// visitor is a go-sdk client of the fixture.
type visitor struct {
	*sdk.ClientSession
	ctx     context.Context
	version mcp.Version

	mu      sync.Mutex
	logs    []string
	action  string // what the user does with forms
	steps   chan float64
	updated chan string
	changed chan struct{}
}

// visit connects a client that answers whatever it is asked.
func visit(t *testing.T, transport sdk.Transport, version mcp.Version) *visitor {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	v := &visitor{
		ctx: ctx, version: version, action: "accept",
		steps: make(chan float64, 100), updated: make(chan string, 100), changed: make(chan struct{}, 100),
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "sdk-client", Version: "1"}, &sdk.ClientOptions{
		CreateMessageHandler: func(_ context.Context, req *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			asked, _ := req.Params.Messages[0].Content.(*sdk.TextContent)
			return &sdk.CreateMessageResult{Role: "assistant", Model: "scripted", Content: &sdk.TextContent{Text: "reply to " + asked.Text}}, nil
		},
		ElicitationHandler: v.fill,
		LoggingMessageHandler: func(_ context.Context, req *sdk.LoggingMessageRequest) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.logs = append(v.logs, fmt.Sprint(req.Params.Data))
		},
		ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) { v.steps <- req.Params.Progress },
		ResourceUpdatedHandler: func(_ context.Context, req *sdk.ResourceUpdatedNotificationRequest) {
			v.updated <- req.Params.URI
		},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { v.changed <- struct{}{} },
	})
	client.AddRoots(&sdk.Root{URI: "file:///project", Name: "project"})
	session, err := client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: string(version)})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { _ = session.Close() })
	v.ClientSession = session
	return v
}

// fill fills in a form: a text for each of its fields.
func (v *visitor) fill(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.action != "accept" {
		return &sdk.ElicitResult{Action: v.action}, nil
	}
	raw, err := json.Marshal(req.Params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	var schema struct {
		Properties map[string]struct{ Type string }
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	content := map[string]any{}
	for name, field := range schema.Properties {
		content[name] = "my " + name
		if field.Type == "boolean" {
			content[name] = true
		}
	}
	return &sdk.ElicitResult{Action: "accept", Content: content}, nil
}

func (v *visitor) acts(action string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.action = action
}

// call calls a tool; an error and a result that is one are told apart by the prefix.
func (v *visitor) call(name string, args map[string]any) string {
	params := &sdk.CallToolParams{Name: name}
	if args != nil { // else they would be null, which is no object
		params.Arguments = args
	}
	params.SetProgressToken("p")
	if v.version == mcp.V2026_07_28 {
		params.Meta["io.modelcontextprotocol/logLevel"] = "info"
	}
	res, err := v.CallTool(v.ctx, params)
	if err != nil {
		return "refused: " + err.Error()
	}
	var texts []string
	for _, c := range res.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	if res.IsError {
		return "failed: " + strings.Join(texts, " ")
	}
	return strings.Join(texts, " ")
}

// useFixture goes through the fixture's features.
func useFixture(t *testing.T, transport sdk.Transport, version mcp.Version) {
	v := visit(t, transport, version)
	if got := v.InitializeResult().ProtocolVersion; got != string(version) {
		t.Errorf("negotiated %s, want %s", got, version)
	}
	forms := version >= mcp.V2025_06_18 // ELIC-01: there were none before
	calls := []struct {
		tool  string
		args  map[string]any
		want  string
		forms bool // it asks the user
	}{
		{tool: "test_simple_text", want: "This is a simple text response for testing."},
		{tool: "test_error_handling", want: "failed: This tool intentionally returns an error for testing"},
		{tool: "greet", args: map[string]any{"name": "Ada"}, want: "Hello, Ada!"},
		{tool: "slow_compute", args: map[string]any{"seconds": 0, "label": "x"}, want: "Computed x in 0 s"},
		{tool: "test_sampling", args: map[string]any{"prompt": "q"}, want: "LLM response: reply to q"},
		{tool: "test_input_required_result_list_roots", want: "Roots: file:///project"},
		{tool: "test_elicitation", args: map[string]any{"message": "Who?"}, forms: true,
			want: `User response: action=accept, content={"email":"my email","username":"my username"}`},
		{tool: "test_input_required_result_elicitation", want: "Hello, my name!", forms: true},
		{tool: "test_input_required_result_multiple_inputs", want: `reply to Generate a greeting "my name" of file:///project`, forms: true},
		{tool: "test_input_required_result_multi_round", want: "my name likes my color.", forms: true},
		{tool: "test_input_required_result_request_state", want: "state-ok", forms: true},
	}
	for _, c := range calls {
		got := v.call(c.tool, c.args)
		if c.forms && !forms {
			if !strings.HasPrefix(got, "failed: ") {
				t.Errorf("%s in a revision without forms: got %q, want an error", c.tool, got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.tool, got, c.want)
		}
	}
	if forms {
		v.acts("decline")
		if got := v.call("test_elicitation", map[string]any{"message": "Who?"}); got != "User response: action=decline, content={}" {
			t.Errorf("test_elicitation declined: got %q", got)
		}
	}
	t.Run("while it runs", func(t *testing.T) { whileItRuns(t, v) })
	t.Run("resources", func(t *testing.T) { useResources(t, v) })
	t.Run("prompts", func(t *testing.T) { usePrompts(t, v) })
	t.Run("cancel", func(t *testing.T) { cancelled(t, v) })
}

// whileItRuns is progress, and logs.
func whileItRuns(t *testing.T, v *visitor) {
	if v.version != mcp.V2026_07_28 {
		if err := v.SetLoggingLevel(v.ctx, &sdk.SetLoggingLevelParams{Level: "debug"}); err != nil {
			t.Fatalf("SetLoggingLevel: %v", err)
		}
	}
	v.call("test_tool_with_progress", nil)
	for _, want := range []float64{0, 50, 100} { // notifications come before the result; the SDK delivers them beside it
		select {
		case got := <-v.steps:
			if got != want {
				t.Errorf("progress: got %v, want %v", got, want)
			}
		case <-v.ctx.Done():
			t.Fatalf("progress %v did not come", want)
		}
	}
	v.call("test_tool_with_logging", nil)
	v.call("test_simple_text", nil)
	want := []string{"Tool execution started", "Tool processing data", "Tool execution completed"}
	logged := func() []string {
		v.mu.Lock()
		defer v.mu.Unlock()
		return slices.Clone(v.logs)
	}
	until(t, v.ctx, func() bool { return len(logged()) >= len(want) })
	if got := logged(); !slices.Equal(got, want) {
		t.Errorf("logs: got %q, want %q", got, want)
	}
}

// useResources reads, and watches.
func useResources(t *testing.T, v *visitor) {
	read := func(uri string) *sdk.ResourceContents {
		res, err := v.ReadResource(v.ctx, &sdk.ReadResourceParams{URI: uri})
		if err != nil || len(res.Contents) != 1 {
			t.Fatalf("ReadResource(%s): got %+v, %v", uri, res, err)
		}
		return res.Contents[0]
	}
	if got := read("test://static-text"); got.Text != "This is the content of the static text resource." || got.MIMEType != "text/plain" {
		t.Errorf("static text: got %+v", got)
	}
	if got := read("test://static-binary"); len(got.Blob) == 0 || got.MIMEType != "image/png" {
		t.Errorf("static binary: got %+v", got)
	}
	if got := read("test://template/7/data"); !strings.Contains(got.Text, `"id":"7"`) {
		t.Errorf("template: got %+v", got)
	}
	if res, err := v.ReadResource(v.ctx, &sdk.ReadResourceParams{URI: "test://no-such-thing"}); err == nil {
		t.Errorf("a resource that is not there: got %+v", res)
	}

	const watched = "test://watched-resource"
	if err := v.Subscribe(v.ctx, &sdk.SubscribeParams{URI: watched}); err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	v.call("test_trigger_resource_update", nil)
	select {
	case got := <-v.updated:
		if got != watched {
			t.Errorf("updated: got %s, want %s", got, watched)
		}
	case <-v.ctx.Done():
		t.Fatal("the update did not come (SUB-04)")
	}
	// A gateway tells of changes of a list that the client has, and not of its making.
	if res, err := v.ListTools(v.ctx, nil); err != nil || len(res.Tools) == 0 {
		t.Fatalf("ListTools: got %+v, %v", res, err)
	}
	v.call("test_trigger_tool_change", nil)
	select {
	case <-v.changed:
	case <-v.ctx.Done():
		t.Fatal("the change of the tools did not come (SUB-03)")
	}
}

// usePrompts gets prompts, one of which asks, and completes an argument.
func usePrompts(t *testing.T, v *visitor) {
	get := func(name string, args map[string]string) string {
		res, err := v.GetPrompt(v.ctx, &sdk.GetPromptParams{Name: name, Arguments: args})
		if err != nil || len(res.Messages) == 0 {
			return fmt.Sprintf("%+v, %v", res, err)
		}
		text, _ := res.Messages[0].Content.(*sdk.TextContent)
		return text.Text
	}
	if got, want := get("test_prompt_with_arguments", map[string]string{"arg1": "a", "arg2": "b"}), "Prompt with arguments: arg1='a', arg2='b'"; got != want {
		t.Errorf("prompt: got %q, want %q", got, want)
	}
	v.acts("accept")
	if got, want := get("test_input_required_result_prompt", nil), "Use this context: my context"; v.version >= mcp.V2025_06_18 && got != want {
		t.Errorf("prompt that asks: got %q, want %q", got, want)
	}
	res, err := v.Complete(v.ctx, &sdk.CompleteParams{
		Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"}, Argument: sdk.CompleteParamsArgument{Name: "arg1", Value: "pari"},
	})
	if err != nil || len(res.Completion.Values) == 0 || res.Completion.Values[0] != "paris" {
		t.Errorf("Complete: got %+v, %v, want paris", res, err)
	}
}

// cancelled gives up a call; the next is answered.
func cancelled(t *testing.T, v *visitor) {
	ctx, cancel := context.WithCancel(v.ctx)
	ended := make(chan error, 1)
	go func() {
		params := &sdk.CallToolParams{Name: "slow_compute", Arguments: map[string]any{"seconds": 60}}
		_, err := v.CallTool(ctx, params)
		ended <- err
	}()
	v.call("test_tool_with_progress", nil) // takes a while, so that the other is under way
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: got %v", err)
	}
	if got := v.call("greet", map[string]any{"name": "again"}); got != "Hello, again!" {
		t.Errorf("afterwards: got %q", got)
	}
}
