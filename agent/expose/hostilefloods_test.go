package expose

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// stubborn is a connection that takes its time to close.
type stubborn struct {
	net.Conn
	live *atomic.Int64
	free <-chan struct{}
	once sync.Once
}

func (s *stubborn) Close() error {
	err := s.Conn.Close()
	<-s.free
	s.once.Do(func() { s.live.Add(-1) })
	return err
}

// SECA-9, ROB-7: clients that come with ever other capabilities do not multiply what is
// behind without bound, even if that does not end when it is told to.
func TestFloodOfConnections(t *testing.T) {
	down := newDown(t, "down", nil)
	mustTool(t, down, &mcp.Tool{Name: "fine"}, says("fine"))
	var live, most atomic.Int64
	free := make(chan struct{})
	def := mcpclient.Stream("slow", func(context.Context) (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		go func() { _ = down.Serve(context.WithoutCancel(t.Context()), far, far) }()
		n := live.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return &stubborn{Conn: near, live: &live, free: free}, nil
	})
	f := startGateway(t, &Options{MaxClients: 4}, def)
	refused := 0
	for i := range 40 {
		w := statelessList(t, f.Handler(), fmt.Sprint("x", i))
		switch w.Code {
		case http.StatusOK:
		case http.StatusServiceUnavailable:
			refused++
		default:
			t.Fatalf("client %d: got status %d, %s", i, w.Code, w.Body)
		}
	}
	if n := most.Load(); n > 2*4+1 {
		t.Errorf("connections at once: got %d, want 9 at most", n)
	}
	if refused == 0 {
		t.Error("clients that were refused: got none")
	}
	close(free)
	if err := f.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	mcptest.Eventually(t, mcptest.Patience, "without clients' connections", func() bool { return live.Load() <= 1 }) // the runtime has one, too
}

// statelessList is a tools/list of 2026-07-28 of a client that declares an experiment.
func statelessList(t *testing.T, h http.Handler, experiment string) *httptest.ResponseRecorder {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"experimental":{"` + experiment + `":{}}}}}}`
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"} {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// SECA-9: a request that the old transport refuses keeps no stream busy.
func TestRefusedAtAStream(t *testing.T) {
	f := startGateway(t, &Options{Server: mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: func(r *http.Request) (*mcpserver.Principal, error) {
		if r.Header.Get("X-User") == "" {
			return nil, io.EOF
		}
		return nil, nil // somebody
	}}}})
	u, err := f.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	f.clients.name(u, byStream, "key")
	f.clients.done(u)
	for range 3 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/sse?client=key", strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		f.SSEHandler().ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("nobody: got status %d, want 401", w.Code)
		}
	}
	f.clients.mu.Lock()
	defer f.clients.mu.Unlock()
	if u.row.busy != 0 {
		t.Errorf("busy: got %d, want 0", u.row.busy)
	}
}
