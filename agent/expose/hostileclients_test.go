package expose_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// SECA-6, SECA-7: clients without an identity over stateless HTTP share one instance of
// each server; still the question of a client's call is not put to another client.
func TestUnidentifiedClients(t *testing.T) {
	for _, era := range eras {
		for _, by := range []string{"agent", "gateway"} {
			t.Run(era+"/"+by, func(t *testing.T) {
				t.Parallel()
				f := newFront(t, era, nil)
				over := make(chan string, 8)
				for _, name := range []string{"Ada", "Bob", "Eve"} {
					u := f.dial(t, "http", "2026-07-28", nil)
					u.form = func(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
						return &mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"name": json.RawMessage(`"` + name + `"`)}}, nil
					}
					for range 2 {
						go func() {
							res, err := u.call(t.Context(), by, "form")
							switch {
							case err != nil:
								over <- fmt.Sprintf("form of %s: %v", name, err)
							case text(res.Content) != "Hello, "+name:
								over <- fmt.Sprintf("form of %s: got %q", name, text(res.Content))
							default:
								over <- ""
							}
						}()
					}
				}
				for range 6 {
					if wrong := <-over; wrong != "" {
						t.Error(wrong)
					}
				}
			})
		}
	}
}

// SECA-6: what a server logs during one's call is not sent to another.
func TestLogsOfUnidentifiedClients(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, era, nil)
			at, free := make(chan struct{}), make(chan struct{})
			err := mcpserver.AddTool(f.down.Server, &mcp.Tool{Name: "tell", Description: "tells"},
				func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
					close(at)
					<-free
					req.Log(mcp.LogError, "oven", "the secret of Ada")
					return "told", nil
				})
			if err != nil {
				t.Fatal(err)
			}
			// Who cannot be asked anything: else a server of the legacy era has one call at a time.
			mute := func(o *mcpclient.Options) { o.Human, o.Sampler, o.SampleFreely, o.Roots = nil, nil, false, nil }
			ada, bob := f.dial(t, "http", "2026-07-28", mute), f.dial(t, "http", "2026-07-28", mute)
			var both sync.WaitGroup
			both.Go(func() { _, _ = ada.call(t.Context(), "gateway", "tell") })
			<-at
			ctx, stop := context.WithCancel(t.Context())
			both.Go(func() { _, _ = bob.call(ctx, "gateway", "wait") })
			<-f.down.waiting
			close(free)
			for range 20 { // whatever was to be told is told before the next answers
				bob.ask(t, "gateway", "progress")
			}
			stop()
			both.Wait()
			close(bob.logs)
			for p := range bob.logs {
				if strings.Contains(string(p.Data), "secret") {
					t.Errorf("Bob reads what was logged for Ada: %s", p.Data)
				}
			}
		})
	}
}

// call28 is a request of 2026-07-28 with nothing but forms declared, as raw JSON.
func (f *front) call28(t *testing.T, method, name, params string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}` + params + `}}`
	all := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		all = append(all, "Mcp-Name", name)
	}
	return f.post(t, body, append(all, headers...)...)
}

// payload is the message of an answer, be it JSON or a stream.
func payload(w *httptest.ResponseRecorder) string {
	body := w.Body.String()
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		return body
	}
	last := ""
	for l := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(l, "data: "); ok {
			last = data
		}
	}
	return last
}

// SECA-12: the state of a call that was answered with a question is its caller's and
// that call's; shared keys of the servers of a front do not make it another's.
func TestStolenStates(t *testing.T) {
	f := newFront(t, "modern", func(_ *agent.Options, o *expose.Options) { o.Server.HTTP.Authenticate = byHeader })
	call := func(tool, state, user string) (string, string) {
		params := `,"name":"down__` + tool + `","arguments":{}`
		if state != "" {
			params += `,"requestState":"` + state + `","inputResponses":{"q1":{"action":"accept","content":{"name":"` + user + `"}}}`
		}
		w := f.call28(t, "tools/call", "down__"+tool, params, "X-User", user)
		var out struct {
			Result struct {
				RequestState  string                     `json:"requestState"`
				InputRequests map[string]json.RawMessage `json:"inputRequests"`
			} `json:"result"`
		}
		raw := payload(w)
		if err := json.Unmarshal([]byte(raw), &out); err != nil {
			t.Fatalf("%s of %s: %v: %s", tool, user, err, raw)
		}
		return out.Result.RequestState, raw
	}
	state, raw := call("form", "", "Ada")
	if state == "" {
		t.Fatalf("form: got no state: %s", raw)
	}
	for _, tt := range []struct{ what, tool, state, user string }{
		{"another's", "form", state, "Bob"},
		{"of another call", "two", state, "Ada"},
		{"that was changed", "form", flip(state), "Ada"},
		{"that is none", "form", "x", "Ada"},
	} {
		if next, raw := call(tt.tool, tt.state, tt.user); strings.Contains(raw, "Hello") || next != "" || !strings.Contains(raw, `"error"`) {
			t.Errorf("a state %s: got %s, want an error", tt.what, raw)
		}
	}
	if _, raw := call("form", state, "Ada"); !strings.Contains(raw, "Hello, Ada") {
		t.Errorf("her own: got %s", raw)
	}
	if n := f.down.count("form"); n != 1 {
		t.Errorf("calls of the server's tool: got %d, want 1", n)
	}
}

func flip(state string) string {
	b := []byte(state)
	if b[len(b)/2]++; b[len(b)/2] > 'y' {
		b[len(b)/2] = 'A'
	}
	return string(b)
}

// SECA-7: a run, its watchers, and tasks of one are not another's, in either era.
func TestRunsOfAnother(t *testing.T) {
	for _, way := range []struct{ transport, protocol string }{{"http", "2025-11-25"}, {"http", "2026-07-28"}} {
		t.Run(way.protocol, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, "modern", func(_ *agent.Options, o *expose.Options) { o.Server.HTTP.Authenticate = byHeader })
			ada, bob := f.dialAs(t, "Ada", way.transport, way.protocol), f.dialAs(t, "Bob", way.transport, way.protocol)
			res := ada.ask(t, "agent", "progress")
			var id string
			if ok, err := res.Meta.Get(agent.MetaRun, &id); !ok || err != nil {
				t.Fatalf("the run: %v", err)
			}
			if _, err := ada.ReadResource(t.Context(), "troupe://runs/"+id, nil); err != nil {
				t.Errorf("Ada reads her run: %v", err)
			}
			if got, err := bob.ReadResource(t.Context(), "troupe://runs/"+id, nil); err == nil {
				t.Errorf("Bob reads the run of Ada: %v", got)
			}
			all, err := bob.ListResources(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range all {
				if strings.Contains(r.URI, id) {
					t.Errorf("Bob sees the run of Ada in his list: %+v", r)
				}
			}
		})
	}
}

// legacy sends one message of a session that was opened.
func (f *front) legacy(t *testing.T, session, body, user string) string {
	t.Helper()
	return payload(f.post(t, body, "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25", "X-User", user))
}

// SECA-7: the servers of a front share the records of tasks, and not the tasks. Of those
// who did not say who they are none sees another's in the list.
func TestTasksOfAnother(t *testing.T) {
	for _, tt := range []struct{ name, ada, bob string }{{"principals", "Ada", "Bob"}, {"nobody", "", ""}} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFront(t, "modern", func(_ *agent.Options, o *expose.Options) {
				if tt.ada != "" {
					o.Server.HTTP.Authenticate = byHeader
				}
			})
			_, ada := f.initialize(t, "X-User", tt.ada)
			_, bob := f.initialize(t, "X-User", tt.bob)
			f.legacy(t, ada, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, tt.ada)
			f.legacy(t, bob, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, tt.bob)
			made := f.legacy(t, ada, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"helper","arguments":{"prompt":"progress"},"task":{}}}`, tt.ada)
			var out struct {
				Result struct {
					Task struct {
						TaskID string `json:"taskId"`
					} `json:"task"`
				} `json:"result"`
			}
			if err := json.Unmarshal([]byte(made), &out); err != nil || out.Result.Task.TaskID == "" {
				t.Fatalf("a task: %v: %s", err, made)
			}
			id := out.Result.Task.TaskID
			if got := f.legacy(t, bob, `{"jsonrpc":"2.0","id":3,"method":"tasks/list"}`, tt.bob); strings.Contains(got, id) {
				t.Errorf("tasks/list of another session: got %s", got)
			}
			methods := []string{"tasks/result", "tasks/cancel", "tasks/get"}
			if tt.ada == "" {
				methods = methods[:2] // the id, which cannot be guessed, is what proves it (XTASK-18)
			}
			for _, method := range methods {
				if got := f.legacy(t, bob, `{"jsonrpc":"2.0","id":3,"method":"`+method+`","params":{"taskId":"`+id+`"}}`, tt.bob); !strings.Contains(got, `"error"`) {
					t.Errorf("%s of another session's task: got %s", method, got)
				}
			}
			if got := f.legacy(t, ada, `{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"`+id+`"}}`, tt.ada); strings.Contains(got, `"error"`) {
				t.Errorf("tasks/get of her own: got %s", got)
			}
		})
	}
}

// One client has many calls at once at a server that does not say for which of them it
// asks: each form is answered, though the call that was taken for its may end before.
func TestManyFormsOfOne(t *testing.T) {
	for _, way := range ways[:5] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, "legacy", func(_ *agent.Options, o *expose.Options) { o.Server.HTTP.Authenticate = byHeader })
			u := f.dialAs(t, "Ada", way.transport, way.protocol)
			over := make(chan string, 6)
			for range cap(over) {
				go func() {
					res, err := u.call(t.Context(), "gateway", "form")
					if err != nil {
						over <- err.Error()
						return
					}
					over <- text(res.Content)
				}()
			}
			for range cap(over) {
				if got := <-over; got != "Hello, Ada" {
					t.Errorf("form: got %q, want Hello, Ada", got)
				}
			}
		})
	}
}

// SECA-8, SECA-9: what no client should send costs nothing that lasts.
func TestBodies(t *testing.T) {
	f := newFront(t, "modern", nil)
	deep := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
	for _, tt := range []struct {
		name string
		body string
	}{
		{"long", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"x":"` + strings.Repeat("x", 8<<20) + `"}}`},
		{"deep", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + deep + `}`},
		{"a batch of initializes", "[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}},`, 1000) + `{"jsonrpc":"2.0","id":1,"method":"ping"}]`},
		{"twice a key", `{"jsonrpc":"2.0","id":1,"method":"initialize","method":"tools/list","params":{}}`},
		{"nothing", ``},
		{"only spaces", strings.Repeat(" ", 1<<20)},
		{"initialize without parameters", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`},
		{"initialize twice in one", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}`},
	} {
		if w := f.post(t, tt.body); w.Header().Get("Mcp-Session-Id") != "" || !bytes.Contains(w.Body.Bytes(), []byte(`"error"`)) {
			t.Errorf("%s: got %d %.200s, want an error", tt.name, w.Code, w.Body)
		}
	}
	if n := f.Clients(); n != 0 {
		t.Errorf("clients: got %d, want none", n)
	}
	if code, _ := f.initialize(t); code != http.StatusOK {
		t.Errorf("the next good one: got status %d", code)
	}
}
