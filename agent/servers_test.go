package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
)

// notes is a server with a tool that reads, one that writes and one that hangs. It
// remembers the keys of the calls it saw.
type notes struct {
	*mcpserver.Server
	mu   sync.Mutex
	keys []string
}

func newNotes(t *testing.T) *notes {
	t.Helper()
	server, err := mcpserver.New(mcp.Implementation{Name: "notes", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &notes{Server: server}
	handle := func(_ context.Context, req *mcpserver.ToolRequest, in in) (string, error) {
		var key string
		if _, err := req.Meta().Get(agent.MetaIdempotencyKey, &key); err != nil {
			return "", err
		}
		n.mu.Lock()
		n.keys = append(n.keys, key)
		n.mu.Unlock()
		req.Progress(1, 2, "half")
		if in.N < 0 {
			return "", errors.New("negative")
		}
		return fmt.Sprint(req.Name(), " ", in.N), nil
	}
	hang := func(ctx context.Context, _ *mcpserver.ToolRequest, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	err = errors.Join(
		mcpserver.AddTool(server, &mcp.Tool{Name: "read", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, handle),
		mcpserver.AddTool(server, &mcp.Tool{Name: "write"}, handle),
		mcpserver.AddTool(server, &mcp.Tool{Name: "hang"}, hang),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		time.Sleep(time.Second) // virtual: what is asleep in the bubble ends
	})
	return n
}

// broken is a server that can not be reached.
type broken struct{}

func (broken) Connect(mcp.Sink) (mcp.Link, error) { return nil, errors.New("no such program") }

// TestServers: tools of servers are called by their qualified names, with the call's
// key, and asked about by what the user says of the server (SECA-40).
func TestServers(t *testing.T) {
	tests := []struct {
		name    string
		trusted bool
		tool    string
		asks    bool
	}{
		{"read-only by its own word", false, "notes__read", true},
		{"read-only and trusted", true, "notes__read", false},
		{"writes and trusted", true, "notes__write", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNotes(t)
				srv := mcpclient.InProcess("notes", n)
				srv.Trusted = tt.trusted
				rt := open(t, &agent.Options{Model: llmtest.Script(call(tt.tool, in{7}), call(tt.tool, in{-1}), llmtest.Say("ok")),
					Servers: []mcpclient.Server{srv}})
				asked := false
				var keys, got []string
				progress := 0
				for ev, err := range start(t, rt, "r").Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					switch ev := ev.(type) {
					case agent.Ask:
						asked = true
						if ev.Server != "notes" || (ev.Trust == "trusted") != tt.trusted {
							t.Errorf("ask: %+v", ev)
						}
						if err := ev.Answer(t.Context(), agent.Accept()); err != nil {
							t.Fatal(err)
						}
					case agent.ToolStarted:
						keys = append(keys, ev.Key)
					case agent.ToolProgress:
						progress++
					case agent.ToolResult:
						got = append(got, fmt.Sprint(ev.Result.Content.Text(), ev.Result.IsError))
					}
				}
				if asked != tt.asks {
					t.Errorf("asked: got %v, want %v", asked, tt.asks)
				}
				if want := []string{strings.TrimPrefix(tt.tool, "notes__") + " 7false", "negativetrue"}; !slices.Equal(got, want) {
					t.Errorf("results: got %q, want %q", got, want)
				}
				if !slices.Equal(n.keys, keys) || len(keys) != 2 || keys[0] == keys[1] {
					t.Errorf("the server saw the keys %q, the events say %q", n.keys, keys)
				}
			})
		})
	}
}

// TestBrokenServers: servers that fail cost their tools, and nothing else.
func TestBrokenServers(t *testing.T) {
	tests := []struct {
		name    string
		servers func(t *testing.T) []mcpclient.Server
		tools   []string
		absent  []string
	}{
		{"one", func(t *testing.T) []mcpclient.Server {
			return []mcpclient.Server{mcpclient.InProcess("bad", broken{}), mcpclient.InProcess("notes", newNotes(t))}
		}, []string{"double", "notes__hang", "notes__read", "notes__write"}, []string{"bad"}},
		{"all", func(*testing.T) []mcpclient.Server {
			return []mcpclient.Server{mcpclient.InProcess("bad", broken{}), mcpclient.InProcess("worse", broken{})}
		}, []string{"double"}, []string{"bad", "worse"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				model := llmtest.Script(llmtest.Say("ok"))
				rt := open(t, &agent.Options{Model: model, Tools: []agent.Tool{double}, Servers: tt.servers(t)})
				var tools, absent []string
				run := start(t, rt, "r")
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if l, ok := ev.(agent.ToolsListed); ok {
						tools = l.Tools
						for _, a := range l.Absent {
							absent = append(absent, a.Server)
							if !strings.Contains(a.Reason, "no such program") {
								t.Errorf("reason: %q", a.Reason)
							}
						}
					}
				}
				if !slices.Equal(tools, tt.tools) || !slices.Equal(absent, tt.absent) {
					t.Errorf("tools %q and absent %q, want %q and %q", tools, absent, tt.tools, tt.absent)
				}
				if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" {
					t.Errorf("Wait: got %+v, %v", res, err)
				}
				if all, err := rt.Servers(t.Context()); err != nil || len(all) != 2 {
					t.Errorf("Servers: got %+v, %v", all, err)
				}
				for _, name := range tt.absent {
					if system := model.Requests()[0].System; !strings.Contains(system, name) {
						t.Errorf("the model is not told of %s: %q", name, system)
					}
				}
			})
		})
	}
}

// TestServersOfAnAgent: an agent sees the servers it names, all, or none.
func TestServersOfAnAgent(t *testing.T) {
	tests := []struct {
		name string
		use  []string
		want int
	}{
		{"all", nil, 6},
		{"one", []string{"b"}, 3},
		{"none", []string{}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				model := llmtest.Script(llmtest.Say("ok"))
				rt := open(t, &agent.Options{Model: model, Servers: []mcpclient.Server{
					mcpclient.InProcess("a", newNotes(t)), mcpclient.InProcess("b", newNotes(t))}})
				a, err := rt.Agent("reader", &agent.Config{Servers: tt.use})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := a.Run(t.Context(), "go", nil); err != nil {
					t.Fatal(err)
				}
				if got := len(model.Requests()[0].Tools); got != tt.want {
					t.Errorf("tools: got %d, want %d", got, tt.want)
				}
			})
		})
	}
}

// TestConsent: the command of a file is started only if somebody agreed to exactly
// that definition (SECA-45).
func TestConsent(t *testing.T) {
	yes := func(context.Context, mcpclient.Server) error { return nil }
	no := func(context.Context, mcpclient.Server) error { return errors.New("the user said no") }
	tests := []struct {
		name     string
		approved string // hash in the store
		ask      func(context.Context, mcpclient.Server) error
		want     string // in the reason of its absence
	}{
		{"nobody asked", "", nil, "this definition of it has not been approved"},
		{"refused", "", no, "the user said no"},
		{"another definition was approved", "old", nil, "this definition of it has not been approved"},
		{"approved", "hash", nil, "executable file not found"}, // it tries
		{"agreed", "", yes, "executable file not found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memory()
				if tt.approved != "" {
					if err := s.Approve(t.Context(), store.Approval{File: "f.json", Server: "x", Hash: tt.approved}); err != nil {
						t.Fatal(err)
					}
				}
				srv := mcpclient.Server{Name: "x", Command: "troupe-no-such-program", File: "f.json", Hash: "hash"}
				rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Say("ok")), Store: s, Consent: tt.ask, Servers: []mcpclient.Server{srv}})
				var reason string
				for ev, err := range start(t, rt, "r").Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if l, ok := ev.(agent.ToolsListed); ok && len(l.Absent) == 1 {
						reason = l.Absent[0].Reason
					}
				}
				if !strings.Contains(reason, tt.want) {
					t.Errorf("reason: got %q, want one with %q", reason, tt.want)
				}
			})
		})
	}
}

// TestCancelledServerCall: nobody knows what a call that was cancelled has done.
func TestCancelledServerCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := mcpclient.InProcess("notes", newNotes(t))
		rt := open(t, &agent.Options{Model: llmtest.Script(call("notes__hang", nil)), Servers: []mcpclient.Server{srv}, Approve: agent.NeverAsk})
		run := start(t, rt, "r")
		unknown := false
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := ev.(type) {
			case agent.ToolStarted:
				run.Cancel(errTest)
			case agent.ToolResult:
				unknown = ev.Unknown
			}
		}
		if _, err := run.Wait(t.Context()); !errors.Is(err, errTest) || !unknown {
			t.Errorf("Wait: got %v, unknown outcome: %v", err, unknown)
		}
	})
}

// TestServerCallTimesOut: the run goes on, and the model hears that nobody knows.
func TestServerCallTimesOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := mcpclient.InProcess("notes", newNotes(t))
		srv.CallTimeout = time.Minute
		model := llmtest.Script(call("notes__hang", nil), llmtest.Say("ok"))
		rt := open(t, &agent.Options{Model: model, Servers: []mcpclient.Server{srv}, Approve: agent.NeverAsk})
		res, err := rt.Run(t.Context(), "go")
		if err != nil || res.Text != "ok" {
			t.Fatalf("Run: got %+v, %v", res, err)
		}
		last := model.Requests()[1].Messages[2].Content[0].(*mcp.ToolResultContent)
		if text := last.Content.Text(); !last.IsError || !strings.Contains(text, "outcome of this call is unknown") {
			t.Errorf("the model was told %q", text)
		}
	})
}
