package mcpserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// frames makes lines as asked does, for HTTP.
func frames(t testing.TB, v mcp.Version) *asked {
	return &asked{peer: &peer{t: t, asked: make(map[string]string)}, v: v, caps: allCapabilities}
}

// CANC-09, MRTR-17: over HTTP a disconnect during a round cancels the attempt, which the
// next retry sets off again; between rounds it cancels nothing.
func TestAskOverHTTP(t *testing.T) {
	for _, noParking := range []bool{false, true} {
		t.Run(fmt.Sprint("run again ", noParking), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: noParking}})
				begun, letGo, ended := slowTool(t, s)
				w, a := newWeb(t, memhttp.Serve(t, s.Handler()), mcp.V2026_07_28), frames(t, mcp.V2026_07_28)

				m := readMessage(t, w.post(a.tool("greet", `{}`, "")).last())
				wait(5 * time.Minute)
				if noParking != (c.ran.Load() == 1 && len(c.ended) == 1) {
					t.Errorf("after the first round: %d handlers have ended", len(c.ended))
				}
				if got := readMessage(t, w.post(a.tool("greet", `{}`, a.retry(m, respondAda))).last()).text(); got != "Hello, Ada!" {
					t.Errorf("got %q", got)
				}

				m = readMessage(t, w.post(a.tool("slow", `{}`, "")).last())
				extra := a.retry(m, respondAda)
				ctx, leave := context.WithCancel(t.Context())
				line := a.tool("slow", `{}`, extra)
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					_, _ = w.send(ctx, http.MethodPost, strings.NewReader(line), w.headers(line))
				}()
				<-begun
				leave()
				if err := <-ended; err == nil {
					t.Error("a disconnect during a round has no cause")
				}
				<-gone
				close(letGo)
				if got := readMessage(t, w.post(a.tool("slow", `{}`, extra)).last()).text(); got != "done" {
					t.Errorf("the same retry after a cancel: got %q", got)
				}
			})
		})
	}
}

// CAP-06: over HTTP a missing capability is status 400, as is a state that is refused.
func TestAskStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		w, a := newWeb(t, memhttp.Serve(t, s.Handler()), mcp.V2026_07_28), frames(t, mcp.V2026_07_28)
		a.caps = `{}`
		if got := w.post(a.tool("greet", `{}`, "")); got.status != http.StatusBadRequest || got.code() != mcp.CodeMissingClientCapability {
			t.Errorf("a missing capability: got %v", got)
		}
		if got := w.post(a.tool("greet", `{}`, `,"requestState":"x"`)); got.code() != mcp.CodeInvalidParams {
			t.Errorf("a forged state: got %v", got)
		}
	})
}

// SECA-6, SECA-12: a handler that is kept belongs to its principal.
func TestAskOverHTTPWithPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newAsking(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: func(r *http.Request) (*mcpserver.Principal, error) {
			return &mcpserver.Principal{ID: r.Header.Get("Authorization")}, nil
		}}})
		w, a := newWeb(t, memhttp.Serve(t, s.Handler()), mcp.V2026_07_28), frames(t, mcp.V2026_07_28)
		as := func(name string) map[string]string { return map[string]string{"Authorization": name} }
		m := readMessage(t, w.post(a.tool("greet", `{}`, ""), as("ada")).last())
		extra := a.retry(m, respondAda)
		for _, name := range []string{"bob", ""} {
			if got := w.post(a.tool("greet", `{}`, extra), as(name)); got.code() != mcp.CodeInvalidParams {
				t.Errorf("the ticket of ada from %q: got %v", name, got)
			}
		}
		if c.greeted.Load() != 0 {
			t.Error("the handler went on for somebody else")
		}
		if got := readMessage(t, w.post(a.tool("greet", `{}`, extra), as("ada")).last()).text(); got != "Hello, Ada!" {
			t.Errorf("got %q", got)
		}
	})
}

// SHL-32: a question fails at once if the client of the request has gone, and nothing
// can reach it.
func TestAskGoneClient(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, g *gate) {
		type answer struct {
			err  error
			took time.Duration
		}
		answers := make(chan answer, 1)
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "roots"}, func(ctx context.Context, q *mcpserver.ToolRequest, _ struct{}) (string, error) {
			note(g.begun, ctx)
			<-g.open
			begun := time.Now()
			_, err := q.Roots(ctx, "roots")
			answers <- answer{err, time.Since(begun)}
			return "", err
		})
		if err != nil {
			t.Fatal(err)
		}
		w := newWeb(t, client, mcp.V2025_11_25)
		w.session = w.post(strings.Replace(initialize(w.version), `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1)).header.Get("Mcp-Session-Id")
		w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		ctx, cancel := context.WithCancel(t.Context())
		frame := call(w.version, 1, "roots", `{}`)
		go func() { _, _ = w.send(ctx, http.MethodPost, strings.NewReader(frame), w.headers(frame)) }()
		<-g.begun
		cancel()
		synctest.Wait()
		close(g.open)
		if got := <-answers; got.err == nil || got.took > 0 {
			t.Errorf("got %v after %v, want an error at once", got.err, got.took)
		}
	})
}
