package mcpserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// panicking is a stream whose Read panics.
type panicking struct{ io.Reader }

func (panicking) Read([]byte) (int, error) { panic("the stream is broken") }

// ROB-1: a panic where a pipe is read ends the session, and Serve says so: nobody is
// left to hear the client.
func TestPanicWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		_, out := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(t.Context(), panicking{}, out) }()
		select {
		case err := <-ended:
			if _, ok := errors.AsType[*actors.PanicError](err); !ok {
				t.Errorf("Serve: got %v, want the panic", err)
			}
		case <-time.After(time.Hour):
			t.Error("Serve has not ended")
		}
	})
}

// SHL-53, CANC-09: a call that ends with its session is no failure of the server's, and
// is answered with what has happened.
func TestCallEndsWithItsSession(t *testing.T) {
	var log journal
	webBubble(t, &mcpserver.Options{Logger: log.logger()}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, g *gate) {
		w := newWeb(t, client, mcp.V2025_11_25)
		w.open()
		answered := make(chan reply, 1)
		go func() { answered <- w.post(call(w.version, 7, "block", `{}`)) }()
		<-g.begun
		w.delete()
		if got := <-answered; !strings.Contains(got.last(), "the session has ended") {
			t.Errorf("a call whose session was deleted: got %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s, g := newServer(t, &mcpserver.Options{Logger: log.logger(), Limits: mcpserver.Limits{Grace: time.Second}})
		p := serve(t, s)
		p.initialize(mcp.V2025_11_25)
		p.send(call(p.version, 8, "block", `{}`))
		<-g.begun
		p.in.Close()
		if got := p.receive(); !strings.Contains(got, "the session has ended") {
			t.Errorf("a call whose client has hung up: got %s", got)
		}
		<-p.ended
	})
	synctest.Test(t, func(t *testing.T) {
		s, g := newServer(t, &mcpserver.Options{Logger: log.logger()})
		p := serve(t, s)
		p.initialize(mcp.V2025_11_25)
		p.send(call(p.version, 9, "block", `{}`))
		<-g.begun
		go s.Close()
		if got := p.receive(); !strings.Contains(got, "the server is shutting down") {
			t.Errorf("a call whose server closes: got %s", got)
		}
		<-p.ended
	})
	if strings.Contains(log.String(), "ERROR") {
		t.Errorf("logged as an error:\n%s", &log)
	}
}

// SECA-5, SECA-25: the secret of a session of the old transport is known to its client
// and to nobody who reads the log, whatever goes wrong with it.
func TestOldKeyIsNotLogged(t *testing.T) {
	var log journal
	sseBubble(t, &mcpserver.Options{Logger: log.logger()}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		keys := map[string]bool{}
		for range 3 {
			c := openOld(t, client, nil)
			key := c.endpoint.Query().Get("session")
			if len(key) < 26 || keys[key] { // 130 bits in base 32
				t.Errorf("got the key %q, which is short or not new", key)
			}
			keys[key] = true
			c.initialize(mcp.V2024_11_05)
			c.ask(call(mcp.V2024_11_05, 1, "panic", `{}`))
			c.ask(call(mcp.V2024_11_05, 2, "fail", `{}`))
			c.try(`{`, nil)
			c.try(`{}`, map[string]string{"Origin": "https://evil.example"})
			c.try(`{}`, map[string]string{"Content-Type": "text/plain"})
			c.stream.Body.Close()
			synctest.Wait()
			if status, body := c.try(call(mcp.V2024_11_05, 3, "echo", `{}`), nil); status != http.StatusNotFound || strings.Contains(body, key) {
				t.Errorf("after its end: got %d %s", status, body)
			}
		}
		for key := range keys {
			if strings.Contains(log.String(), key) {
				t.Errorf("the log has the key of a session:\n%s", &log)
			}
		}
	})
	if log.String() == "" {
		t.Error("nothing was logged: the test shows nothing")
	}
}

// ROB-3: those who listen leave room for those who call, also when nobody knows who
// they are.
func TestListensLeaveRoom(t *testing.T) {
	const most = 20
	webBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{MaxConcurrent: most}}, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWeb(t, client, mcp.V2026_07_28)
		for i := range most / 2 {
			w.expect(w.follow(ctx, http.MethodPost, listen(i, `{"toolsListChanged":true}`)), acknowledged(fmt.Sprint(i), `{"toolsListChanged":true}`))
		}
		for i := range most {
			if got := w.post(listen(100+i, `{}`)); got.code() != mcp.CodeInternal {
				t.Fatalf("one too many: got %v", got)
			}
		}
		if got := w.post(call(w.version, 200, "echo", `{"text":"a"}`)); !strings.Contains(got.last(), `"a"`) {
			t.Errorf("a call: got %v", got)
		}
		cancel()
		synctest.Wait()
		again, stop := context.WithCancel(t.Context())
		defer stop()
		w.expect(w.follow(again, http.MethodPost, listen(300, `{"toolsListChanged":true}`)), acknowledged("300", `{"toolsListChanged":true}`))
	})
}

// SECA-33, URL-17: a page that nobody comes back for takes nothing: what is kept of it
// is its record, which expires.
func TestAbandonedPages(t *testing.T) {
	const n = 20
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		for range n {
			m := a.first("page", `{}`)
			a.again("page", `{}`, retryWith(m, `{"page":`+agreed+`}`)) // agreed, waited for, not done
		}
		synctest.Wait()
		if open, told := mcpserver.Pages(s); open != 0 || told != 0 {
			t.Errorf("%d pages are open, %d clients wait to be told; nobody waits", open, told)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		for _, tool := range []string{"page", "need"} {
			a := openAsked(t, s, mcp.V2025_11_25, allCapabilities)
			for i := range n {
				a.send(a.tool(tool, map[string]string{"page": `{}`, "need": fmt.Sprintf(`{"key":"%d"}`, i)}[tool], ""))
				a.receive()
			}
			if open, told := mcpserver.Pages(s); open != n || told != n {
				t.Errorf("%s: %d pages are open, %d to be told of, want %d: the client may hear of them", tool, open, told, n)
			}
			a.peer.in.Close()
			<-a.peer.ended
			synctest.Wait()
			if open, told := mcpserver.Pages(s); open != 0 || told != 0 {
				t.Errorf("%s: the client has gone, and %d pages are open, %d to be told of", tool, open, told)
			}
		}
	})
}

// ROB-3: one session has a bounded number of pages open.
func TestTooManyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		a := openAsked(t, s, mcp.V2025_11_25, allCapabilities)
		for i := range 64 {
			if m := readMessage(t, a.peer.ask(a.tool("need", fmt.Sprintf(`{"key":"%d"}`, i), ""))); m.Error == nil || m.Error.Code != mcp.CodeURLElicitationRequired {
				t.Fatalf("got %q, want -32042", m.text())
			}
		}
		if got := readMessage(t, a.peer.ask(a.tool("need", `{}`, ""))).text(); !strings.Contains(got, "too many pages") {
			t.Errorf("one too many: got %q", got)
		}
		other := openAsked(t, s, mcp.V2025_11_25, allCapabilities)
		if m := readMessage(t, other.peer.ask(other.tool("need", `{}`, ""))); m.Error == nil || m.Error.Code != mcp.CodeURLElicitationRequired {
			t.Errorf("another client: got %q, want -32042", m.text())
		}
	})
}

// TIME-04: how long a client of 2026-07-28 waits for a page is for the program to say.
func TestPageWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{PageWait: 10 * time.Second}})
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		m := a.first("page", `{}`)
		begun := time.Now()
		a.again("page", `{}`, retryWith(m, `{"page":`+agreed+`}`))
		if got := time.Since(begun); got != 10*time.Second {
			t.Errorf("answered after %v, want 10s", got)
		}
	})
}
