package auth_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// An event stream that ends, and is refused with 401 when it is opened again, is opened with a
// renewed token, without a person and without a call: what the server notifies arrives. It is the
// GET of a legacy server and subscriptions/listen of a modern one (AUTH-15, SUB-01).
func TestEventStreamIsReopened(t *testing.T) {
	t.Parallel() // it waits
	each(t, func(t *testing.T, w *world) {
		p := w.start()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		p.good("read")
		if _, err := p.client.ListTools(ctx); err != nil { // it listens from now on
			t.Fatal(err)
		}
		w.listening(1)
		w.expire()
		w.server.cut()
		w.listening(2)
		w.renewals("after the stream was refused", 1, 0)
		select { // of before
		case <-p.changed:
		default:
		}
		w.server.grow()
		select {
		case <-p.changed:
		case <-ctx.Done():
			t.Fatal("no change of the tools was notified")
		}
		tools, err := p.client.ListTools(ctx)
		if err != nil || !slices.ContainsFunc(tools, func(tool mcp.Tool) bool { return tool.Name == "grown" }) {
			t.Errorf("got the tools %v, %v", tools, err)
		}
		p.asks("at the end", 1)
	})
}

// listening waits until n event streams were opened so far.
func (w *world) listening(n int) {
	w.Helper()
	for begun := time.Now(); w.server.opened() < n; time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > patience {
			w.Fatalf("%d event streams were opened, want %d", w.server.opened(), n)
		}
	}
}

// A server that lets handshakes pass and refuses what follows is logged in at when that is
// refused: at the list of tools, or at a call (AUTH-15).
func TestHandshakePasses(t *testing.T) {
	for _, k := range servers {
		k.open = true // of this copy
		k.run(t, func(t *testing.T, w *world) {
			p := w.start()
			if _, err := p.client.Info(t.Context()); err != nil { // it is connected
				t.Fatal(err)
			}
			p.asks("after the handshake", 0)
			tools, err := p.client.ListTools(t.Context())
			if err != nil || len(tools) < 2 {
				t.Fatalf("got the tools %v, %v", tools, err)
			}
			p.asks("after the list of tools", 1)
			p.good("read")
			w.expire()
			w.as.Forget("RefreshToken")
			p.good("read")
			p.asks("after a refused call", 2)
		})
	}
}
