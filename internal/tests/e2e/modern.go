package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Patience bounds the waits on a real process, those of all steps of a test together.
const Patience = 2 * time.Minute

// watched is a resource of the servers that [Modern] tests against.
const watched = "fixture://watched"

// Modern tests the client against a server of 2026-07-28 that has the tools echo,
// ask_form, ask_url, ask_model, ask_roots, ask_all, ask_rounds, count, touch and grow,
// the prompt ask_prompt and the resources fixture://watched and fixture://asking, as
// modern.mjs of package peers. Each test has a connection of its own.
func Modern(t *testing.T, server mcpclient.Server) {
	t.Run("discover", func(t *testing.T) { discover(t, server) })
	t.Run("rounds", func(t *testing.T) { rounds(t, server) })
	t.Run("refusals", func(t *testing.T) { refusals(t, server) })
	t.Run("progress and logs", func(t *testing.T) { progressAndLogs(t, server) })
	t.Run("listen", func(t *testing.T) { listen(t, server) })
}

// Connect dials and closes at the end of the test.
func Connect(t *testing.T, server mcpclient.Server, opts *mcpclient.Options) (context.Context, *mcpclient.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	o := *cmp.Or(opts, new(mcpclient.Options))
	o.ProbeTimeout = Patience // a busy machine makes no legacy server (ERA-03)
	client, err := mcpclient.Dial(ctx, server, &o)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return ctx, client
}

// discover is era and revision, found out and pinned (ERA-03, MOD-04).
func discover(t *testing.T, server mcpclient.Server) {
	for _, protocol := range []string{mcpclient.ProtocolAuto, mcpclient.ProtocolModern, string(mcp.V2026_07_28)} {
		server.Protocol = protocol
		ctx, client := Connect(t, server, nil)
		info, err := client.Info(ctx)
		if err != nil {
			t.Fatalf("Info with protocol %s: %v", protocol, err)
		}
		if info.Version != mcp.V2026_07_28 || info.Era != mcp.EraModern || info.Discovered == nil || info.Server == nil || info.Server.Name == "" {
			t.Errorf("Info with protocol %s: got %+v, want a discovered server of 2026-07-28", protocol, info)
		}
		res, err := client.CallTool(ctx, "echo", json.RawMessage(`{"text":"hello"}`), nil)
		if err != nil || res.Content.Text() != "Echo: hello" {
			t.Errorf("echo with protocol %s: got %+v, %v", protocol, res, err)
		}
	}
}

// rounds are results that ask for input: each kind, all at once with a state, several
// rounds, and from prompts and resources (MRTR-01, MRTR-03, MRTR-10).
func rounds(t *testing.T, server mcpclient.Server) {
	root := Root(t)
	p := &Person{Says: "Paris", Fills: map[string]json.RawMessage{
		"name": Quote("Ada"), "word": Quote("yes"), "topic": Quote("cats"), "why": Quote("it is so"),
	}}
	ctx, client := Connect(t, server, Offering(p, root))
	for _, tt := range []struct {
		tool, want string
		asks       int // of the person; a sample is two, before and after
	}{
		{"ask_form", `accept {"name":"Ada"}`, 1},
		{"ask_url", `accept {}`, 1},
		{"ask_model", "Paris", 2},
		{"ask_roots", root.URI, 0},
		{"ask_all", `accept {"name":"Ada"}; Paris; ` + root.URI + "; state sealed", 3},
		{"ask_rounds", `begun` + strings.Repeat(`; accept {"word":"yes"}`, 3), 3},
	} {
		before := len(p.Asks())
		res, err := client.CallTool(ctx, tt.tool, json.RawMessage(`{}`), nil)
		if err != nil || res.IsError {
			t.Errorf("CallTool(%s): got %+v, %v", tt.tool, res, err)
			continue
		}
		if got := res.Content.Text(); got != tt.want {
			t.Errorf("CallTool(%s): got %q, want %q", tt.tool, got, tt.want)
		}
		if n := len(p.Asks()) - before; n != tt.asks {
			t.Errorf("CallTool(%s): the person was asked %d times, want %d", tt.tool, n, tt.asks)
		}
	}
	if got, want := p.Opened(), []string{"https://example.com/sign-in"}; !slices.Equal(got, want) {
		t.Errorf("opened %q, want %q", got, want)
	}

	prompt, err := client.GetPrompt(ctx, "ask_prompt", nil, nil)
	if err != nil || len(prompt.Messages) != 1 {
		t.Fatalf("GetPrompt: got %+v, %v", prompt, err)
	}
	if text, ok := prompt.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != `About accept {"topic":"cats"}` {
		t.Errorf("GetPrompt: got %+v", prompt.Messages[0].Content)
	}
	read, err := client.ReadResource(ctx, "fixture://asking", nil)
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != `Because accept {"why":"it is so"}` {
		t.Errorf("ReadResource: got %+v, %v", read, err)
	}
}

// refusals reach the server as such, and what was not declared is not asked.
func refusals(t *testing.T, server mcpclient.Server) {
	for _, action := range []string{mcp.ActionDecline, mcp.ActionCancel} {
		p := &Person{Action: action}
		ctx, client := Connect(t, server, Offering(p))
		for _, tool := range []string{"ask_form", "ask_url"} {
			res, err := client.CallTool(ctx, tool, nil, nil)
			if err != nil || res.Content.Text() != action+" {}" {
				t.Errorf("CallTool(%s) with %s: got %+v, %v", tool, action, res, err)
			}
		}
		if got := p.Opened(); len(got) > 0 {
			t.Errorf("opened %q after a %s (URL-11)", got, action)
		}
	}
	ctx, client := Connect(t, server, nil)
	for _, tool := range []string{"ask_form", "ask_url", "ask_model", "ask_roots"} {
		if res, err := client.CallTool(ctx, tool, nil, nil); err == nil && !res.IsError {
			t.Errorf("CallTool(%s) of a client that offers nothing: got %+v, want an error", tool, res)
		}
	}
	if res, err := client.CallTool(ctx, "echo", json.RawMessage(`{"text":"still there"}`), nil); err != nil || res.IsError {
		t.Errorf("echo afterwards: got %+v, %v", res, err)
	}
}

// progressAndLogs come for the call that asked for them (PROG-01, LOG-05).
func progressAndLogs(t *testing.T, server mcpclient.Server) {
	logs := make(chan mcp.LogParams, 100)
	ctx, client := Connect(t, server, &mcpclient.Options{OnLog: func(_ string, p mcp.LogParams) { logs <- p }})
	var steps []float64
	res, err := client.CallTool(ctx, "count", json.RawMessage(`{"to":3}`), &mcpclient.CallOptions{
		Progress: func(p mcpclient.Progress) { steps = append(steps, p.Progress) },
		LogLevel: mcp.LogInfo,
	})
	if err != nil || res.Content.Text() != "counted to 3" {
		t.Fatalf("count: got %+v, %v", res, err)
	}
	if want := []float64{1, 2, 3}; !slices.Equal(steps, want) {
		t.Errorf("progress: got %v, want %v", steps, want)
	}
	for i := 1; i <= 3; i++ {
		if log := next(ctx, t, logs, "a log"); log.Level != mcp.LogInfo || !strings.Contains(string(log.Data), fmt.Sprint("at ", i)) {
			t.Errorf("log %d: got %s %s, want info at %d", i, log.Level, log.Data, i)
		}
	}
	if _, err := client.CallTool(ctx, "count", json.RawMessage(`{"to":1}`), nil); err != nil {
		t.Fatalf("count: %v", err)
	}
	act(ctx, t, client, "touch") // something else, so that a log would have come before
	if len(logs) > 0 {
		t.Errorf("a call that asked for no logs: got %+v", <-logs)
	}
}

// listen is what a server tells of changes (SUB-01).
func listen(t *testing.T, server mcpclient.Server) {
	changed := make(chan struct{}, 10)
	ctx, client := Connect(t, server, &mcpclient.Options{OnToolsChanged: func() { changed <- struct{}{} }})
	tools, err := client.ListTools(ctx)
	if err != nil {
		t.Fatalf("ListTools: %v", err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(tools, func(tool mcp.Tool) bool { return tool.Name == name })
	}
	if !has("grow") || has("grown") {
		t.Fatalf("ListTools: got %+v, want grow and not grown", tools)
	}

	updates := make(chan string, 10)
	sub, err := client.Subscribe(ctx, watched, func(uri string) { updates <- uri })
	if err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	act(ctx, t, client, "touch")
	if got := next(ctx, t, updates, "the update"); got != watched {
		t.Errorf("updated: got %q, want %q", got, watched)
	}
	if err := sub.Close(); err != nil {
		t.Errorf("closing the subscription: %v", err)
	}

	if _, err := client.Listen(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}, func(mcpclient.Notice) {}); err != nil {
		t.Fatalf("Listen: %v", err)
	}
	act(ctx, t, client, "grow")
	next(ctx, t, changed, "the change of the tools")
	if tools, err = client.ListTools(ctx); err != nil || !has("grown") {
		t.Errorf("ListTools after the change: got %d tools, %v, want grown among them", len(tools), err)
	}
	if res, err := client.CallTool(ctx, "grown", nil, nil); err != nil || res.Content.Text() != "I am new." {
		t.Errorf("grown: got %+v, %v", res, err)
	}
}

// act calls a tool that has an effect.
func act(ctx context.Context, t *testing.T, client *mcpclient.Client, tool string) {
	t.Helper()
	if res, err := client.CallTool(ctx, tool, nil, nil); err != nil || res.IsError {
		t.Fatalf("CallTool(%s): got %+v, %v", tool, res, err)
	}
}

// next waits for what a callback sends.
func next[T any](ctx context.Context, t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
		t.Fatalf("%s did not come", what)
		panic("not reached")
	}
}
