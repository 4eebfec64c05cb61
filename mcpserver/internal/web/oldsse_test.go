package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// endsEarly is a backend whose sessions end while they are opened.
type endsEarly struct{ Backend }

type ended struct{ Session }

func (ended) Close(error) {}

func (endsEarly) Open(ctx context.Context, _ Sender, out Output, over func()) (Session, error) {
	over()
	return ended{}, out.Close(ctx)
}

// SSE-05: a session that ends before its stream has a connection is in the table no longer
// than that.
func TestOldSessionEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(Options{
			Backend: endsEarly{}, Versions: mcp.Versions(), MaxMessage: 1 << 10, MaxSessions: 1, SessionTTL: time.Minute, Logger: slog.New(slog.DiscardHandler),
			Streams: streams.Options{KeepAlive: time.Minute, Retry: time.Second, MaxEvents: 1, MaxBytes: 1, Logger: slog.New(slog.DiscardHandler), Go: func(f func()) { go f() }},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // more than MaxSessions
			r := httptest.NewRequest(http.MethodGet, "http://localhost/sse", nil)
			r.Header.Set("Accept", typeStream)
			w := httptest.NewRecorder()
			h.SSE().ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Errorf("GET: got %d %s", w.Code, w.Body)
			}
		}
		h.old.byKey.Range(func(key, _ any) bool { t.Errorf("the session %v is left", key); return true })
		if n := h.old.count.Load(); n != 0 {
			t.Errorf("%d sessions are counted", n)
		}
		h.Close()
	})
}
