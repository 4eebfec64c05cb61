package mcpserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// addPoll adds a tool that has its client poll: it closes its stream, tells of it, and
// goes on when it may.
func addPoll(t *testing.T, s *mcpserver.Server, retry time.Duration, closed func(), wait func()) *atomic.Int32 {
	t.Helper()
	runs := new(atomic.Int32)
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "poll"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		runs.Add(1)
		req.CloseStream(retry)
		closed()
		wait()
		return "polled", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// SHL-40, SHL-41, SHL-43, SHL-22: a handler closes its stream, the client comes again
// and gets the answer of the same call.
func TestCloseStream(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		closed, going := make(chan struct{}), make(chan struct{})
		runs := addPoll(t, s, 300*time.Millisecond, func() { close(closed) }, func() { <-going })
		w := newWeb(t, client, mcp.V2025_11_25)
		w.open()
		frame := call(mcp.V2025_11_25, 1, "poll", `{}`)
		resp, err := w.start(t.Context(), http.MethodPost, strings.NewReader(frame), w.headers(frame))
		if err != nil {
			t.Fatal(err)
		}
		<-closed
		in := sse.NewReader(resp.Body, 0)
		first, err := in.Next()
		if err != nil || first.ID == "" || len(first.Data) > 0 || !first.HasRetry {
			t.Fatalf("the first event: got %+v, %v, want an id, a retry and no data", first, err)
		}
		second, err := in.Next()
		if err != nil || second.Retry != 300*time.Millisecond || len(second.Data) > 0 {
			t.Fatalf("the second event: got %+v, %v, want a retry of 300ms", second, err)
		}
		if e, err := in.Next(); err == nil {
			t.Fatalf("the stream goes on with %+v", e)
		}
		time.Sleep(300 * time.Millisecond)
		resumed := make(chan reply, 1)
		go func() {
			got, err := w.send(t.Context(), http.MethodGet, nil, w.headers(""), map[string]string{"Last-Event-ID": first.ID, "Accept": "text/event-stream"})
			if err != nil {
				t.Error(err)
			}
			resumed <- got
		}()
		synctest.Wait()
		close(going)
		got := <-resumed
		if got.status != http.StatusOK || len(got.messages) != 1 || !strings.Contains(got.last(), "polled") {
			t.Errorf("the rest of the stream: got %v", got)
		}
		if n := runs.Load(); n != 1 {
			t.Errorf("the tool ran %d times, want once", n)
		}
	})
}

// SHL-14, SHM-08: where the client could not come again, the stream stays open.
func TestCloseStreamElsewhere(t *testing.T) {
	poll := func(t *testing.T, s *mcpserver.Server) { addPoll(t, s, time.Hour, func() {}, func() {}) }
	for _, noResume := range []bool{false, true} {
		for _, v := range mcp.Versions() {
			if v == mcp.V2024_11_05 || v == mcp.V2025_11_25 && !noResume {
				continue
			}
			webBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{NoResume: noResume}}, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
				poll(t, s)
				w := newWeb(t, client, v)
				w.open()
				if got := w.post(call(v, 1, "poll", `{}`)); !strings.Contains(got.last(), "polled") {
					t.Errorf("%s, NoResume %t: got %v", v, noResume, got)
				}
			})
		}
	}
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *gate) {
		if got := p.ask(call(v, 1, "echo", `{"text":"a"}`)); !strings.Contains(got, "a") {
			t.Error(got)
		}
	})
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		poll(t, s)
		p.open(mcp.V2025_11_25)
		if got := p.ask(call(mcp.V2025_11_25, 1, "poll", `{}`)); !strings.Contains(got, "polled") {
			t.Errorf("on a pipe: got %s", clip(got))
		}
	})
}

// SECA-7, SHL-54: neither the session nor the event ids of somebody else are of use.
func TestReplayOfAnother(t *testing.T) {
	opts := &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: func(r *http.Request) (*mcpserver.Principal, error) {
		return &mcpserver.Principal{ID: r.Header.Get("Authorization")}, nil
	}}}
	webBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		addPoll(t, s, time.Millisecond, func() {}, func() {})
		as := func(name string) *web {
			w := newWeb(t, client, mcp.V2025_11_25)
			w.header["Authorization"] = name
			w.open()
			return w
		}
		alice, bob := as("alice"), as("bob")
		frame := call(mcp.V2025_11_25, 1, "poll", `{}`)
		ids := make(map[*web]string)
		for _, w := range []*web{alice, bob} { // their streams have the same numbers
			resp, err := w.start(t.Context(), http.MethodPost, strings.NewReader(frame), w.headers(frame))
			if err != nil {
				t.Fatal(err)
			}
			e, err := sse.NewReader(resp.Body, 0).Next()
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			ids[w] = e.ID
		}
		synctest.Wait()
		get := func(w *web, session, id string) reply {
			t.Helper()
			got, err := w.send(t.Context(), http.MethodGet, nil, w.headers(""), map[string]string{"Last-Event-ID": id, "Mcp-Session-Id": session})
			if err != nil {
				t.Fatal(err)
			}
			if got.status != http.StatusOK && strings.Contains(got.body, "polled") {
				t.Errorf("a refusal says %s", got.body)
			}
			return got
		}
		if got := get(bob, alice.session, ids[alice]); got.status != http.StatusNotFound {
			t.Errorf("Bob in Alice's session: got %v, want 404", got)
		}
		if got := get(bob, bob.session, ids[alice]); got.status != http.StatusBadRequest {
			t.Errorf("Bob with Alice's event id: got %v, want 400", got)
		}
		if got := get(alice, alice.session, ids[alice]); !strings.Contains(got.last(), "polled") {
			t.Errorf("Alice with her own: got %v", got)
		}
	})
}

// Troupe's client polls, resumes, and hears what is pushed, over each of the transports.
func TestStreamsWithClient(t *testing.T) {
	for _, transport := range []string{"http", "sse"} {
		t.Run(transport, func(t *testing.T) {
			s, _ := newServer(t, nil)
			runs := addPoll(t, s, time.Millisecond, func() {}, func() {})
			mux := http.NewServeMux()
			mux.Handle("/http", s.Handler())
			mux.Handle("/sse", s.SSEHandler())
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			changed := make(chan struct{}, 10)
			c, err := mcpclient.Dial(t.Context(), mcpclient.Server{
				Name: "peer", URL: server.URL + "/" + transport, Transport: transport, Protocol: mcpclient.ProtocolLegacy,
			}, &mcpclient.Options{OnToolsChanged: func() { note(changed, struct{}{}) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			res, err := c.CallTool(t.Context(), "poll", nil, nil)
			if err != nil || len(res.Content) != 1 {
				t.Fatalf("poll: got %+v, %v", res, err)
			}
			if n := runs.Load(); n != 1 {
				t.Errorf("the tool ran %d times, want once", n)
			}
			addEcho := func(ctx context.Context, in echoIn) (string, error) { return in.Text, nil }
			if err := mcpserver.AddFunc(s, &mcp.Tool{Name: "another"}, addEcho); err != nil {
				t.Fatal(err)
			}
			select {
			case <-changed:
			case <-time.After(20 * time.Second):
				t.Error("the client does not hear of the change")
			}
		})
	}
}
