package streamable_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// request is what the server got.
type request struct {
	Method string // of HTTP
	Header http.Header
	Body   string
	mcp.Message
	At  time.Duration // since the kit was made
	Ctx context.Context
}

// server is scripted: answer writes to w. It notes what it gets.
type server struct {
	answer func(w http.ResponseWriter, r *request)
	begin  time.Time

	mu  sync.Mutex
	got []*request
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req := &request{Method: r.Method, Header: r.Header, Body: string(body), At: time.Since(s.begin), Ctx: r.Context()}
	_ = mcp.Scan(body, &req.Message)
	s.mu.Lock()
	s.got = append(s.got, req)
	s.mu.Unlock()
	s.answer(w, req)
}

// requests returns what has come with a method of HTTP, "" for all.
func (s *server) requests(method string) []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.got), func(r *request) bool { return method != "" && r.Method != method })
}

// sink notes what a link tells.
type sink struct {
	mu      sync.Mutex
	frames  []string // "7: …" with the request's id, or ": …"
	failed  map[mcp.ID]error
	skipped []string
	fails   int
	lost    []error
	change  chan struct{}
	react   func(frame string) // if set, called with each frame
}

func newSink() *sink { return &sink{failed: map[mcp.ID]error{}, change: make(chan struct{}, 1)} }

func (s *sink) Frame(frame []byte) { s.FrameOf(mcp.ID{}, frame) }

func (s *sink) FrameOf(id mcp.ID, frame []byte) {
	s.mu.Lock()
	s.frames = append(s.frames, id.String()+": "+string(frame))
	react := s.react
	s.mu.Unlock()
	if react != nil {
		react(string(frame))
	}
}

func (s *sink) Skipped(head, _ []byte, err func(bool) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped = append(s.skipped, fmt.Sprintf("%.10s: %v", head, err(true)))
}

func (s *sink) Failed(id mcp.ID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[id] = err
	s.fails++
}

func (s *sink) Lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, err)
}

func (s *sink) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames)
}

func (s *sink) failure(id int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed[mcp.IntID(id)]
}

func (s *sink) losses() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lost)
}

// kit is a link to a scripted server, in a bubble.
type kit struct {
	*streamable.Link
	t      *testing.T
	server *server
	sink   *sink
	log    *strings.Builder

	goroutines atomic.Int32 // of the link
}

// bubble runs f with a link; nothing of it is left afterwards.
func bubble(t *testing.T, answer func(w http.ResponseWriter, r *request), f func(k *kit)) {
	t.Helper()
	bubbleWith(t, streamable.Options{}, answer, f)
}

func bubbleWith(t *testing.T, o streamable.Options, answer func(w http.ResponseWriter, r *request), f func(k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &kit{t: t, server: &server{answer: answer, begin: time.Now()}, sink: newSink(), log: new(strings.Builder)}
		u, _ := url.Parse("http://mcp.test/mcp?key=query-secret")
		var running sync.WaitGroup
		o.URL, o.Sink, o.Name = u, k.sink, "x"
		if o.WhenReadable == nil {
			o.Client = memhttp.Serve(t, k.server)
		} else { // only the client of programs has streams that can be waited for
			o.Client = httpguard.NewClient(&httpguard.Options{Dial: memhttp.Listen(t, k.server), Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
			t.Cleanup(o.Client.CloseIdleConnections)
		}
		o.Log = slog.New(slog.NewTextHandler(&lockedWriter{w: k.log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Go = func(_ string, f func()) {
			k.goroutines.Add(1)
			running.Go(func() { f(); k.goroutines.Add(-1) })
		}
		k.Link = streamable.New(o)
		f(k)
		begin := time.Now()
		k.Close()
		if took := time.Since(begin); took > 9*time.Second {
			t.Errorf("Close took %v", took) // ROB-7
		}
		running.Wait() // nothing is left
		if n := len(k.sink.losses()); n != 1 {
			t.Errorf("Lost was called %d times, want once", n)
		}
	})
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// request sends a request and lets everything happen that takes no time.
func (k *kit) request(id int64, method string) {
	k.t.Helper()
	k.send(mcp.Outgoing{Frame: mcp.AppendRequest(nil, mcp.IntID(id), method, nil), Kind: mcp.KindRequest, ID: mcp.IntID(id), Method: method})
}

func (k *kit) notify(method string) {
	k.t.Helper()
	k.send(mcp.Outgoing{Frame: mcp.AppendNotification(nil, method, nil), Kind: mcp.KindNotification, Method: method})
}

func (k *kit) cancel(id int64) {
	k.t.Helper()
	k.send(mcp.Outgoing{
		Frame: mcp.AppendNotification(nil, mcp.NotificationCancelled, fmt.Appendf(nil, `{"requestId":%d}`, id)),
		Kind:  mcp.KindNotification, Method: mcp.NotificationCancelled, Cancels: mcp.IntID(id),
	})
}

func (k *kit) send(m mcp.Outgoing) {
	k.t.Helper()
	if err := k.Send(m); err != nil {
		k.t.Fatalf("Send(%s): %v", m.Method, err)
	}
	synctest.Wait()
}

// session opens a legacy session with an id.
func (k *kit) session() {
	k.t.Helper()
	k.request(1, mcp.MethodInitialize)
	k.Speak(mcp.V2025_11_25)
	k.notify(mcp.NotificationInitialized)
	if k.SessionID() == "" {
		k.t.Fatal("no session")
	}
}

// legacy answers the opening of a session and leaves the rest to next.
func legacy(next func(w http.ResponseWriter, r *request)) func(http.ResponseWriter, *request) {
	return func(w http.ResponseWriter, r *request) {
		switch {
		case r.Message.Method == mcp.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", "session-secret")
			writeJSON(w, 200, `{"jsonrpc":"2.0","id":`+r.ID.String()+`,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`)
		case r.Message.Method == mcp.NotificationInitialized:
			w.WriteHeader(202)
		default:
			next(w, r)
		}
	}
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// stream begins an event stream.
func stream(w http.ResponseWriter) { streamEvents(w, "") }

// streamEvents begins, or goes on with, an event stream.
func streamEvents(w http.ResponseWriter, events string) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
	}
	_, _ = io.WriteString(w, events)
	w.(http.Flusher).Flush()
}

func event(id, data string) string {
	var b strings.Builder
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "data: %s\n\n", data)
	return b.String()
}

func result(id mcp.ID) string {
	return `{"jsonrpc":"2.0","id":` + id.String() + `,"result":{"ok":true}}`
}

// hang keeps a response open until the client goes, or the bubble's time is up.
func hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(24 * time.Hour):
	}
}
