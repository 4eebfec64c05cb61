package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// pageOf returns the id of an elicitation from the address of its page.
func pageOf(t *testing.T, params json.RawMessage) (id string) {
	t.Helper()
	var p mcp.ElicitParams
	if err := json.Unmarshal(params, &p); err != nil || p.Mode != mcp.ElicitURL {
		t.Fatalf("got %s, want an elicitation by URL (%v)", params, err)
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Query().Get("e") == "" {
		t.Fatalf("got the address %q (%v)", p.URL, err)
	}
	if p.ElicitationID != "" && p.ElicitationID != u.Query().Get("e") {
		t.Errorf("the id is %q, but %q in the address", p.ElicitationID, u.Query().Get("e"))
	}
	return u.Query().Get("e")
}

const agreed = `{"action":"accept"}`

// MRTR-20, URL-03, URL-43: a client of 2026-07-28 is told by input_required, and comes
// again until the page is done.
func TestURLModern(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		m := a.first("page", `{}`)
		id := pageOf(t, m.Result.InputRequests["page"].Params)
		if strings.Contains(string(m.Result.InputRequests["page"].Params), "elicitationId") { // URL-01
			t.Error("an elicitation of 2026-07-28 has an id")
		}
		a.send(a.tool("page", `{}`, retryWith(m, `{"page":`+agreed+`}`)))
		a.silent() // agreed is not done
		if err := s.CompleteElicitation(id, ""); err != nil {
			t.Error(err)
		}
		if got := readMessage(t, a.receive()).text(); got != "signed" {
			t.Errorf("got %q", got)
		}
		a.silent() // no notice

		m = a.first("page", `{}`)
		if err := s.CompleteElicitation(pageOf(t, m.Result.InputRequests["page"].Params), ""); err != nil {
			t.Error(err)
		}
		if got := a.again("page", `{}`, retryWith(m, `{"page":`+agreed+`}`)).text(); got != "signed" { // done before
			t.Errorf("got %q", got)
		}
		if got := a.call("page", `{}`, respondWith(`{"action":"decline"}`)); got != "isError the user has declined" {
			t.Errorf("declined: got %q", got)
		}
	})
}

// MRTR-08, MRTR-20: while the page is not done the client comes again, and is asked
// again each third time.
func TestURLThatTakesLong(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		m := a.first("page", `{}`)
		id := pageOf(t, m.Result.InputRequests["page"].Params)
		m = a.again("page", `{}`, retryWith(m, `{"page":`+agreed+`}`))
		for i := 1; i < 6; i++ {
			if asks := len(m.Result.InputRequests); asks != map[bool]int{true: 1}[i%3 == 0] || m.Result.RequestState == "" {
				t.Errorf("round %d: got %d questions", i, asks)
			}
			if i == 5 {
				break
			}
			m = a.again("page", `{}`, retryWith(m, `{}`))
		}
		if err := s.CompleteElicitation(id, ""); err != nil {
			t.Error(err)
		}
		if got := a.again("page", `{}`, retryWith(m, `{}`)).text(); got != "signed" {
			t.Errorf("got %q", got)
		}
	})
	eachWay(t, func(t *testing.T, _ *mcpserver.Server, a *asked, _ *counts) {
		m := a.first("page", `{}`)
		for range 3 {
			m = a.again("page", `{}`, retryWith(m, `{"page":`+agreed+`}`))
		}
		if got := a.again("page", `{}`, retryWith(m, `{"page":{"action":"decline"}}`)).text(); got != "isError the user has declined" { // URL-17
			t.Errorf("declined later: got %q", got)
		}
	})
}

// URL-01, URL-30, MRTR-31: a client of 2025-11-25 is asked by a request, and told of the
// end, on its own session and no other.
func TestURLLegacy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		a, other := openAsked(t, s, mcp.V2025_11_25, allCapabilities), openAsked(t, s, mcp.V2025_11_25, allCapabilities)
		m := readMessage(t, a.peer.ask(a.tool("page", `{}`, "")))
		id := pageOf(t, m.Params)
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, agreed))
		a.silent()
		wait(30 * time.Minute) // TIME-04: longer than a call may take
		if err := s.CompleteElicitation(id, ""); err != nil {
			t.Error(err)
		}
		if got := a.receive(); !strings.Contains(got, mcp.NotificationElicitationComplete) || !strings.Contains(got, id) {
			t.Errorf("got %s, want the notice of %s", got, id)
		}
		if got := readMessage(t, a.receive()).text(); got != "signed" {
			t.Errorf("got %q", got)
		}
		if err := s.CompleteElicitation(id, ""); err != nil { // again: nothing
			t.Error(err)
		}
		a.silent()
		other.silent()
	})
}

// URL-40, URL-43, MRTR-33: a handler that does not wait.
func TestNeedURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // 2025-11-25
		s, c := newAsking(t, nil)
		a := openAsked(t, s, mcp.V2025_11_25, allCapabilities)
		m := readMessage(t, a.peer.ask(a.tool("need", `{}`, "")))
		if m.Error == nil || m.Error.Code != mcp.CodeURLElicitationRequired {
			t.Fatalf("got %q, want -32042", m.text())
		}
		all, ok := m.Error.URLElicitations()
		if !ok || len(all) != 1 {
			t.Fatalf("got the data %s", m.Error.Data)
		}
		if err := s.CompleteElicitation(all[0].ElicitationID, ""); err != nil {
			t.Error(err)
		}
		if got := a.receive(); !strings.Contains(got, mcp.NotificationElicitationComplete) {
			t.Errorf("got %s, want the notice", got)
		}
		c.greeted.Add(1)
		if got := readMessage(t, a.peer.ask(a.tool("need", `{}`, ""))).text(); got != "signed" {
			t.Errorf("got %q", got)
		}
	})
	eachWay(t, func(t *testing.T, _ *mcpserver.Server, a *asked, c *counts) { // 2026-07-28
		m := a.first("need", `{}`)
		pageOf(t, m.Result.InputRequests["page"].Params)
		c.greeted.Add(1)
		if got := a.again("need", `{}`, retryWith(m, `{"page":`+agreed+`}`)).text(); got != "signed" {
			t.Errorf("got %q", got)
		}
	})
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2025_03_26, mcp.V2024_11_05} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newAsking(t, nil)
			a := openAsked(t, s, v, allCapabilities)
			for _, tool := range []string{"need", "page"} {
				if got := a.call(tool, `{}`, respondAda); got != "isError the client does not support elicitation by URL" {
					t.Errorf("%s %s: got %q", v, tool, got)
				}
			}
		})
	}
}

// URL-21, ELIC-13: nobody completes what somebody else was asked.
func TestCompleteElicitation(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		m := a.first("page", `{}`)
		id := pageOf(t, m.Result.InputRequests["page"].Params)
		for _, tt := range []struct{ id, principal string }{{id, "bob"}, {"unknown", ""}, {"", ""}, {strings.Repeat("x", 5000), ""}} {
			if err := s.CompleteElicitation(tt.id, tt.principal); !errors.Is(err, mcpserver.ErrNoElicitation) {
				t.Errorf("CompleteElicitation(%.20q, %q): got %v, want %v", tt.id, tt.principal, err, mcpserver.ErrNoElicitation)
			}
		}
		a.send(a.tool("page", `{}`, retryWith(m, `{"page":`+agreed+`}`)))
		a.silent()
	})
}

// URL-20: the address is one that a person can be sent to.
func TestURLThatIsRefused(t *testing.T) {
	for _, address := range []string{"http://example.com/", "javascript:alert(1)", "https://user:pass@example.com/", "", "/sign"} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newAsking(t, nil)
			err := mcpserver.AddTool(s, &mcp.Tool{Name: "odd"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				return "ok", req.ElicitURL(ctx, "page", "Look.", address)
			})
			if err != nil {
				t.Fatal(err)
			}
			a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
			if got := a.call("odd", `{}`, respondWith(agreed)); !strings.HasPrefix(got, "isError ") {
				t.Errorf("ElicitURL(%q): got %q", address, got)
			}
		})
	}
}
