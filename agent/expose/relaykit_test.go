package expose_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// downstream is a server that asks its clients all there is to ask.
type downstream struct {
	*mcpserver.Server
	mu        sync.Mutex
	calls     map[string]int // of each tool
	caps      []*mcp.ClientCapabilities
	waiting   chan struct{} // gets a value when the tool wait is at work
	cancelled chan error    // with what it was cancelled
	pages     chan string   // the ids of the pages that were asked for
}

func newDownstream(t *testing.T) *downstream {
	t.Helper()
	s, err := mcpserver.New(mcp.Implementation{Name: "down", Version: "1"}, &mcpserver.Options{Logger: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	d := &downstream{Server: s, calls: map[string]int{}, waiting: make(chan struct{}, 8), cancelled: make(chan error, 8), pages: make(chan string, 8)}
	type none struct{}
	tool := func(name string, f func(ctx context.Context, req *mcpserver.ToolRequest) (string, error)) {
		err := mcpserver.AddTool(s, &mcp.Tool{Name: name, Description: name}, func(ctx context.Context, req *mcpserver.ToolRequest, _ none) (string, error) {
			_, err := mcpserver.Once(ctx, req, "count", func(context.Context) (int, error) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.calls[name]++
				d.caps = append(d.caps, req.Client().Capabilities)
				return 0, nil
			})
			if err != nil {
				return "", err
			}
			return f(ctx, req)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	tool("form", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
		type who struct {
			Name string `json:"name"`
		}
		got, err := mcpserver.Elicit[who](ctx, req, "who", "What is your name?")
		if err != nil {
			return "", err
		}
		return "Hello, " + got.Name, nil
	})
	tool("url", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
		if err := req.ElicitURL(ctx, "page", "Please sign in.", "https://id.example/sign?id="+mcpserver.ElicitationID); err != nil {
			return "", err
		}
		return "signed in", nil
	})
	tool("sample", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
		got, err := req.Sample(ctx, "joke", &mcp.CreateMessageParams{MaxTokens: 50,
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("a joke?")}}}})
		if err != nil {
			return "", err
		}
		return text(got.Content), nil
	})
	tool("roots", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
		roots, err := req.Roots(ctx, "roots")
		if err != nil {
			return "", err
		}
		var all []string
		for _, r := range roots {
			all = append(all, r.URI)
		}
		return strings.Join(all, " "), nil
	})
	tool("progress", func(_ context.Context, req *mcpserver.ToolRequest) (string, error) {
		req.Progress(1, 2, "half of it")
		return "done", nil
	})
	tool("log", func(_ context.Context, req *mcpserver.ToolRequest) (string, error) {
		req.Log(mcp.LogWarning, "oven", "it is hot")
		return "done", nil
	})
	tool("wait", func(ctx context.Context, _ *mcpserver.ToolRequest) (string, error) {
		d.waiting <- struct{}{}
		<-ctx.Done()
		d.cancelled <- context.Cause(ctx)
		return "", context.Cause(ctx)
	})
	tool("two", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
		schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
		a := mcpserver.FormQuestion("a", &mcp.ElicitParams{Message: "first?", RequestedSchema: schema})
		b := mcpserver.FormQuestion("b", &mcp.ElicitParams{Message: "second?", RequestedSchema: schema})
		if err := req.Ask(ctx, a, b); err != nil {
			return "", err
		}
		return string(a.Elicited.Content["n"]) + "+" + string(b.Elicited.Content["n"]), errors.Join(a.Err, b.Err)
	})
	return d
}

func (d *downstream) count(tool string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[tool]
}

// caller is a model that calls the tool its prompt names, and says what that answers.
func caller() llm.Model {
	return llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		last := req.Messages[len(req.Messages)-1]
		for _, c := range last.Content {
			if r, ok := c.(*mcp.ToolResultContent); ok {
				return llmtest.Say(text(r.Content))
			}
		}
		return llmtest.Call("down__"+text(last.Content), `{}`)
	}))
}

func text(cs mcp.Contents) string {
	var all []string
	for _, c := range cs {
		if t, ok := c.(*mcp.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n")
}

// front is a front over a runtime with the downstream server in one era.
type front struct {
	*expose.Front
	rt   *agent.Runtime
	down *downstream
}

func newFront(t *testing.T, era string, change func(*agent.Options, *expose.Options)) *front {
	t.Helper()
	down := newDownstream(t)
	server := mcpclient.InProcess("down", down)
	server.Protocol = era
	server.Trusted = true
	ro := &agent.Options{Model: caller(), Servers: []mcpclient.Server{server}, Approve: agent.NeverAsk, Logger: logger(t)}
	fo := &expose.Options{Gateway: true, Logger: logger(t)}
	if change != nil {
		change(ro, fo)
	}
	rt, err := agent.Open(t.Context(), ro)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("closing the runtime: %v", err)
		}
	})
	helper, err := rt.Agent("helper", &agent.Config{Description: "Helps.", Instructions: "Be brief."})
	if err != nil {
		t.Fatal(err)
	}
	if fo.Agents == nil {
		fo.Agents = []*agent.Agent{helper}
	}
	f, err := expose.New(rt, fo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("closing the front: %v", err)
		}
		if n := f.Clients(); n != 0 {
			t.Errorf("clients after Close: got %d, want 0", n)
		}
	})
	return &front{f, rt, down}
}

// ways are the ways in which a client reaches the front.
var ways = []struct {
	name, transport, protocol string
}{
	{"pipe 2025-11-25", "pipe", "2025-11-25"},
	{"pipe 2025-06-18", "pipe", "2025-06-18"},
	{"pipe 2026-07-28", "pipe", "2026-07-28"},
	{"HTTP 2025-11-25", "http", "2025-11-25"},
	{"HTTP 2026-07-28", "http", "2026-07-28"},
	{"SSE 2024-11-05", "sse", "2024-11-05"},
}

// upstream is a client of the front.
type upstream struct {
	*mcpclient.Client
	mu       sync.Mutex
	asks     []mcpclient.Ask
	samples  []mcpclient.SampleRequest
	progress []mcpclient.Progress
	logs     chan mcp.LogParams
	opened   chan string
	form     func(ctx context.Context, a *mcpclient.Ask) (*mcpclient.Decision, error)
}

// dial connects a client that can do all there is, unless change says otherwise.
func (f *front) dial(t *testing.T, transport, protocol string, change func(*mcpclient.Options)) *upstream {
	t.Helper()
	return f.connect(t, mcpclient.Server{Name: "front", Protocol: protocol}, transport, protocol, change)
}

// dialAs is dial of somebody who says who it is.
func (f *front) dialAs(t *testing.T, name, transport, protocol string) *upstream {
	t.Helper()
	server := mcpclient.Server{Name: "front", Protocol: protocol, Headers: map[string]string{"X-User": name}}
	if transport == "pipe" {
		server.Headers = nil
	}
	return f.connect(t, server, transport, protocol, nil)
}

func (f *front) connect(t *testing.T, server mcpclient.Server, transport, protocol string, change func(*mcpclient.Options)) *upstream {
	t.Helper()
	switch transport {
	case "pipe":
		server = mcpclient.Stream("front", func(context.Context) (io.ReadWriteCloser, error) {
			ours, theirs := net.Pipe()
			go func() { _ = f.Serve(context.WithoutCancel(t.Context()), ours, ours) }()
			return theirs, nil
		})
		server.Protocol = protocol
	case "http":
		server.URL = serve(t, f.Handler())
	case "sse":
		server.URL, server.Transport = serve(t, f.SSEHandler()), mcpclient.TransportSSE
	}
	u := &upstream{opened: make(chan string, 8), logs: make(chan mcp.LogParams, 256)}
	o := &mcpclient.Options{Logger: logger(t), LogLevel: mcp.LogDebug, OnLog: func(_ string, p mcp.LogParams) {
		select {
		case u.logs <- p:
		default:
		}
	}}
	o.Human, o.SampleFreely, o.Roots = u, true, []mcp.Root{{URI: "file:///home/ada"}}
	o.RootAvailable = func(string) bool { return true }
	o.OpenURL = func(_ context.Context, url string) error { u.opened <- url; return nil }
	o.Sampler = mcpclient.SamplerFunc(func(_ context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.samples = append(u.samples, *req)
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "upstream", Content: mcp.Contents{mcp.Text("ha")}}, nil
	})
	if change != nil {
		change(o)
	}
	c, err := mcpclient.Dial(t.Context(), server, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	u.Client = c
	return u
}

// Decide implements [mcpclient.Human].
func (u *upstream) Decide(ctx context.Context, a *mcpclient.Ask) (*mcpclient.Decision, error) {
	u.mu.Lock()
	u.asks = append(u.asks, *a)
	form := u.form
	u.mu.Unlock()
	if form != nil && a.Kind == mcpclient.AskForm {
		return form(ctx, a)
	}
	d := &mcpclient.Decision{Action: mcp.ActionAccept}
	if a.Kind == mcpclient.AskForm {
		d.Content = map[string]json.RawMessage{"name": json.RawMessage(`"Ada"`)}
	}
	return d, nil
}

// numbers fills in the number n of a form by what its message ends with.
func numbers(by map[string]string) func(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
	return func(_ context.Context, a *mcpclient.Ask) (*mcpclient.Decision, error) {
		for end, n := range by {
			if strings.HasSuffix(a.Message, end) {
				return &mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"n": json.RawMessage(n)}}, nil
			}
		}
		return nil, errors.New("unexpected question")
	}
}

func (u *upstream) asked() []mcpclient.Ask {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asks
}

// ask calls a tool of the downstream server: by the agent, or by the gateway.
func (u *upstream) ask(t *testing.T, by, tool string) *mcp.CallToolResult {
	t.Helper()
	res, err := u.call(t.Context(), by, tool)
	if err != nil {
		t.Fatalf("%s by the %s: %v", tool, by, err)
	}
	return res
}

func (u *upstream) call(ctx context.Context, by, tool string) (*mcp.CallToolResult, error) {
	name, args := "down__"+tool, `{}`
	if by == "agent" {
		name, args = "helper", `{"prompt":"`+tool+`"}`
	}
	return u.CallTool(ctx, name, json.RawMessage(args), &mcpclient.CallOptions{Progress: func(p mcpclient.Progress) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.progress = append(u.progress, p)
	}})
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// logger writes to the test's output.
func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testLog struct{ t *testing.T }

func (w testLog) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		_, _ = w.t.Output().Write(bytes.Clone(b))
	}
	return len(b), nil
}
