//go:build unix

package streams

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
)

// standingStreams opens n streams, of a session each, and returns what each costs the
// server in bytes of heap and stacks, and in goroutines. The clients are bare sockets.
func standingStreams(t testing.TB, n int, wrap func(http.ResponseWriter) http.ResponseWriter) (perStream, goroutines float64) {
	t.Helper()
	h := NewSet(Options{KeepAlive: time.Hour, Retry: time.Second, MaxEvents: 1000, MaxBytes: 1 << 20, Go: func(f func()) { go f() }})
	sessions := make([]*Session, n)
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := h.NewSession()
		sessions[next] = session
		next++
		if err := session.Get(wrap(w), r, mcp.V2025_11_25, time.Time{}); err != nil {
			t.Error(err)
		}
	}))
	addr := netip.MustParseAddrPort(server.Listener.Addr().String())
	to := &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	clients := make([]int, 0, n)
	defer func() {
		h.Close()
		server.Close()
		for _, fd := range clients {
			_ = syscall.Close(fd)
		}
	}()
	buf := make([]byte, 4<<10)
	dial := func() {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			mcptest.Lacks(t, "descriptors", err)
		}
		clients = append(clients, fd)
		if err := syscall.Connect(fd, to); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Write(fd, []byte("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		for got := 0; !bytes.Contains(buf[:got], []byte("data: \n\n")); { // the priming event
			m, err := syscall.Read(fd, buf[got:])
			if err != nil || m == 0 {
				t.Fatalf("reading the stream: %d, %v", m, err)
			}
			got += m
		}
	}
	dial() // what is needed once
	before, routines := inUse(), runtime.NumGoroutine()
	for range n - 1 {
		dial()
	}
	for last, same := 0, 0; same < 1000; same++ { // handlers that return are gone soon
		if now := runtime.NumGoroutine(); now != last {
			last, same = now, 0
		}
		runtime.Gosched()
	}
	perStream = (float64(inUse()) - float64(before)) / float64(n-1)
	goroutines = float64(runtime.NumGoroutine()-routines) / float64(n-1)
	runtime.KeepAlive(sessions)
	return perStream, goroutines
}

// inUse is heap and stacks, in bytes.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func plainWriter(w http.ResponseWriter) http.ResponseWriter { return w }

func wrappedWriter(w http.ResponseWriter) http.ResponseWriter {
	return struct {
		http.ResponseWriter
		http.Flusher
	}{w, w.(http.Flusher)}
}

// P11: a standing stream costs no goroutine and little memory; with what an idle session
// costs (P10, 4 KiB) it stays below 8 KiB.
func TestStandingStreamMemory(t *testing.T) {
	each, goroutines := standingStreams(t, 400, plainWriter)
	t.Logf("%.0f bytes and %.3f goroutines for each stream", each, goroutines)
	if goroutines > 0.01 {
		t.Errorf("got %.3f goroutines for each stream, want none", goroutines)
	}
	if each > 4<<10 {
		t.Errorf("got %.0f bytes for each stream, want at most 4096", each)
	}
}

// BenchmarkStandingStream measures a session's standing stream, over HTTP/1.1 without
// TLS and as any other connection has it.
func BenchmarkStandingStream(b *testing.B) {
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{"hijacked": plainWriter, "handler": wrappedWriter} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				each, goroutines := standingStreams(b, 4000, wrap)
				b.ReportMetric(each, "B/stream")
				b.ReportMetric(goroutines, "goroutines/stream")
			}
		})
	}
}

// P10: what an idle session has of streams.
func BenchmarkIdleStreams(b *testing.B) {
	h := NewSet(Options{KeepAlive: time.Hour})
	b.ReportAllocs()
	var kept *Session
	for b.Loop() {
		kept = h.NewSession()
	}
	runtime.KeepAlive(kept)
}
