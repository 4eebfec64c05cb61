package mcpclient

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// P16: what an idle connection to a server costs, two minutes after its handshake: over
// stdio three goroutines (reader, stderr, wait), because the pipes of fake processes are none that
// the kernel watches, over HTTP none. The limits are what was
// reached and a tenth. What the fake processes keep counts: they hold the handshake.
func TestIdleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory")
	}
	const n = 200
	t.Run("stdio", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			processes := make([]*fakeProcess, n)
			for i := range processes {
				processes[i] = start(good)
			}
			next := 0
			opts := &Options{System: newSystem(t), start: func(*Server) (pipe.Process, error) {
				next++
				return processes[next-1], nil
			}}
			idleMemory(t, n, 8_800, 3, Command("x"), opts, func() {})
		})
	})
	for name, answer := range map[string]func(http.ResponseWriter, *posted){"legacy": legacyWeb(okWeb), "modern": modernWeb(okWeb)} {
		t.Run("HTTP "+name, func(t *testing.T) {
			webBubble(t, answer, func(t *testing.T, s *webServer, opts *Options) {
				first, err := Dial(t.Context(), webAt("/mcp"), opts) // with what all share
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close()
				idleMemory(t, n, 4_150, 0, webAt("/mcp"), opts, func() {
					opts.httpClient.CloseIdleConnections()
					s.forget()
				})
			})
		})
	}
}

// idleMemory measures n clients and compares each with the limits. Settle ends what is
// not the clients'.
func idleMemory(t *testing.T, n int, maxBytes float64, maxGoroutines int, server Server, opts *Options, settle func()) {
	idle := func() (float64, int) {
		time.Sleep(2 * time.Minute) // idle actors and workers have ended by then
		settle()
		synctest.Wait()
		return inUse()
	}
	before, goroutines := idle()
	clients := make([]*Client, n)
	for i := range clients {
		c, err := Dial(t.Context(), server, opts)
		if err != nil {
			t.Fatal(err)
		}
		clients[i] = c
	}
	after, all := idle()
	each := (after - before) / float64(n)
	t.Logf("%.0f bytes and %.2f goroutines for each connection", each, float64(all-goroutines)/float64(n))
	if each > maxBytes {
		t.Errorf("%.0f bytes for each idle connection, want at most %.0f", each, maxBytes)
	}
	if more := all - goroutines; more > maxGoroutines*n+n/20 {
		t.Errorf("%d goroutines for %d idle connections", more, n)
	}
	for _, c := range clients {
		if err := c.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func inUse() (bytes float64, goroutines int) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), runtime.NumGoroutine()
}

// Clients that were dialed alike share their definition, options and what is known of the server;
// what the caller changes later is for those that are dialed then.
func TestClientsShare(t *testing.T) {
	webBubble(t, legacyWeb(okWeb), func(t *testing.T, _ *webServer, opts *Options) {
		server := webAt("/mcp")
		dial := func() *Client {
			c, err := Dial(t.Context(), server, opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		a := dial()
		opts.MaxCalls = 7
		b, c := dial(), dial()
		if a.server != b.server || a.info.Load() != b.info.Load() || b.opts != c.opts {
			t.Error("equal clients have copies of their own")
		}
		if a.opts.MaxCalls != 0 || b.opts.MaxCalls != 7 {
			t.Errorf("MaxCalls is %d and %d, want 0 and 7", a.opts.MaxCalls, b.opts.MaxCalls)
		}
	})
}
