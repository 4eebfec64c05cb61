package mcpserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// direct serves one request without a network.
func direct(handler http.Handler, ctx context.Context, method, body string, header h) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost/mcp", strings.NewReader(body))
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// holds counts what is alive after a collection.
func holds() (heap, goroutines int64) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(runtime.NumGoroutine())
}

// eventually waits for what other goroutines are about to do.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("still not true: %s", what)
		}
	}
}

// P10, P13, SECA-9: an idle session takes little and no goroutine, a deleted one
// nothing.
func TestWebIdleSessions(t *testing.T) {
	if raceEnabled {
		t.Skip("memory means nothing under the race detector")
	}
	const n = 10_000
	s, _ := newServer(t, nil)
	handler := s.Handler()
	post := h{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	open := func() (ids []string) {
		for range n {
			w := direct(handler, t.Context(), http.MethodPost, initialize(mcp.V2025_11_25), post)
			ids = append(ids, w.Header().Get("Mcp-Session-Id"))
		}
		return ids
	}
	drop := func(ids []string) {
		for _, id := range ids {
			if w := direct(handler, t.Context(), http.MethodDelete, "", h{"Mcp-Session-Id": id}); w.Code != http.StatusNoContent {
				t.Fatalf("DELETE: got %d %s", w.Code, w.Body)
			}
		}
		eventually(t, "all sessions have ended", func() bool { return mcpserver.Sessions(s) == 0 })
	}
	drop(open()) // what is kept for the next is there
	before, goroutines := holds()
	ids := open()
	var per, after int64
	eventually(t, "an idle session takes at most 4 KiB and no goroutine", func() bool { // workers without work end in 10 s
		var opened int64
		opened, after = holds()
		per = (opened - before) / n
		return per <= 4<<10 && after <= goroutines+10
	})
	t.Logf("an idle session takes %d B", per)
	drop(ids)
	ids = nil // they take more than what may be left
	const (
		cycles = 2
		grown  = 64 << 10 // maps of many actors keep their size
	)
	for range cycles - 1 {
		drop(open())
	}
	var left int64
	eventually(t, "deleted sessions leave next to nothing", func() bool {
		left, after = holds()
		return left-before < 16*n*cycles+grown && after <= goroutines+10
	})
	t.Logf("%d deleted sessions left %d B", n*cycles, left-before)
}

// P13: 10,000 cancelled calls leave nothing.
func TestWebCancelledCalls(t *testing.T) {
	if raceEnabled {
		t.Skip("memory means nothing under the race detector")
	}
	s, g := newServer(t, nil)
	handler := s.Handler()
	const v = mcp.V2026_07_28
	header := h{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": string(v), "Mcp-Method": "tools/call", "Mcp-Name": "block"}
	calls := func(n int) {
		for i := range n {
			ctx, cancel := context.WithCancel(context.Background())
			go func() { <-g.begun; cancel() }()
			direct(handler, ctx, http.MethodPost, call(v, i, "block", `{}`), header)
			<-g.ended
		}
	}
	calls(1000)
	before, goroutines := holds()
	calls(10_000)
	eventually(t, "nothing is left of cancelled calls", func() bool {
		left, after := holds()
		return left < before+256<<10 && after <= goroutines+10
	})
}

// ROB-3: a long request that waits does not keep what it does not need.
func TestWebWaitingBody(t *testing.T) {
	if raceEnabled {
		t.Skip("memory means nothing under the race detector")
	}
	s, g := newServer(t, nil)
	handler := s.Handler()
	const v = mcp.V2026_07_28
	header := h{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": string(v), "Mcp-Method": "tools/call", "Mcp-Name": "block"}
	frame := call(v, 1, "block", `{}`)
	frame = frame[:len(frame)-1] + `,"x":"` + strings.Repeat("x", 3<<20) + `"}`
	before, _ := holds()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const n = 3 // more large ones of one client are refused
	done := make(chan struct{}, n)
	for range n {
		go func() {
			direct(handler, ctx, http.MethodPost, frame, header)
			done <- struct{}{}
		}()
		<-g.begun
	}
	eventually(t, "the bodies are given up", func() bool {
		during, _ := holds()
		return during-before < n<<20
	})
	cancel()
	for range n {
		<-done
	}
}
