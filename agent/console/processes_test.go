package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store/memstore"
)

// fakeProcess is a process whose server is hostile.
type fakeProcess struct {
	pid     int
	err     error
	retried atomic.Int32
}

func (p *fakeProcess) PID() int { return p.pid }

func (p *fakeProcess) Health(context.Context) (*console.ProcessIdentity, error) {
	return &console.ProcessIdentity{PID: p.pid, Command: hostile, Started: time.Now()}, p.err
}

func (p *fakeProcess) Tree(context.Context) (*console.Tree, error) {
	return &console.Tree{Actors: []admin.Actor{
		{Path: "runtime", Kind: "runtime", State: "live"},
		{Path: "runtime/client-x", Kind: "client", State: hostile, Title: hostile, Restarts: 2, LastError: hostile},
	}}, nil
}

func (p *fakeProcess) Servers(context.Context) ([]console.ServerState, error) {
	return []console.ServerState{p.state()}, nil
}

func (p *fakeProcess) state() console.ServerState {
	return console.ServerState{Name: hostile, State: "backoff", Error: hostile, ListError: hostile, Software: hostile, Login: hostile, Command: hostile, Warnings: []string{hostile}}
}

func (p *fakeProcess) ServerNamed(_ context.Context, name string) (*console.ServerDetail, error) {
	if name != hostile {
		return nil, admin.ErrNoServer
	}
	return &console.ServerDetail{ServerState: p.state(), Capabilities: json.RawMessage(`{"x":"</pre><script>"}`), Instructions: hostile, Log: hostile,
		All: []admin.ToolState{{Name: hostile, Description: hostile, Definition: hostile + "\nnow", Before: hostile + "\nbefore", Pin: admin.PinChanged, Warnings: []string{hostile}}}}, nil
}

func (p *fakeProcess) Reconnect(_ context.Context, name string) error {
	if name != hostile {
		return admin.ErrNoServer
	}
	p.retried.Add(1)
	return nil
}

func (p *fakeProcess) Models(context.Context) ([]console.ProviderState, error) {
	return []console.ProviderState{{Name: hostile, Circuit: "open", Error: hostile, Until: time.Now().Add(time.Minute)}}, nil
}

// What servers and processes say is text on every page (XSS), also where a process does not answer.
func TestServersAreText(t *testing.T) {
	p := &fakeProcess{pid: 7}
	d := newDesk(t, func(o *console.Options) {
		o.Processes = func(context.Context) ([]console.Process, error) {
			return []console.Process{p, &fakeProcess{pid: 8, err: errors.New(hostile)}, &fakeProcess{pid: 9, err: admin.ErrGone}}, nil
		}
	})
	for _, path := range []string{"/servers", "/servers/7/" + url.PathEscape(hostile), "/tree", "/models"} {
		status, page := d.get(d.browser, path)
		if status != http.StatusOK {
			t.Fatalf("%s: %d", path, status)
		}
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") || strings.Contains(page, `href="javascript:`) || strings.Contains(page, "</pre><script>") {
			t.Errorf("%s has markup of a server:\n%s", path, page)
		}
		if !strings.Contains(page, "alert(1)") {
			t.Errorf("%s does not show what the server says:\n%s", path, page)
		}
	}
	if _, page := d.get(d.browser, "/servers"); strings.Contains(page, "rocess 9") {
		t.Error("a process that has ended is listed")
	}
	if _, page := d.get(d.browser, "/servers/7/"+url.PathEscape(hostile)); !strings.Contains(page, `class="gone">- before`) || !strings.Contains(page, `class="new">&#43; now`) {
		t.Errorf("the page does not say what has changed:\n%s", page)
	}
	if status, _ := d.get(d.browser, "/models?days=0"); status != http.StatusBadRequest {
		t.Errorf("a period that is none: %d", status)
	}
	for _, path := range []string{"/servers/7/none", "/servers/6/none", "/servers/x/none"} {
		if status, _ := d.get(d.browser, path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// An operator has a server connected to; a viewer does not, and neither does a form of another site (CSRF).
func TestReconnect(t *testing.T) {
	p, role := &fakeProcess{pid: 7}, console.Operator
	d := newDesk(t, func(o *console.Options) {
		o.Processes = func(context.Context) ([]console.Process, error) { return []console.Process{p}, nil }
	})
	path := "/servers/7/" + url.PathEscape(hostile)
	if status, page := d.post(d.browser, path+"/reconnect", nil); status != http.StatusOK || !strings.Contains(page, "has been asked to connect") || p.retried.Load() != 1 {
		t.Errorf("an operator: %d, %d attempts\n%s", status, p.retried.Load(), page)
	}
	if status, _ := d.post(d.browser, "/servers/7/none/reconnect", nil); status != http.StatusNotFound {
		t.Errorf("a server that does not exist: %d", status)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.server.URL+path+"/reconnect", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if status, _ := d.do(d.browser, req); status != http.StatusForbidden || p.retried.Load() != 1 {
		t.Errorf("another site: %d, %d attempts", status, p.retried.Load())
	}
	role = console.Answerer
	c, err := console.New(&console.Options{Store: d.store, Hosts: []string{strings.TrimPrefix(d.server.URL, "http://")},
		Visitor:   func(*http.Request) (string, console.Role) { return "eve", role },
		Processes: func(context.Context) ([]console.Process, error) { return []console.Process{p}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	d.server.Config.Handler = c
	if status, _ := d.post(http.DefaultClient, path+"/reconnect", nil); status != http.StatusForbidden || p.retried.Load() != 1 {
		t.Errorf("one who may only answer: %d, %d attempts", status, p.retried.Load())
	}
	if _, page := d.get(http.DefaultClient, path); strings.Contains(page, "Connect now") {
		t.Error("one who may only answer is offered to connect")
	}
}

// A console over a runtime shows its servers, with their tools and pins, and its actors.
func TestHandler(t *testing.T) {
	desk, err := mcpserver.New(mcp.Implementation{Name: "desk", Version: "1.2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	add := func(description string) {
		if err := mcpserver.AddTool(desk, &mcp.Tool{Name: "book", Description: description}, func(context.Context, *mcpserver.ToolRequest, struct{}) (string, error) {
			return "booked", nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	add("Books a room.")
	s := memstore.New(nil)
	rt, err := agent.Open(t.Context(), &agent.Options{Store: s, Model: llmtest.Script(llmtest.Say("Hello.")),
		Servers: []mcpclient.Server{mcpclient.InProcess("desk", desk)}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	if _, err := rt.Servers(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := console.Handler(rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, nil)
	d.console, d.server.Config.Handler = c, c
	d.browser = d.newBrowser()
	_, page := d.get(d.browser, "/servers")
	link := ""
	if at := strings.Index(page, `href="/servers/`); at >= 0 {
		link, _, _ = strings.Cut(page[at+len(`href="`):], `"`)
	}
	if !strings.Contains(page, "ready") || link == "" {
		t.Fatalf("the list of servers:\n%s", page)
	}
	if _, page = d.get(d.browser, link); !strings.Contains(page, "never called") || !strings.Contains(page, "Books a room.") || !strings.Contains(page, "desk 1.2") || strings.Contains(page, "Connect now") {
		t.Errorf("the server:\n%s", page)
	}
	if _, err := rt.Host().Call(t.Context(), "desk__book", json.RawMessage(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	if _, page = d.get(d.browser, link); !strings.Contains(page, "as accepted") {
		t.Errorf("after a call:\n%s", page)
	}
	if _, page = d.get(d.browser, "/tree"); !strings.Contains(page, "client") || !strings.Contains(page, "desk") {
		t.Errorf("the tree:\n%s", page)
	}
	own, err := agent.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if _, err := console.Handler(own, nil); err == nil || !strings.Contains(err.Error(), "agent.Options.Store") {
		t.Errorf("a runtime without a store: %v", err)
	}
}
