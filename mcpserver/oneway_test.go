package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// MOD-07, STDIO-06, SECA-13: whatever handlers ask, and whatever has happened, a client of
// 2026-07-28 gets no request of ours; its responses are ignored, and harm no call.
func TestModernIsOneWay(t *testing.T) {
	for _, noParking := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			opts := &mcpserver.Options{
				Rounds: mcpserver.RoundOptions{NoParking: noParking}, Limits: mcpserver.Limits{PingEvery: time.Second},
				Events: mcpserver.Events{OnRootsChanged: func(ctx context.Context, p *mcpserver.Peer) { t.Error("heard of a modern client's roots") }},
			}
			s, _ := newAsking(t, opts)
			a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
			for _, tool := range []string{"greet", "all", "sample", "roots", "page", "retry"} {
				a.send(notice(mcp.NotificationRootsChanged))
				a.send(a.tool(tool, `{}`, ""))
				m := oneWay(t, a)
				if m.Result == nil || m.Result.ResultType != mcp.ResultInputRequired {
					t.Errorf("%s: got %s, want input_required", tool, m.text())
				}
				for id := range 3 { // what a client of before would answer with
					a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, accept("Eve")))
					a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-1,"message":"no"}}`, id))
				}
				wait(5 * time.Second)
				a.silent()
				if tool == "page" {
					continue // its retry waits for the page
				}
				a.send(a.tool(tool, `{}`, a.retry(m, respondAda)))
				if m := oneWay(t, a); m.Result == nil || m.Result.IsError || m.Result.ResultType == mcp.ResultInputRequired {
					t.Errorf("%s: got %s, want its result", tool, m.text())
				}
			}
		})
	}
}

// oneWay reads up to the next answer, on the way to which there must be no request.
func oneWay(t *testing.T, a *asked) said {
	t.Helper()
	for {
		m := readMessage(t, a.receive())
		switch {
		case m.Method != "" && m.ID != nil:
			t.Fatalf("got the request %s", m.Method)
		case m.Method == "":
			return m
		}
	}
}

// MOD-07: nor over HTTP, where a response is refused: it can only be a mistake.
func TestModernIsOneWayOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		w, a := newWeb(t, memhttp.Serve(t, s.Handler()), mcp.V2026_07_28), frames(t, mcp.V2026_07_28)
		for _, tool := range []string{"greet", "all", "sample", "roots", "page", "retry"} {
			for _, text := range w.post(a.tool(tool, `{}`, "")).messages {
				var m struct{ ID, Method json.RawMessage }
				if err := json.Unmarshal([]byte(text), &m); err != nil || m.ID != nil && m.Method != nil {
					t.Errorf("%s: got %s", tool, text)
				}
			}
			got := w.post(`{"jsonrpc":"2.0","id":1,"result":` + accept("Eve") + `}`)
			if got.status != http.StatusBadRequest || got.code() != mcp.CodeInvalidRequest {
				t.Errorf("a response: got %v, want 400", got)
			}
		}
	})
}

// ELIC-03: a form says why, what and, where there are other modes, that it is one.
func TestFormParams(t *testing.T) {
	bothWays(t, mcp.V2025_06_18, func(t *testing.T, _ *mcpserver.Server, a *asked, _ *counts) {
		got := a.call("form", nameSchema, func(_ string, params json.RawMessage) string {
			var p map[string]json.RawMessage
			if err := json.Unmarshal(params, &p); err != nil {
				t.Fatal(err)
			}
			mode := `"form"`
			if a.v < mcp.V2025_11_25 {
				mode = ""
			}
			if string(p["message"]) != `"Please."` || string(p["mode"]) != mode || string(p["requestedSchema"]) != nameSchema || len(p["url"])+len(p["elicitationId"]) > 0 {
				t.Errorf("%s: got %s", a.v, params)
			}
			return accept("Ada")
		})
		if got != `accept {"name":"Ada"}` {
			t.Errorf("%s: got %q", a.v, got)
		}
	})
}
