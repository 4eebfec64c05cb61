package mcpserver_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// serveReal serves on a real network.
func serveReal(t testing.TB, s *mcpserver.Server) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return web
}

// rawCalls returns a function that makes a call over one connection, at almost no
// cost of its own.
func rawCalls(t testing.TB, v mcp.Version) func() {
	t.Helper()
	s, _ := newServer(t, nil)
	server := serveReal(t, s)
	w := newWeb(t, server.Client(), v)
	w.url = server.URL + "/mcp"
	w.open()
	frame := call(v, 1, "echo", `{"text":"`+strings.Repeat("x", 100)+`","n":1}`)
	var text bytes.Buffer
	fmt.Fprintf(&text, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", server.Listener.Addr(), len(frame))
	for name, value := range w.headers(frame) {
		fmt.Fprintf(&text, "%s: %s\r\n", name, value)
	}
	text.WriteString("\r\n" + frame)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	in, line := bufio.NewReader(conn), make([]byte, 64<<10)
	once := func() {
		if _, err := conn.Write(text.Bytes()); err != nil {
			t.Fatal(err)
		}
		n, err := in.Read(line) // an answer is sent in one piece
		if err != nil || !bytes.HasPrefix(line[:n], []byte("HTTP/1.1 200 OK")) || line[n-1] != '}' {
			t.Fatalf("got %q, %v", line[:n], err)
		}
	}
	once()
	return once
}

// P8: a call allocates little, that of package net/http included.
func TestWebAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations mean nothing under the race detector")
	}
	for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25} {
		once := rawCalls(t, v)
		if n := testing.AllocsPerRun(500, once); n > 45 {
			t.Errorf("a call of %s: got %v allocations, want at most 45", v, n)
		} else {
			t.Logf("a call of %s: %v allocations", v, n)
		}
	}
}

// BenchmarkHTTP is a call of a quick tool over one connection, whole server.
func BenchmarkHTTP(b *testing.B) {
	for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25} {
		b.Run(string(v), func(b *testing.B) {
			once := rawCalls(b, v)
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}

// FuzzPost holds that no header and no body breaks the server (SECA-8, ROB-2): it
// answers, and a message that is accepted has headers that agree with it (SECA-5).
func FuzzPost(f *testing.F) {
	f.Add("application/json", "application/json, text/event-stream", "2026-07-28", "tools/call", "echo", "", call(mcp.V2026_07_28, 1, "echo", `{"text":"x"}`))
	f.Add("application/json;charset=utf-8", "*/*;q=0.5", "2025-11-25", "", "", "AAAA", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	f.Add("application/json", "application/json, text/event-stream", "2026-07-28", "tools/call", "=?base64?ZWNobw==?=", "", call(mcp.V2026_07_28, 1, "echo", `{}`))
	f.Add("application/json", "*/*", "", "", "", "", initialize(mcp.V2025_03_26))
	s, _ := newServer(f, nil)
	handler := s.Handler()
	f.Fuzz(func(t *testing.T, kind, accept, version, method, name, session, body string) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		for key, value := range map[string]string{"Content-Type": kind, "Accept": accept, "Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name, "Mcp-Session-Id": session} {
			if value != "" {
				r.Header[key] = []string{value}
			}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var m mcp.Message
		if mcp.Scan([]byte(body), &m) != nil || !m.Modern || m.Kind != mcp.KindRequest || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"result"`) {
			return
		}
		if version != string(m.Version) || method != m.Method {
			t.Errorf("served %s of %s with the headers %q and %q", m.Method, m.Version, method, version)
		}
		_, _ = io.Copy(io.Discard, w.Result().Body)
	})
}
