//go:build unix

package mcpserver

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
)

// inUse is heap and stacks, in bytes.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// idleSessions opens n sessions over a socket, each with a standing stream if it is
// wanted, and returns what each costs in bytes of heap and stacks, and in goroutines.
func idleSessions(t testing.TB, n int, listening bool) (perSession, goroutines float64) {
	t.Helper()
	s, err := New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	addr := netip.MustParseAddrPort(server.Listener.Addr().String())
	to := &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	var fds []int
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	}()
	buf := make([]byte, 16<<10)
	ask := func(fd int, text, until string) string {
		if _, err := syscall.Write(fd, []byte(text)); err != nil {
			t.Fatal(err)
		}
		for got := 0; ; {
			m, err := syscall.Read(fd, buf[got:])
			if err != nil || m == 0 {
				t.Fatalf("reading: %d, %v", m, err)
			}
			if got += m; bytes.Contains(buf[:got], []byte(until)) {
				return string(buf[:got])
			}
		}
	}
	dial := func() int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			mcptest.Lacks(t, "descriptors", err)
		}
		fds = append(fds, fd)
		if err := syscall.Connect(fd, to); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	post := func(fd int, session, body, until string) string {
		return ask(fd, fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", session, len(body), body), until)
	}
	posts := dial()
	open := func() {
		answer := post(posts, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "serverInfo")
		_, rest, _ := strings.Cut(answer, "Mcp-Session-Id: ")
		id, _, _ := strings.Cut(rest, "\r\n")
		session := "Mcp-Session-Id: " + id + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"
		post(posts, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "202")
		if listening {
			ask(dial(), "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"+session+"\r\n", "data: \n\n")
		}
	}
	for range 10 { // what is needed once
		open()
	}
	before, routines := inUse(), runtime.NumGoroutine()
	for range n {
		open()
	}
	for last, same := 0, 0; same < 1000; same++ {
		if now := runtime.NumGoroutine(); now != last {
			last, same = now, 0
		}
		runtime.Gosched()
	}
	return (float64(inUse()) - float64(before)) / float64(n), float64(runtime.NumGoroutine()-routines) / float64(n)
}

// P10, P11: an idle session costs at most 4 KiB, one with a standing stream 8 KiB, and
// neither a goroutine.
func TestIdleSessionMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		listening bool
		most      float64
	}{"idle": {false, 4 << 10}, "listening": {true, 8 << 10}} {
		t.Run(name, func(t *testing.T) {
			each, goroutines := idleSessions(t, 500, tt.listening)
			t.Logf("%.0f bytes and %.3f goroutines for each session", each, goroutines)
			if goroutines > 0.02 {
				t.Errorf("got %.3f goroutines for each session, want none", goroutines)
			}
			if each > tt.most {
				t.Errorf("got %.0f bytes for each session, want at most %.0f", each, tt.most)
			}
		})
	}
}

// BenchmarkIdleSession measures what an idle session costs the server.
func BenchmarkIdleSession(b *testing.B) {
	for name, listening := range map[string]bool{"idle": false, "listening": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				each, goroutines := idleSessions(b, 4000, listening)
				b.ReportMetric(each, "B/session")
				b.ReportMetric(goroutines, "goroutines/session")
			}
		})
	}
}
