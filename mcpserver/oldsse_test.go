package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// oldClient is a client of HTTP+SSE that does what it is told.
type oldClient struct {
	t        testing.TB
	client   *http.Client
	stream   *http.Response
	events   chan sse.Event // closed at the stream's end
	endpoint *url.URL
	header   map[string]string

	checks peer
}

const oldURL = "http://localhost/sse"

// sseBubble runs f in a bubble with a server on an in-memory network.
func sseBubble(t *testing.T, opts *mcpserver.Options, f func(t *testing.T, s *mcpserver.Server, client *http.Client, g *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, g := newServer(t, opts)
		f(t, s, memhttp.Serve(t, s.SSEHandler()), g)
	})
}

// do sends a request with headers, "-" leaves one out.
func (c *oldClient) do(method, to, body string, header map[string]string) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, all := range []map[string]string{c.header, header} {
		for name, value := range all {
			if name == "Host" {
				req.Host = value
			} else if req.Header.Set(name, value); value == "-" {
				req.Header.Del(name)
			}
		}
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// openOld opens a stream and reads its first event.
func openOld(t testing.TB, client *http.Client, header map[string]string) *oldClient {
	t.Helper()
	c := &oldClient{
		t: t, client: client, events: make(chan sse.Event, 1000), header: header,
		checks: peer{t: t, asked: make(map[string]string)},
	}
	if c.stream = c.do(http.MethodGet, oldURL, "", nil); c.stream.StatusCode != http.StatusOK {
		t.Fatalf("GET: got status %d, want 200", c.stream.StatusCode)
	}
	go func() {
		defer close(c.events)
		for in := sse.NewReader(c.stream.Body, 0); ; {
			e, err := in.Next()
			if err != nil {
				return
			}
			e.Data = append([]byte(nil), e.Data...)
			c.events <- e
		}
	}()
	first := c.next()
	if first.Type != "endpoint" || first.HasID { // SSE-02
		t.Fatalf("the first event: got %+v, want the endpoint", first)
	}
	base, err := url.Parse(oldURL)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := url.Parse(string(first.Data))
	if err != nil {
		t.Fatal(err)
	}
	c.endpoint = base.ResolveReference(ref)
	return c
}

// next returns the next event.
func (c *oldClient) next() sse.Event {
	c.t.Helper()
	select {
	case e, ok := <-c.events:
		if !ok {
			c.t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(time.Hour):
		c.t.Fatal("no event")
	}
	return sse.Event{}
}

// message returns the next message (SSE-03).
func (c *oldClient) message() string {
	c.t.Helper()
	e := c.next()
	if e.Type != "message" || e.HasID {
		c.t.Fatalf("got %+v, want a message without an id", e)
	}
	c.checks.checkMessage(string(e.Data))
	return string(e.Data)
}

// post sends a message, which must be accepted.
func (c *oldClient) post(frame string) {
	c.t.Helper()
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal([]byte(frame), &m) == nil && m.ID != nil {
		c.checks.asked[string(m.ID)] = m.Method
	}
	if status, body := c.try(frame, nil); status != http.StatusAccepted || body != "" {
		c.t.Fatalf("POST %s: got %d %q, want 202 and nothing", clip(frame), status, body)
	}
}

func (c *oldClient) try(frame string, header map[string]string) (status int, body string) {
	c.t.Helper()
	resp := c.do(http.MethodPost, c.endpoint.String(), frame, header)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// ask sends a request and returns the next message.
func (c *oldClient) ask(frame string) string {
	c.t.Helper()
	c.post(frame)
	return c.message()
}

func (c *oldClient) initialize(v mcp.Version) {
	c.t.Helper()
	c.checks.version, c.checks.check = v, official(c.t, v)
	if got := c.ask(initialize(v)); !strings.Contains(got, string(v)) {
		c.t.Fatalf("initialize: got %s", clip(got))
	}
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// SSE-01, SSE-02, SSE-03, SSE-11, SSE-12: a session of each revision with a handshake.
func TestOldSession(t *testing.T) {
	for _, v := range mcp.LegacyVersions() {
		t.Run(string(v), func(t *testing.T) {
			sseBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
				c := openOld(t, client, nil)
				for name, want := range map[string]string{ // WIRE-13
					"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
				} {
					if got := c.stream.Header.Get(name); got != want {
						t.Errorf("%s: got %q, want %q", name, got, want)
					}
				}
				c.initialize(v)
				if got := c.ask(call(v, 1, "echo", `{"text":"hi"}`)); !strings.Contains(got, "hi") {
					t.Errorf("echo: got %s", clip(got))
				}
				c.post(request(v, 2, mcp.MethodCallTool, `{"name":"steps","arguments":{"n":3},"_meta":{"progressToken":"p"}}`))
				for {
					got := c.message()
					if strings.Contains(got, `"id":2`) {
						break
					}
					if !strings.Contains(got, "notifications/progress") {
						t.Errorf("got %s, want progress", clip(got))
					}
				}
				if got := c.ask(request(v, 3, "no/such", `{}`)); !strings.Contains(got, fmt.Sprint(mcp.CodeMethodNotFound)) {
					t.Errorf("an unknown method: got %s", clip(got))
				}
				batch := "[" + call(v, 4, "echo", `{"text":"a"}`) + "," + call(v, 5, "echo", `{"text":"b"}`) + "]"
				got := c.ask(batch) // WIRE-12
				if isArray := strings.HasPrefix(got, "["); isArray != (v == mcp.V2025_03_26) {
					t.Errorf("a batch: got %s", clip(got))
				}
			})
		})
	}
}

// SSE-02: the endpoint is of the stream's origin, keeps what its query says, and can not
// be guessed.
func TestOldEndpoint(t *testing.T) {
	sseBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		seen := make(map[string]bool)
		for range 10 {
			c := openOld(t, client, nil)
			if c.endpoint.Scheme+"://"+c.endpoint.Host+c.endpoint.Path != oldURL {
				t.Errorf("the endpoint: got %v, want another query of %s", c.endpoint, oldURL)
			}
			key := c.endpoint.Query().Get("session")
			if len(key) < 26 || seen[key] { // 130 bits
				t.Errorf("the key: got %q", key)
			}
			seen[key] = true
		}
		c := &oldClient{t: t, client: client}
		resp := c.do(http.MethodGet, oldURL+"?tenant=a%26b", "", nil)
		e, err := sse.NewReader(resp.Body, 0).Next()
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(string(e.Data))
		if err != nil || u.Query().Get("tenant") != "a&b" || u.Query().Get("session") == "" {
			t.Errorf("the endpoint: got %q", e.Data)
		}
	})
}

// SSE-05, SSE-07: the session ends with its stream: what runs is cancelled, and the key
// is worth nothing any more.
func TestOldStreamEnds(t *testing.T) {
	sseBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, g *gate) {
		c := openOld(t, client, nil)
		c.initialize(mcp.V2024_11_05)
		c.post(call(mcp.V2024_11_05, 1, "block", `{}`))
		<-g.begun
		c.stream.Body.Close()
		if cause := <-g.ended; cause == nil {
			t.Error("the handler's context: got no cause")
		}
		synctest.Wait()
		if status, _ := c.try(call(mcp.V2024_11_05, 2, "echo", `{}`), nil); status != http.StatusNotFound {
			t.Errorf("POST after the end: got status %d, want 404", status)
		}
	})
}

// CANC-03: a cancel comes by another POST, and there is no answer.
func TestOldCancel(t *testing.T) {
	sseBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, g *gate) {
		c := openOld(t, client, nil)
		c.initialize(mcp.V2024_11_05)
		c.post(call(mcp.V2024_11_05, 1, "block", `{}`))
		<-g.begun
		c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		<-g.ended
		synctest.Wait()
		if n := len(c.events); n != 0 {
			t.Errorf("got %d events after the cancel, want none", n)
		}
	})
}

// SSE-06, SSE-07, SECA-1, SECA-2, SECA-7, ROB-3: what is refused, and how.
func TestOldRefused(t *testing.T) {
	opts := &mcpserver.Options{Limits: mcpserver.Limits{MaxMessage: 1 << 10}, HTTP: mcpserver.HTTPOptions{Authenticate: func(r *http.Request) (*mcpserver.Principal, error) {
		id := r.Header.Get("Authorization")
		if id == "" {
			return nil, errors.New("who is it?")
		}
		return &mcpserver.Principal{ID: id}, nil
	}}}
	alice := map[string]string{"Authorization": "alice"}
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	tests := []struct {
		name         string
		method, path string
		body         string
		header       map[string]string
		want         int
	}{
		{"GET for another host", "GET", "", "", map[string]string{"Host": "evil.example"}, 403},
		{"GET from another origin", "GET", "", "", map[string]string{"Origin": "http://evil.example"}, 403},
		{"GET from nobody", "GET", "", "", map[string]string{"Authorization": "-"}, 401},
		{"GET of no stream", "GET", "", "", map[string]string{"Accept": "application/json"}, 406},
		{"DELETE", "DELETE", "", "", nil, 405},
		{"OPTIONS", "OPTIONS", "", "", nil, 405},
		{"POST", "POST", "key", ping, nil, 202},
		{"POST with a version", "POST", "key", ping, map[string]string{"Mcp-Protocol-Version": "2025-11-25"}, 202},
		{"POST for another host", "POST", "key", ping, map[string]string{"Host": "evil.example"}, 403},
		{"POST from another origin", "POST", "key", ping, map[string]string{"Origin": "http://evil.example"}, 403},
		{"POST from nobody", "POST", "key", ping, map[string]string{"Authorization": "-"}, 401},
		{"POST from somebody else", "POST", "key", ping, map[string]string{"Authorization": "bob"}, 404},
		{"POST without a key", "POST", "", ping, nil, 404},
		{"POST with another key", "POST", "?session=AAAAAAAAAAAAAAAAAAAAAAAAAA", ping, nil, 404},
		{"POST of text", "POST", "key", ping, map[string]string{"Content-Type": "text/plain"}, 415},
		{"POST of something packed", "POST", "key", ping, map[string]string{"Content-Encoding": "gzip"}, 415},
		{"POST of no JSON", "POST", "key", "{", nil, 400},
		{"POST of 2026-07-28", "POST", "key", call(mcp.V2026_07_28, 1, "echo", `{"text":"x"}`), nil, 400}, // HDR-05
		{"POST of too much", "POST", "key", ping + strings.Repeat(" ", 1<<10), nil, 413},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sseBubble(t, opts, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
				c := openOld(t, client, alice)
				to := oldURL + tt.path
				if tt.path == "key" {
					to = c.endpoint.String()
				}
				if got := c.do(tt.method, to, tt.body, tt.header).StatusCode; got != tt.want {
					t.Errorf("%s: got status %d, want %d", tt.name, got, tt.want)
				}
				if got := c.ask(ping); !strings.Contains(got, `"result"`) { // ROB-2
					t.Errorf("afterwards: got %s", clip(got))
				}
			})
		})
	}
}

// SECA-9: the sessions are bounded.
func TestOldTooManySessions(t *testing.T) {
	sseBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{MaxSessions: 3}}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		var all []*oldClient
		for range 3 {
			all = append(all, openOld(t, client, nil))
		}
		if resp := all[0].do(http.MethodGet, oldURL, "", nil); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("one session too many: got status %d, want 503 and Retry-After", resp.StatusCode)
		}
		all[1].stream.Body.Close()
		synctest.Wait()
		openOld(t, client, nil).initialize(mcp.V2024_11_05)
	})
}

// SECA-6: each session gets its own answers.
func TestOldManyClients(t *testing.T) {
	sseBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		var all []*oldClient
		for range 20 {
			c := openOld(t, client, nil)
			c.initialize(mcp.V2024_11_05)
			all = append(all, c)
		}
		for i, c := range all {
			c.post(call(mcp.V2024_11_05, 1, "echo", fmt.Sprintf(`{"text":"for %d."}`, i)))
		}
		for i, c := range all {
			if got := c.message(); !strings.Contains(got, fmt.Sprintf("for %d.", i)) {
				t.Errorf("client %d: got %s", i, clip(got))
			}
		}
	})
}

// All ends with the server: the calls, the streams, and new ones are refused.
func TestOldShutdown(t *testing.T) {
	sseBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, g *gate) {
		c := openOld(t, client, nil)
		c.initialize(mcp.V2024_11_05)
		c.post(call(mcp.V2024_11_05, 1, "block", `{}`))
		<-g.begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		synctest.Wait()
		for range c.events { // until the end
		}
		if resp := c.do(http.MethodGet, oldURL, "", nil); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("GET after the end: got status %d, want 503", resp.StatusCode)
		}
	})
}

// A server of 2026-07-28 alone has nothing for these clients.
func TestOldModernOnly(t *testing.T) {
	sseBubble(t, &mcpserver.Options{Versions: []mcp.Version{mcp.V2026_07_28}}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		c := &oldClient{t: t, client: client}
		if resp := c.do(http.MethodGet, oldURL, "", nil); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("GET: got status %d, want 405", resp.StatusCode)
		}
	})
}
