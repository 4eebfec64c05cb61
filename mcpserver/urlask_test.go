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
	"github.com/troupe-dev/troupe/store/memstore"
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
			if got := a.call("page", `{}`, respondAda); got != "isError the client does not support elicitation by URL" {
				t.Errorf("%s: got %q", v, got)
			}
		})
	}
}

// MRTR-33, URL-42: a client without elicitation by URL gets a text for its model, with the
// address and what to do; it is not told of the end.
func TestNeedURLWithoutElicitation(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25, mcp.V2025_06_18, mcp.V2025_03_26, mcp.V2024_11_05} {
		for _, caps := range []string{`{}`, `{"elicitation":{"form":{}}}`, allCapabilities} {
			if caps == allCapabilities && v.Has(mcp.FeatureElicitationIDs) || caps != `{}` && v == mcp.V2026_07_28 {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				s, c := newAsking(t, nil)
				a := openAsked(t, s, v, caps)
				said := readMessage(t, a.peer.ask(a.tool("need", `{}`, ""))).text()
				text, id, ok := strings.Cut(said, "https://example.com/sign?e=")
				if !ok || text != "isError Please sign. Open this page, then call again: " || strings.Contains(id, "{") {
					t.Fatalf("%s %s: got %q", v, caps, said)
				}
				if err := s.CompleteElicitation(id, ""); err != nil {
					t.Errorf("CompleteElicitation: %v", err)
				}
				a.silent()
				c.greeted.Add(1)
				if got := readMessage(t, a.peer.ask(a.tool("need", `{}`, ""))).text(); got != "signed" {
					t.Errorf("%s %s: then got %q", v, caps, got)
				}
			})
		}
	}
}

// A model that calls again and again sends the person to the same page, until that is
// done: the page is that of the session, or of the principal (URL-21).
func TestNeedURLAgain(t *testing.T) {
	idOf := func(t *testing.T, m said) string {
		t.Helper()
		if m.Error == nil {
			for _, asked := range m.Result.InputRequests {
				return pageOf(t, asked.Params)
			}
			t.Fatalf("got %s", m.text())
		}
		pages, ok := m.Error.URLElicitations()
		if !ok {
			t.Fatalf("got %s", m.text())
		}
		return pages[0].ElicitationID
	}
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newAsking(t, &mcpserver.Options{Principal: ada})
			a, other := openAsked(t, s, v, allCapabilities), openAsked(t, s, v, allCapabilities)
			need := func(a *asked, args string) string {
				return idOf(t, readMessage(t, a.peer.ask(a.tool("need", args, ""))))
			}
			first := need(a, `{}`)
			if again := need(a, `{}`); again != first || strings.Contains(first, "{") {
				t.Errorf("%s: got the pages %s and %s, want one", v, first, again)
			}
			if another := need(a, `{"key":"x"}`); another == first {
				t.Errorf("%s: another key has the same page", v)
			}
			// Of a legacy client the end is told to the session that was asked (URL-30).
			if theirs := need(other, `{}`); (theirs == first) != (v.Era() == mcp.EraModern) {
				t.Errorf("%s: another session got the page %s, the first %s", v, theirs, first)
			}
			if err := s.CompleteElicitation(first, ada.ID); err != nil {
				t.Error(err)
			}
			if v.Era() == mcp.EraLegacy {
				if got := a.receive(); !strings.Contains(got, first) {
					t.Errorf("got %s, want the notice", got)
				}
			}
			if next := need(a, `{}`); next == first {
				t.Errorf("%s: the page is done, and another call gets it again", v)
			}
			time.Sleep(45 * time.Minute) // little time is left for the page
			before := need(a, `{}`)
			if time.Sleep(45 * time.Minute); need(a, `{}`) == before {
				t.Errorf("%s: a page that expires soon is given again", v)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // nobody knows whether it is the same person
		s, _ := newAsking(t, nil)
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		m := idOf(t, readMessage(t, a.peer.ask(a.tool("need", `{}`, ""))))
		if again := idOf(t, readMessage(t, a.peer.ask(a.tool("need", `{}`, "")))); again == m {
			t.Error("two requests of nobody get the same page")
		}
	})
}

// URL-30, MRTR-20: a page that is completed at another server with the same records is
// seen within seconds, by handlers that wait and by clients that are to be told.
func TestPageDoneAtAnotherServer(t *testing.T) {
	const soon = 4 * time.Second
	two := func(t *testing.T, v mcp.Version) (*mcpserver.Server, *asked) {
		opts := &mcpserver.Options{Records: memstore.New(nil), Principal: ada}
		s, _ := newAsking(t, opts)
		other, _ := newAsking(t, opts)
		return other, openAsked(t, s, v, allCapabilities)
	}
	t.Run("2025-11-25", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			other, a := two(t, mcp.V2025_11_25)
			m := readMessage(t, a.peer.ask(a.tool("page", `{}`, "")))
			id := pageOf(t, m.Params)
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, agreed))
			wait(30 * time.Minute)
			if err := other.CompleteElicitation(id, ada.ID); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			got := []string{a.receive(), a.receive()}
			all := strings.Join(got, "\n")
			if !strings.Contains(all, mcp.NotificationElicitationComplete) || !strings.Contains(all, "signed") || time.Since(begun) > soon {
				t.Errorf("after %v: %s", time.Since(begun), all)
			}
			a.silent()
		})
	})
	t.Run("2026-07-28", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			other, a := two(t, mcp.V2026_07_28)
			m := a.first("page", `{}`)
			id := pageOf(t, m.Result.InputRequests["page"].Params)
			a.send(a.tool("page", `{}`, retryWith(m, `{"page":`+agreed+`}`)))
			wait(10 * time.Second)
			if err := other.CompleteElicitation(id, ada.ID); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if got := readMessage(t, a.receive()).text(); got != "signed" || time.Since(begun) > soon {
				t.Errorf("got %q after %v", got, time.Since(begun))
			}
		})
	})
	t.Run("-32042", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			other, a := two(t, mcp.V2025_11_25)
			m := readMessage(t, a.peer.ask(a.tool("need", `{}`, "")))
			all, ok := m.Error.URLElicitations()
			if !ok {
				t.Fatal(m.text())
			}
			if err := other.CompleteElicitation(all[0].ElicitationID, ada.ID); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if got := a.receive(); !strings.Contains(got, mcp.NotificationElicitationComplete) || time.Since(begun) > soon {
				t.Errorf("got %s after %v", got, time.Since(begun))
			}
			a.silent()
		})
	})
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
