package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
)

// oldServer serves a wire by HTTP+SSE of 2024-11-05.
type oldServer struct {
	wire *wire
	// refuse is the status for a POST to the stream's own address (SSE-10).
	refuse int

	mu       sync.Mutex
	sessions int
	forget   bool               // the current session
	current  context.CancelFunc // ends the newest stream
	posts    []string           // the bodies that came, with the session
	strange  []*http.Request    // POSTs to the stream's address
	headers  []http.Header      // of everything
}

func (s *oldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.headers = append(s.headers, r.Header)
	s.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/sse":
		s.stream(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/messages":
		s.post(w, r)
	case r.Method == http.MethodPost:
		s.mu.Lock()
		s.strange = append(s.strange, r)
		s.mu.Unlock()
		http.Error(w, "not here", s.refuse)
	default:
		http.NotFound(w, r)
	}
}

// eventSink writes what a wire says as events.
type eventSink struct {
	end context.CancelFunc
	mu  sync.Mutex
	out http.ResponseWriter // nil when the stream has ended
}

func (s *eventSink) Frame(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		return
	}
	text, _ := sse.AppendEvent(nil, &sse.Event{Type: "message", Data: frame})
	_, _ = s.out.Write(text)
	s.out.(http.Flusher).Flush()
}

func (s *eventSink) Lost(error) { s.end() }

func (s *oldServer) stream(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s.mu.Lock()
	s.sessions++
	id := fmt.Sprintf("canary-%d", s.sessions)
	s.current, s.forget = cancel, false
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	sink := &eventSink{out: w, end: cancel}
	if _, err := s.wire.Connect(sink); err != nil { // before the first POST can come
		return
	}
	sink.mu.Lock()
	fmt.Fprintf(w, "event: endpoint\ndata: /messages?session=%s\n\n", id)
	w.(http.Flusher).Flush()
	sink.mu.Unlock()
	<-ctx.Done()
	sink.mu.Lock()
	sink.out = nil // it is the handler's
	sink.mu.Unlock()
}

func (s *oldServer) post(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	known := r.URL.Query().Get("session") == fmt.Sprintf("canary-%d", s.sessions) && !s.forget
	s.posts = append(s.posts, r.URL.Query().Get("session")+" "+string(body))
	s.mu.Unlock()
	if !known {
		http.NotFound(w, r) // SSE-07
		return
	}
	_ = s.wire.Send(mcp.Outgoing{Frame: body})
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, "Accepted")
}

func (s *oldServer) got() (posts []string, strange int, headers []http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(posts, s.posts...), len(s.strange), append(headers, s.headers...)
}

// dial connects to the server; what is logged holds no session key.
func (s *oldServer) dial(t *testing.T, transport string, opts *Options) (*Client, error) {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	var logs lockedBuffer
	o.System, o.httpClient = newSystem(t), memhttp.Serve(t, s)
	o.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, err := Dial(t.Context(), Server{Name: "old", URL: "http://server.test/sse", Transport: transport, Headers: map[string]string{"X-Key": "canary-key"}}, &o)
	t.Cleanup(func() {
		if c != nil {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if text := logs.String(); strings.Contains(text, "canary") {
			t.Errorf("a secret is in the logs: %s", text)
		}
	})
	return c, err
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// SSE-01, SSE-02, SSE-03, SSE-12: every legacy revision over the old transport.
func TestOldTransport(t *testing.T) {
	for _, v := range mcp.LegacyVersions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &oldServer{wire: echoTools(v)}
				c, err := s.dial(t, TransportSSE, nil)
				if err != nil {
					t.Fatal(err)
				}
				if info, err := c.Info(t.Context()); err != nil || info.Version != v {
					t.Errorf("Info: got %+v, %v, want %s", info, err, v)
				}
				var calls sync.WaitGroup
				for i := range 50 {
					calls.Go(func() {
						want := fmt.Sprintf(`{"n":%d}`, i)
						res, err := c.CallTool(t.Context(), "echo", json.RawMessage(want), nil)
						if err != nil || soleText(res) != want { // SECA-6
							t.Errorf("CallTool(%s): got %q, %v", want, soleText(res), err)
						}
					})
				}
				calls.Wait()
				_, strange, headers := s.got()
				if strange > 0 {
					t.Errorf("got %d POSTs to the stream's address, want none", strange)
				}
				for _, h := range headers {
					if h.Get("X-Key") != "canary-key" {
						t.Errorf("got headers %v without the configured one", h)
					}
					for name := range h {
						if strings.HasPrefix(name, "Mcp-") {
							t.Errorf("got the header %s (SSE-12)", name)
						}
					}
				}
			})
		})
	}
}

// SSE-05: a new stream is a new session, with a handshake of its own; what may be
// repeated is, and the rest fails.
func TestOldTransportStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &oldServer{wire: echoTools(mcp.V2024_11_05)}
		answer := s.wire.methods[mcp.MethodCallTool]
		var hang sync.Once
		s.wire.methods[mcp.MethodCallTool] = func(m *mcp.Message) string {
			cut := false
			hang.Do(func() { cut = true })
			if cut {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.current()
				return ""
			}
			return answer(m)
		}
		c, err := s.dial(t, TransportSSE, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "echo", nil, nil); err == nil {
			t.Error("a call whose stream ended: got no error")
		}
		if _, err := c.CallTool(t.Context(), "echo", nil, nil); err != nil {
			t.Errorf("the next call: %v", err)
		}
		posts, _, _ := s.got()
		inits := 0
		for _, p := range posts {
			if strings.Contains(p, `"initialize"`) {
				inits++
			}
		}
		if s.sessions != 2 || inits != 2 {
			t.Errorf("got %d sessions with %d handshakes, want 2 with 2", s.sessions, inits)
		}
	})
}

// CANC-01 on the old transport: a call that is given up is withdrawn by a notification.
func TestOldTransportCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &oldServer{wire: echoTools(mcp.V2025_03_26)}
		s.wire.methods[mcp.MethodCallTool] = func(*mcp.Message) string { return "" }
		c, err := s.dial(t, TransportSSE, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.CallTool(ctx, "echo", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("CallTool: got %v, want the deadline", err)
		}
		synctest.Wait()
		posts, _, _ := s.got()
		if last := posts[len(posts)-1]; !strings.Contains(last, mcp.NotificationCancelled) {
			t.Errorf("the last message: got %s, want %s", last, mcp.NotificationCancelled)
		}
	})
}

// SSE-10: a server that refuses the POST is tried by GET, and the old transport kept.
func TestOldTransportFoundOut(t *testing.T) {
	for _, status := range []int{400, 404, 405} {
		synctest.Test(t, func(t *testing.T) {
			s := &oldServer{wire: echoTools(mcp.V2024_11_05), refuse: status}
			c, err := s.dial(t, "", nil)
			if err != nil {
				t.Fatalf("status %d: %v", status, err)
			}
			if _, err := c.CallTool(t.Context(), "echo", nil, nil); err != nil {
				t.Errorf("status %d: %v", status, err)
			}
			_, before, _ := s.got()
			s.mu.Lock()
			s.current() // the next connection knows
			s.mu.Unlock()
			synctest.Wait()
			if _, err := c.CallTool(t.Context(), "echo", nil, nil); err != nil {
				t.Errorf("status %d: the next connection: %v", status, err)
			}
			if _, after, _ := s.got(); after != before || before == 0 {
				t.Errorf("status %d: got %d POSTs to the stream's address, then %d more, want none more", status, before, after-before)
			}
		})
	}
}

// What is neither one transport nor the other is an error that says so.
func TestNoTransportAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Options{System: newSystem(t), httpClient: memhttp.Serve(t, http.NotFoundHandler())}
		_, err := Dial(t.Context(), Server{Name: "none", URL: "http://server.test/nothing"}, o)
		if err == nil || !strings.Contains(err.Error(), "neither Streamable HTTP") || !strings.Contains(err.Error(), "HTTP+SSE") {
			t.Errorf("Dial: got %v, want both transports named", err)
		}
	})
}

// TIME-03, ROB-8 on the old transport, half-open: the stream is silent and the POSTs are
// taken. The call has its own limit, and the next one a connection.
func TestOldTransportSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &oldServer{wire: echoTools(mcp.V2024_11_05)}
		s.wire.methods[mcp.MethodCallTool] = func(*mcp.Message) string { return "" }
		c, err := s.dial(t, TransportSSE, nil)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err = c.CallTool(t.Context(), "echo", nil, &CallOptions{Idle: 5 * time.Second})
		if took := time.Since(begin); err == nil || took > 6*time.Second {
			t.Errorf("CallTool: got %v after %v, want a timeout after 5s", err, took)
		}
	})
}

// ROB-8: a server that ends every stream, or forgets every session, is not connected to
// all the time.
func TestOldTransportBackoff(t *testing.T) {
	tests := map[string]func(s *oldServer, m *mcp.Message) string{
		"streams end": func(s *oldServer, m *mcp.Message) string {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.current()
			return ""
		},
		"sessions are forgotten": func(s *oldServer, m *mcp.Message) string {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.forget = true
			return "{}"
		},
	}
	for name, ping := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &oldServer{wire: echoTools(mcp.V2024_11_05)}
				s.wire.methods[mcp.MethodPing] = func(m *mcp.Message) string { return ping(s, m) }
				c, err := s.dial(t, TransportSSE, nil)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				for ctx.Err() == nil {
					_ = c.Ping(ctx) // each ends its session, or the next message does
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.sessions < 2 || s.sessions >= 10 {
					t.Errorf("got %d sessions in 3s, want some, and fewer than 10", s.sessions)
				}
			})
		})
	}
}

// ROB-8, SHL-52: nor is a server of Streamable HTTP that forgets each session at once.
func TestForgottenSessionsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sessions atomic.Int32
		forgetful := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			m := new(mcp.Message)
			if mcp.Scan(body, m) != nil || m.Method != mcp.MethodInitialize {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", sessions.Add(1)))
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`, m.ID)
		})
		server := Server{Name: "x", URL: "http://server.test/mcp", Protocol: ProtocolLegacy, Transport: TransportHTTP}
		c, err := Dial(t.Context(), server, &Options{System: newSystem(t), httpClient: memhttp.Serve(t, forgetful)})
		if c != nil {
			defer c.Close()
		}
		time.Sleep(3 * time.Second)
		if n := sessions.Load(); n < 2 || n >= 10 {
			t.Errorf("Dial: %v; got %d sessions in 3s, want some, and fewer than 10", err, n)
		}
	})
}
