package streams

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
)

// streamKit is one session's streams behind an HTTP server: GET is the session's own, a
// POST opens a stream that the test fills.
type streamKit struct {
	t       *testing.T
	set     *Set
	streams *Session
	version mcp.Version
	client  *http.Client
	posted  chan *Stream
	served  chan error // what serve of a POST returned
	tasks   sync.WaitGroup
}

func newStreamKit(t *testing.T, v mcp.Version, change func(*Options)) *streamKit {
	t.Helper()
	k := &streamKit{t: t, version: v, posted: make(chan *Stream, 100), served: make(chan error, 100)}
	o := Options{
		KeepAlive: 15 * time.Second, Retry: time.Second, MaxEvents: 100, MaxBytes: 1 << 20,
		Logger: slog.New(slog.DiscardHandler), Go: func(f func()) { k.tasks.Go(f) },
	}
	if change != nil {
		change(&o)
	}
	k.set = NewSet(o)
	k.streams = k.set.NewSession()
	k.client = memhttp.Serve(t, k)
	t.Cleanup(func() {
		k.set.Close()
		k.tasks.Wait()
	})
	return k
}

func (k *streamKit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		switch err := k.streams.Get(w, r, k.version, time.Time{}); {
		case errors.Is(err, ErrTooMany):
			w.WriteHeader(http.StatusTooManyRequests)
		case errors.Is(err, ErrUnknownEvent):
			w.WriteHeader(http.StatusBadRequest)
		case err != nil:
			w.WriteHeader(http.StatusNotFound)
		}
		return
	}
	s := k.streams.Post(k.version)
	k.posted <- s
	k.served <- s.Serve(w, r)
}

// sseClient is one connection of a stream, as the client sees it.
type sseClient struct {
	t    *testing.T
	resp *http.Response
	in   *sse.Reader
}

func (k *streamKit) do(method, lastEventID string) *http.Response {
	k.t.Helper()
	req, err := http.NewRequestWithContext(k.t.Context(), method, "http://localhost/", nil)
	if err != nil {
		k.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := k.client.Do(req)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (k *streamKit) read(resp *http.Response) *sseClient {
	k.t.Helper()
	if resp.StatusCode != http.StatusOK {
		k.t.Fatalf("the stream: got status %d, want 200", resp.StatusCode)
	}
	return &sseClient{k.t, resp, sse.NewReader(resp.Body, 0)}
}

func (k *streamKit) get(lastEventID string) *sseClient {
	k.t.Helper()
	return k.read(k.do(http.MethodGet, lastEventID))
}

// post opens the stream of a POST.
func (k *streamKit) post() (*Stream, *sseClient) {
	k.t.Helper()
	r := k.read(k.do(http.MethodPost, ""))
	return <-k.posted, r
}

// next returns the next event.
func (r *sseClient) next() sse.Event {
	r.t.Helper()
	e, err := r.in.Next()
	if err != nil {
		r.t.Fatalf("reading the stream: %v", err)
	}
	return e
}

// want reads events with this data, and returns the last id.
func (r *sseClient) want(data ...string) (last string) {
	r.t.Helper()
	for _, want := range data {
		e := r.next()
		if string(e.Data) != want {
			r.t.Fatalf("event: got %q, want %q", e.Data, want)
		}
		last = e.ID
	}
	return last
}

// prime reads the event that a stream of 2025-11-25 begins with.
func (r *sseClient) prime() string {
	r.t.Helper()
	e := r.next()
	if !e.HasID || e.ID == "" || len(e.Data) != 0 || !e.HasRetry {
		r.t.Fatalf("the first event: got %+v, want an id, a retry and no data", e)
	}
	return e.ID
}

// wantEnd fails if anything but the orderly end follows.
func (r *sseClient) wantEnd() {
	r.t.Helper()
	if e, err := r.in.Next(); !errors.Is(err, io.EOF) {
		r.t.Fatalf("the end of the stream: got %q, %v, want io.EOF", e.Data, err)
	}
}

// silent fails if anything has come; it needs a bubble. Nothing can be read after it.
func (r *sseClient) silent() {
	r.t.Helper()
	got := make(chan string, 1)
	go func() {
		e, err := r.in.Next()
		got <- fmt.Sprintf("%q, %v", e.Data, err)
	}()
	synctest.Wait()
	select {
	case text := <-got:
		r.t.Fatalf("the stream: got %s, want silence", text)
	default:
	}
}

// nthMessage is the nth of a test.
func nthMessage(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"m","params":{"n":%d}}`, n)
}

func nthMessages(from, to int) (all []string) {
	for n := from; n <= to; n++ {
		all = append(all, nthMessage(n))
	}
	return all
}

// eachLegacy runs f in a bubble for each revision with a handshake.
func eachLegacy(t *testing.T, f func(t *testing.T, k *streamKit)) {
	t.Helper()
	for _, v := range mcp.LegacyVersions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newStreamKit(t, v, nil)) })
		})
	}
}

// inStreams runs f in a bubble, for 2025-11-25.
func inStreams(t *testing.T, change func(*Options), f func(t *testing.T, k *streamKit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newStreamKit(t, mcp.V2025_11_25, change)) })
}

func serveInMemory(t *testing.T, h http.Handler) *http.Client { return memhttp.Serve(t, h) }

func newEventReader(r io.Reader, most int) *sse.Reader { return sse.NewReader(r, most) }
