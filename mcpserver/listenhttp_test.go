package mcpserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcpschema "github.com/troupe-dev/troupe/internal/mcptest/schema"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// follow sends a request whose answer is a stream, and returns its messages as they
// come; the channel is closed at the end.
func (w *web) follow(ctx context.Context, method, frame string) <-chan string {
	w.t.Helper()
	h := w.headers(frame)
	if method == http.MethodGet {
		delete(h, "Content-Type")
		h["Accept"] = "text/event-stream"
	}
	resp, err := w.start(ctx, method, strings.NewReader(frame), h)
	if err != nil {
		w.t.Fatalf("%s: %v", method, err)
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		w.t.Fatalf("%s: got %d and %q, want a stream", method, resp.StatusCode, kind)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		defer resp.Body.Close()
		for r := sse.NewReader(resp.Body, 16<<20); ; {
			e, err := r.Next()
			if err != nil {
				return
			}
			if len(e.Data) > 0 {
				lines <- string(e.Data)
			}
		}
	}()
	return lines
}

// expect compares the next messages of a stream, after which nothing is to come now.
func (w *web) expect(lines <-chan string, want ...string) {
	w.t.Helper()
	for _, one := range want {
		select {
		case got := <-lines:
			if !mcpschema.Equal([]byte(got), []byte(one)) {
				w.t.Errorf("got  %s\nwant %s", got, one)
			}
			w.checks.checkMessage(got)
		case <-time.After(time.Hour):
			w.t.Fatalf("nothing came, want %s", one)
		}
	}
	synctest.Wait()
	select {
	case got, open := <-lines:
		if open {
			w.t.Errorf("got %s, want silence", got)
		}
	default:
	}
}

// SHM-11, SUB-02, SUB-03, SUB-06: over HTTP each subscription is a stream of its own,
// which several clients may call by the same id.
func TestWebListen(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		time.Sleep(time.Second)
		w, x := newWeb(t, client, mcp.V2026_07_28), newWeb(t, client, mcp.V2026_07_28)
		one := w.follow(t.Context(), http.MethodPost, listen(1, `{"toolsListChanged":true}`))
		two := x.follow(t.Context(), http.MethodPost, listen(1, `{"promptsListChanged":true}`))
		w.expect(one, acknowledged("1", `{"toolsListChanged":true}`))
		x.expect(two, acknowledged("1", `{}`))
		time.Sleep(time.Hour) // SUB-12
		s.Changed(0)
		w.expect(one, of("1", mcp.NotificationToolsChanged, ""))
		x.expect(two)
	})
}

// SUB-07, SHM-09: closing the stream ends the subscription, and nothing of it is left.
func TestWebListenAbandoned(t *testing.T) {
	const many = 200
	webBubble(t, &mcpserver.Options{Limits: mcpserver.Limits{MaxListens: 3}}, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		w := newWeb(t, client, mcp.V2026_07_28)
		for i := range many {
			lines := w.follow(ctx, http.MethodPost, listen(i, `{"toolsListChanged":true}`))
			w.expect(lines, acknowledged(fmt.Sprint(i), `{"toolsListChanged":true}`))
		}
		if streams, _, _, quotas, _ := s.Subscribed(); streams != many || quotas != 0 {
			t.Errorf("%d streams and %d quotas, want %d and none: nobody knows who it is", streams, quotas, many)
		}
		cancel()
		synctest.Wait()
		if streams, _, _, quotas, bytes := s.Subscribed(); streams+quotas+bytes != 0 {
			t.Errorf("left: %d streams, %d quotas, %d bytes", streams, quotas, bytes)
		}
	})
}

// SUB-08: at the end of the server the stream ends with the answer; CANC-10: a
// notifications/cancelled is for pipes only.
func TestWebListenShutdown(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		w := newWeb(t, client, mcp.V2026_07_28)
		lines := w.follow(t.Context(), http.MethodPost, listen("L", `{}`))
		w.expect(lines, acknowledged(`"L"`, `{}`))
		begun := time.Now()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(begun) > time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(begun))
		}
		w.expect(lines, ended(`"L"`))
		if line, open := <-lines; open {
			t.Errorf("got %s, want the end of the stream", line)
		}
	})
}

// ROB-3: the streams and resources of a principal are bounded, and those of another
// are not touched by that.
func TestWebListenBounds(t *testing.T) {
	opts := &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: principals}, Limits: mcpserver.Limits{MaxListens: 2, MaxSubscriptions: 3}, Lists: mcpserver.ListOptions{DeclareAll: true}}
	webBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		alice, bob := newWeb(t, client, mcp.V2026_07_28), newWeb(t, client, mcp.V2026_07_28)
		alice.header["Authorization"], bob.header["Authorization"] = "Bearer alice", "Bearer bob"
		ctx, cancel := context.WithCancel(t.Context())
		alice.expect(alice.follow(ctx, http.MethodPost, listen(1, `{"resourceSubscriptions":["x:1","x:2"]}`)), acknowledged("1", `{"resourceSubscriptions":["x:1","x:2"]}`))
		alice.expect(alice.follow(ctx, http.MethodPost, listen(2, `{"resourceSubscriptions":["x:1","x:2"]}`)), acknowledged("2", `{"resourceSubscriptions":["x:1"]}`))
		if got := alice.post(listen(3, `{}`)); got.code() != mcp.CodeInternal {
			t.Errorf("one too many: got %v", got)
		}
		lines := bob.follow(t.Context(), http.MethodPost, listen(1, `{"resourceSubscriptions":["x:1"]}`))
		bob.expect(lines, acknowledged("1", `{"resourceSubscriptions":["x:1"]}`))
		cancel()
		synctest.Wait()
		if streams, uris, _, quotas, _ := s.Subscribed(); streams != 1 || uris != 1 || quotas != 1 {
			t.Errorf("%d streams, %d URIs, %d quotas are left, want 1 of each", streams, uris, quotas)
		}
		s.ResourceUpdated("x:1")
		bob.expect(lines, of("1", mcp.NotificationResourceUpdated, `"uri":"x:1"`))
	})
}

// SHL-21, SHL-31, TOOL-13: a session is told on its GET stream, each thing once; lists
// that have changed while there was none are told when there is one, once.
func TestWebListChanged(t *testing.T) {
	webBubble(t, &mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true}, HTTP: mcpserver.HTTPOptions{NoResume: true}}, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		time.Sleep(time.Second)
		w := newWeb(t, client, mcp.V2025_11_25)
		w.open()
		for range 50 {
			s.Changed(0)
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithCancel(t.Context())
		lines := w.follow(ctx, http.MethodGet, "")
		w.expect(lines, notice(mcp.NotificationToolsChanged))
		second := w.follow(t.Context(), http.MethodGet, "")
		w.expect(second)
		s.Changed(1)
		time.Sleep(time.Second)
		if n := len(lines) + len(second); n != 1 {
			t.Errorf("%d notices on two streams, want 1", n)
		}
		cancel()
		w.post(request(w.version, 1, mcp.MethodSubscribe, `{"uri":"x:a"}`))
		w.delete()
		s.Changed(0)
		s.ResourceUpdated("x:a")
		time.Sleep(time.Second)
		if streams, uris, _, quotas, bytes := s.Subscribed(); streams+uris+quotas+bytes != 0 {
			t.Errorf("left after DELETE: %d streams, %d URIs, %d quotas, %d bytes", streams, uris, quotas, bytes)
		}
	})
}

// LOG-07, SHL-13, SHL-31: what a request logs comes on the stream of its POST alone,
// and not on that of a GET.
func TestWebLogStream(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		w := newWeb(t, client, mcp.V2025_11_25)
		w.open()
		lines := w.follow(t.Context(), http.MethodGet, "")
		w.expect(lines)
		got := w.post(call(w.version, 1, "log", `{"text":"x"}`))
		if len(got.messages) != 2 || !strings.Contains(got.messages[0], mcp.NotificationMessage) || got.id() != "1" {
			t.Errorf("got %v, want a log message and the result", got)
		}
		w.expect(lines)
	})
}

// PING-02: a session is pinged while it has a stream, and one that does not answer is
// ended: SHL-52, its id is unknown from then on.
func TestWebPing(t *testing.T) {
	webBubble(t, &mcpserver.Options{Limits: mcpserver.Limits{PingEvery: time.Minute}}, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		w := newWeb(t, client, mcp.V2025_11_25)
		w.open()
		for range 10 { // without a stream it is left alone
			time.Sleep(10 * time.Minute)
			if got := w.post(request(w.version, 1, mcp.MethodPing, `{}`)); got.status != http.StatusOK {
				t.Fatalf("got %v", got)
			}
		}
		lines := w.follow(t.Context(), http.MethodGet, "")
		if got := <-lines; !strings.Contains(got, `"method":"ping"`) {
			t.Errorf("got %s, want a ping", got)
		}
		w.post(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		pings := 0
		for line := range lines {
			if strings.Contains(line, `"method":"ping"`) {
				pings++
			}
		}
		if got := w.post(request(w.version, 1, mcp.MethodPing, `{}`)); pings != 3 || got.status != http.StatusNotFound {
			t.Errorf("after %d pings without an answer: got %v, want 404 after 3", pings, got)
		}
	})
}

// PING-02, SHL-32: a client that has no stream but that of a request can not be pinged,
// and is not taken for silent.
func TestWebPingWithoutGet(t *testing.T) {
	webBubble(t, &mcpserver.Options{Limits: mcpserver.Limits{PingEvery: time.Minute}}, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		if err := mcpserver.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, _ *mcpserver.ToolRequest, _ struct{}) (string, error) {
			select {
			case <-time.After(8 * time.Minute):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}); err != nil {
			t.Fatal(err)
		}
		w := newWeb(t, client, mcp.V2025_11_25)
		w.open()
		if got := w.post(call(w.version, 1, "slow", `{}`)); !strings.Contains(got.last(), "done") {
			t.Errorf("got %v, want the result", got)
		}
		if got := <-w.follow(t.Context(), http.MethodGet, ""); !strings.Contains(got, `"id":1,"method":"ping"`) { // none has waited for a stream
			t.Errorf("got %s, want the first ping", got)
		}
	})
}

// ERA-10, ERA-12: clients of all revisions on one URL, each told in its own way.
func TestWebBothErasAreTold(t *testing.T) {
	webBubble(t, &mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true}}, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		time.Sleep(time.Second)
		type hears struct {
			w     *web
			lines <-chan string
		}
		var all []hears
		for _, v := range mcp.Versions() {
			if v == mcp.V2024_11_05 {
				continue
			}
			w := newWeb(t, client, v)
			w.open()
			var lines <-chan string
			if v.Era() == mcp.EraModern {
				lines = w.follow(t.Context(), http.MethodPost, listen("L", `{"toolsListChanged":true,"resourceSubscriptions":["x:a"]}`))
				w.expect(lines, acknowledged(`"L"`, `{"toolsListChanged":true,"resourceSubscriptions":["x:a"]}`))
			} else {
				w.post(request(v, 1, mcp.MethodSubscribe, `{"uri":"x:a"}`))
				lines = w.follow(t.Context(), http.MethodGet, "")
				w.expect(lines)
			}
			all = append(all, hears{w, lines})
		}
		s.Changed(0)
		s.ResourceUpdated("x:a/b")
		for _, h := range all {
			if h.w.version.Era() == mcp.EraModern {
				h.w.expect(h.lines, of(`"L"`, mcp.NotificationToolsChanged, ""), of(`"L"`, mcp.NotificationResourceUpdated, `"uri":"x:a/b"`))
			} else {
				h.w.expect(h.lines, notice(mcp.NotificationToolsChanged), updated("x:a/b"))
			}
		}
	})
}
