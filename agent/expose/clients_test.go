package expose_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// post sends one message straight to the handler.
func (f *front) post(t *testing.T, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, r)
	return w
}

// list is a tools/list of 2026-07-28 whose client declares an experiment.
func (f *front) list(t *testing.T, experiment string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"experimental":{"` + experiment + `":{}}}}}}`
	return f.post(t, body, append([]string{"Mcp-Protocol-Version", string(mcp.V2026_07_28), "Mcp-Method", "tools/list"}, headers...)...)
}

// initialize opens a legacy session and returns its id.
func (f *front) initialize(t *testing.T, headers ...string) (status int, session string) {
	t.Helper()
	w := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, headers...)
	return w.Code, w.Header().Get("Mcp-Session-Id")
}

func (f *front) ping(t *testing.T, session string, headers ...string) int {
	t.Helper()
	return f.post(t, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, append([]string{"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"}, headers...)...).Code
}

// alone is a front without servers.
func alone(t *testing.T, change func(*expose.Options)) *front {
	t.Helper()
	rt, err := agent.Open(t.Context(), &agent.Options{Model: llmtest.Script()})
	if err != nil {
		t.Fatal(err)
	}
	helper, err := rt.Agent("helper", nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &expose.Options{Agents: []*agent.Agent{helper}}
	if change != nil {
		change(o)
	}
	f, err := expose.New(rt, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("closing the front: %v", err)
		}
		if err := rt.Close(); err != nil {
			t.Errorf("closing the runtime: %v", err)
		}
		if n := rt.System().Census().Live(); n != 0 {
			t.Errorf("actors left: %+v", rt.System().Census().Actors)
		}
	})
	return &front{Front: f, rt: rt}
}

// ROB-3: clients are bounded, whatever they declare.
func TestFlood(t *testing.T) {
	f := alone(t, func(o *expose.Options) { o.MaxClients = 8 })
	for i := range 100 {
		if w := f.list(t, fmt.Sprint("x", i)); w.Code != http.StatusOK {
			t.Fatalf("client %d: got status %d, %s", i, w.Code, w.Body)
		}
		if n := f.Clients(); n > 8 {
			t.Fatalf("clients: got %d, want 8 at most", n)
		}
	}
	if n := f.Clients(); n > 2 {
		t.Errorf("clients of nobody: got %d, want a quarter of all at most", n)
	}
}

// SECA-9: a session that is in use is not driven out by others, one that nobody has used is.
func TestSessionsAreBounded(t *testing.T) {
	f := alone(t, func(o *expose.Options) { o.MaxClients = 3 })
	var used []string
	for range 2 {
		_, id := f.initialize(t)
		if code := f.ping(t, id); code != http.StatusOK {
			t.Fatalf("ping: got status %d", code)
		}
		used = append(used, id)
	}
	for i := range 10 {
		if code, _ := f.initialize(t); code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Fatalf("session %d: got status %d", i, code)
		}
	}
	for _, id := range used {
		if code := f.ping(t, id); code != http.StatusOK {
			t.Errorf("a session in use: got status %d, want 200", code)
		}
	}
	if n := f.Clients(); n > 3 {
		t.Errorf("clients: got %d, want 3 at most", n)
	}
}

// A client without a session is forgotten when it has been quiet for long, and may come
// back.
func TestIdleClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := alone(t, func(o *expose.Options) { o.IdleClient = time.Minute })
		f.list(t, "x")
		time.Sleep(45 * time.Second)
		f.list(t, "x")
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if n := f.Clients(); n != 1 {
			t.Errorf("clients after a request: got %d, want 1", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := f.Clients(); n != 0 {
			t.Errorf("clients after two quiet minutes: got %d, want 0", n)
		}
		if w := f.list(t, "x"); w.Code != http.StatusOK {
			t.Errorf("coming back: got status %d", w.Code)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // what the servers leave to clocks
	})
}

// SHL-52, SHL-54: a session is its principal's, and over when it is deleted.
func TestSessions(t *testing.T) {
	f := alone(t, func(o *expose.Options) { o.Server.HTTP.Authenticate = byHeader })
	if code, _ := f.initialize(t); code != http.StatusUnauthorized {
		t.Errorf("nobody: got status %d, want 401", code)
	}
	code, id := f.initialize(t, "X-User", "Ada")
	if code != http.StatusOK || id == "" {
		t.Fatalf("initialize: got status %d and session %q", code, id)
	}
	for _, tt := range []struct {
		what, session, user string
		want                int
	}{
		{"Ada's", id, "Ada", http.StatusOK},
		{"Bob's", id, "Bob", http.StatusNotFound},
		{"an unknown one", "nonsense", "Ada", http.StatusNotFound},
	} {
		if code := f.ping(t, tt.session, "X-User", tt.user); code != tt.want {
			t.Errorf("a request to %s session: got status %d, want %d", tt.what, code, tt.want)
		}
	}
	if w := f.list(t, "x", "X-User", "Ada", "Host", "evil.example"); w.Code != http.StatusForbidden { // SHL-02
		t.Errorf("another host: got status %d, want 403", w.Code)
	}
	if n := f.Clients(); n != 1 {
		t.Errorf("clients: got %d, want 1", n)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "http://127.0.0.1/mcp", http.NoBody)
	r.Header.Set("Mcp-Session-Id", id)
	r.Header.Set("X-User", "Ada")
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusNoContent {
		t.Errorf("DELETE: got status %d, want 204", w.Code)
	}
	if code := f.ping(t, id, "X-User", "Ada"); code != http.StatusNotFound {
		t.Errorf("after DELETE: got status %d, want 404", code)
	}
}

// A request without a session or an identity is answered as by any server, and leaves nothing behind.
func TestUnidentifiedRequest(t *testing.T) {
	f := alone(t, nil)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":`
	for _, tt := range []struct {
		name, body string
		headers    []string
		want       int
	}{
		{"no JSON", `{`, nil, http.StatusBadRequest},
		{"a request without a session", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, http.StatusBadRequest},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, http.StatusBadRequest},
		{"capabilities that are none", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `7}}}`,
			[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, http.StatusBadRequest},
		{"server/discover", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `{}}}}`,
			[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover"}, http.StatusOK},
		{"a revision that nobody knows", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, nil, http.StatusOK},
	} {
		if w := f.post(t, tt.body, tt.headers...); w.Code != tt.want {
			t.Errorf("%s: got status %d, want %d: %s", tt.name, w.Code, tt.want, w.Body)
		}
	}
	if n := f.Clients(); n != 0 {
		t.Errorf("clients: got %d, want none", n)
	}
}

// Closing ends what is under way, for each kind of client.
func TestClose(t *testing.T) {
	for _, way := range ways {
		for _, by := range []string{"agent", "gateway"} {
			t.Run(way.name+"/"+by, func(t *testing.T) {
				t.Parallel()
				f := newFront(t, "modern", nil)
				u := f.dial(t, way.transport, way.protocol, nil)
				over := make(chan error, 1)
				go func() {
					res, err := u.call(t.Context(), by, "wait")
					if err == nil && !res.IsError {
						err = fmt.Errorf("there is a result: %q", text(res.Content))
					}
					over <- err
				}()
				<-f.down.waiting
				if err := f.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				<-f.down.cancelled
				if err := u.Close(); err != nil {
					t.Error(err)
				}
				<-over
			})
		}
	}
}
