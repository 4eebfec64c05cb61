package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/catalogue"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
	"github.com/troupe-dev/troupe/mcpclient/internal/supervise"
)

// startBy starts fake processes by the name of their server.
func startBy(programs map[string]func(*fakeProcess) string) starter {
	return func(s *Server) (pipe.Process, error) {
		program := programs[s.Name]
		if program == nil {
			return nil, conn.Permanent(fmt.Errorf("starting %s: not found", s.Command))
		}
		return start(program), nil
	}
}

func good(p *fakeProcess) string { return legacyServer(unknownMethod)(p) }

func named(names ...string) (out []Server) {
	for _, name := range names {
		s := Command("x")
		s.Name = name
		out = append(out, s)
	}
	return out
}

func toolNames(tools []Tool) (out []string) {
	for _, tool := range tools {
		out = append(out, tool.Name)
	}
	return out
}

// One server that fails is told of, and the others work.
func TestHostWithBrokenServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := named("a", "gone", "dies", "b", "silent")
		servers = append(servers, Server{Name: "web", URL: "ftp://example.com/mcp"}, Server{Name: "off", Command: "x", Disabled: true},
			Server{Name: "bad", Err: errors.New("f.json:3: server bad: env.TOKEN: variable TOKEN is not set")})
		h, err := NewHost(newSystem(t), servers, &HostOptions{Options: Options{start: startBy(map[string]func(*fakeProcess) string{
			"a": good, "b": good,
			"dies":   func(p *fakeProcess) string { _, _ = p.errW.Write([]byte("ouch\n")); return "exit status 1" },
			"silent": func(p *fakeProcess) string { return p.untilEOF() },
		})}})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		tools, err := h.Tools(t.Context())
		if got := toolNames(tools); err != nil || !slices.Equal(got, []string{"a__echo", "b__echo"}) {
			t.Errorf("Tools: got %v, %v", got, err)
		}
		if took := time.Since(begin); took != 30*time.Second {
			t.Errorf("Tools took %v, want its limit for the silent server", took)
		}
		for _, s := range h.Servers() {
			t.Logf("%s: %v, %v, %v", s.Name, s.State, s.Err, s.ListErr)
			var want string
			switch s.Name {
			case "gone":
				want = "not found"
			case "dies":
				want = "its last words: ouch"
			case "silent":
				want = "deadline"
			case "web":
				want = "unusable server address"
			case "bad":
				want = "TOKEN is not set"
			case "off":
				if !s.Disabled {
					t.Error("off: it is not disabled")
				}
				continue
			default:
				if s.State != conn.Ready || s.ListErr != nil || s.Tools != 1 || s.Info.Version != mcp.V2025_11_25 {
					t.Errorf("%s: got %+v", s.Name, s)
				}
				continue
			}
			if s.ListErr == nil || !strings.Contains(s.ListErr.Error(), want) {
				t.Errorf("%s: got %v, want %q", s.Name, s.ListErr, want)
			}
		}
		if _, err := h.Call(t.Context(), "a__echo", json.RawMessage(`{"x":1}`), nil); err != nil {
			t.Errorf("Call: %v", err)
		}
		if _, err := h.Call(t.Context(), "a__echo", json.RawMessage(`[]`), nil); err == nil {
			t.Error("Call with arguments that are no object: got no error")
		}
		if _, err := h.Call(t.Context(), "nobody__echo", nil, nil); !errors.Is(err, ErrUnknownTool) {
			t.Errorf("Call of an unknown tool: got %v", err)
		}
		closeHost(t, h)
		if _, err := h.Tools(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Tools after Close: got %v, want %v", err, ErrClosed)
		}
		if _, err := h.Call(t.Context(), "a__echo", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Call after Close: got %v, want %v", err, ErrClosed)
		}
	})
}

// The last good catalogue is kept while a server is down.
func TestCatalogueOutlivesItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		procs := make(chan *fakeProcess, 100)
		h, err := NewHost(newSystem(t), named("a"), &HostOptions{Options: Options{start: func(*Server) (pipe.Process, error) {
			if down.Load() {
				return nil, errors.New("not today")
			}
			p := start(good)
			procs <- p
			return p, nil
		}}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeHost(t, h)
		if tools, err := h.Tools(t.Context()); len(tools) != 1 || err != nil {
			t.Fatalf("Tools: got %v, %v", tools, err)
		}
		down.Store(true)
		(<-procs).end("signal: killed")
		time.Sleep(10 * time.Second)
		if tools, err := h.Tools(t.Context()); len(tools) != 1 || err != nil {
			t.Errorf("Tools while the server is down: got %v, %v", tools, err)
		}
		if s := h.Servers()[0]; s.State != conn.Backoff || !strings.Contains(s.Err.Error(), "not today") {
			t.Errorf("got %v, %v", s.State, s.Err)
		}
		if _, err := h.Call(t.Context(), "a__echo", nil, nil); !errors.Is(err, call.ErrConnectionLost) {
			t.Errorf("Call: got %v, want the connection lost", err)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		if _, err := h.Call(t.Context(), "a__echo", nil, nil); err != nil {
			t.Errorf("Call when it is back: got %v", err)
		}
	})
}

// STDIO-25, SECA-45: a command from a file is started with consent only.
func TestConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := 0
		opts := &HostOptions{Options: Options{start: func(*Server) (pipe.Process, error) { started++; return start(good), nil }}}
		s := named("a")[0]
		s.File, s.Hash = "/repo/.mcp.json", "h"
		try := func() error {
			h, err := NewHost(newSystem(t), []Server{s}, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer closeHost(t, h)
			_, _ = h.Tools(t.Context())
			return h.Servers()[0].ListErr
		}
		err := try()
		var refused *NotApprovedError
		if !errors.As(err, &refused) || !errors.Is(err, ErrNotApproved) || !strings.Contains(err.Error(), "troupe mcp approve a") || started != 0 {
			t.Errorf("nobody to ask: got %v and %d starts", err, started)
		}
		no := errors.New("the user said no")
		opts.Consent = func(context.Context, Server) error { return no }
		if err := try(); !errors.Is(err, ErrNotApproved) || !errors.Is(err, no) || started != 0 {
			t.Errorf("refused: got %v and %d starts", err, started)
		}
		var asked []string
		opts.Consent = func(_ context.Context, s Server) error { asked = append(asked, s.Hash); return nil }
		if err := try(); err != nil || started != 1 || !slices.Equal(asked, []string{"h"}) {
			t.Errorf("approved: got %v, %d starts, asked %v", err, started, asked)
		}
		s.File = "" // given by the program
		opts.Consent = nil
		if err := try(); err != nil || started != 2 {
			t.Errorf("from the program: got %v, %d starts", err, started)
		}
	})
}

// A refusal is logged once for each definition, without what the definition says.
func TestRefusalIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := named("a")[0]
		s.File, s.Hash, s.Args = "/repo/.mcp.json", "h", []string{"--token=hushhush"}
		h, err := NewHost(newSystem(t), []Server{s}, &HostOptions{Options: Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeHost(t, h)
		for range 3 {
			_, _ = h.Tools(t.Context())
			if err := h.Servers()[0].ListErr; !errors.Is(err, ErrNotApproved) {
				t.Errorf("got %v, want not approved", err)
			}
		}
		text := out.String()
		if strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "troupe mcp approve a") || strings.Contains(text, "hushhush") {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// Lazy servers start when they are needed, and those that nobody needs do not.
func TestLazyHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var started []string
		h, err := NewHost(newSystem(t), named("a", "b"), &HostOptions{Options: Options{Lazy: true, start: func(s *Server) (pipe.Process, error) {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, s.Name)
			return start(good), nil
		}}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeHost(t, h)
		time.Sleep(time.Minute)
		c, err := h.Client("b")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "echo", nil, nil); err != nil {
			t.Error(err)
		}
		if !slices.Equal(started, []string{"b"}) {
			t.Errorf("started %v, want b alone", started)
		}
	})
}

// Allow and deny lists, in the catalogue and for calls by the server's own name.
func TestAllowAndDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := named("all", "none", "denied")
		servers[1].Allow = []string{"other"}
		servers[2].Allow, servers[2].Deny = []string{"echo"}, []string{"echo"}
		servers[0].Trusted = true
		h, err := NewHost(newSystem(t), servers, &HostOptions{Options: Options{start: func(*Server) (pipe.Process, error) { return start(good), nil }}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeHost(t, h)
		tools, err := h.Tools(t.Context())
		if err != nil || !slices.Equal(toolNames(tools), []string{"all__echo"}) || !tools[0].Trusted {
			t.Errorf("Tools: got %v, %v", tools, err)
		}
		c, _ := h.Client("denied")
		if _, err := c.CallTool(t.Context(), "echo", nil, nil); !errors.Is(err, ErrUnknownTool) {
			t.Errorf("a denied tool: got %v, want %v", err, ErrUnknownTool)
		}
	})
}

func TestHostDefinitions(t *testing.T) {
	sys := realSystem(t)
	for name, servers := range map[string][]Server{
		"no name":      {{Command: "x"}},
		"two ways":     {{Name: "a", Command: "x", URL: "https://x"}},
		"no way":       {{Name: "a"}},
		"same name":    named("a", "a"),
		"odd protocol": {{Name: "a", Command: "x", Protocol: "2020-01-01"}},
	} {
		if h, err := NewHost(sys, servers, nil); err == nil {
			closeHost(t, h)
			t.Errorf("%s: got no error", name)
		}
	}
}

// Names are short, of few characters, unique, and do not depend on any order.
func TestQualifiedNames(t *testing.T) {
	tool := func(server, name string) Tool { return Tool{Server: server, Tool: mcp.Tool{Name: name}} }
	long := strings.Repeat("x", 70)
	tools := []Tool{
		tool("files", "read"), tool("files", "write.all"), tool("files", "write_all"), tool("files", "write all"),
		tool("a", "b__c"), tool("a__b", "c"), tool("a_", "b"), tool("a", "_b"), tool("a", long), tool("a", long+"y"), tool(long, "t"), tool("ü", "ö"),
	}
	valid := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	names := func(tools []Tool) map[string]string {
		tools = slices.Clone(tools)
		qualify(tools)
		if !slices.IsSortedFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) }) {
			t.Error("the catalogue is not sorted")
		}
		out := map[string]string{}
		for _, tool := range tools {
			if !valid.MatchString(tool.Name) {
				t.Errorf("bad name %q", tool.Name)
			}
			out[tool.Name] = tool.Server + " " + tool.Tool.Name
		}
		return out
	}
	first := names(tools)
	if len(first) != len(tools) {
		t.Errorf("%d names for %d tools: %v", len(first), len(tools), first)
	}
	slices.Reverse(tools)
	if second := names(tools); fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("names depend on the order: %v and %v", first, second)
	}
	for _, want := range []string{"files__read", "files__write_all", "a__b__c", "a___b"} {
		if _, ok := first[want]; !ok {
			t.Errorf("there is no %s in %v", want, first)
		}
	}
	// A name made to look like another's is not taken for it.
	forged := catalogue.Qualified("files", "write.all", 0)
	tools = append(tools, tool("files", strings.TrimPrefix(forged, "files__")))
	if third := names(tools); len(third) != len(tools) {
		t.Errorf("%d names for %d tools: %v", len(third), len(tools), third)
	}
}

// Events come for each change; the panic of a callback harms nobody.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var states []conn.State
		h, err := NewHost(newSystem(t), named("a"), &HostOptions{Options: Options{start: func(*Server) (pipe.Process, error) { return start(good), nil }}, OnEvent: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, e.Status.State)
			if len(states) == 1 {
				panic("callback")
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Tools(t.Context()); err != nil {
			t.Fatal(err)
		}
		closeHost(t, h)
		synctest.Wait()
		if !slices.Contains(states, conn.Ready) || !slices.Contains(states, conn.Closing) {
			t.Errorf("states: got %v", states)
		}
	})
}

// A connection whose actor is gone for good is made anew; nobody else notices.
func TestSupervision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		h, err := NewHost(sys, named("a", "b"), &HostOptions{Options: Options{start: func(*Server) (pipe.Process, error) { return start(good), nil }}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeHost(t, h)
		if _, err := h.Tools(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, _ := h.Client("a")
		a.conn.Ref().Stop()
		<-a.conn.Ref().Stopped()
		if _, err := h.Call(t.Context(), "a__echo", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Call without a connection: got %v, want %v", err, ErrClosed)
		}
		if _, err := h.Call(t.Context(), "b__echo", nil, nil); err != nil {
			t.Errorf("Call of the other server: got %v", err)
		}
		time.Sleep(supervise.Delay + time.Second)
		if _, err := h.Call(t.Context(), "a__echo", nil, nil); err != nil {
			t.Errorf("Call of the new connection: got %v", err)
		}
		if n := sys.Census().Live(actors.KindClient); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
}

// A host whose own actor was restarted has its servers again.
func TestHostRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		h, err := NewHost(sys, named("a"), &HostOptions{Options: Options{start: func(*Server) (pipe.Process, error) { return start(good), nil }}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeHost(t, h)
		if _, err := h.Tools(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.ref.Send(supervise.Retry{}) // of no server: it panics
		time.Sleep(time.Minute)
		if _, err := h.Call(t.Context(), "a__echo", nil, nil); err != nil {
			t.Errorf("Call after the restart: got %v", err)
		}
		if n := sys.Census().Actors[actors.KindHost].Restarted; n != 1 {
			t.Errorf("the host was restarted %d times, want 1", n)
		}
	})
}
