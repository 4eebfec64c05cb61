package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store/memstore"
)

// shareTools adds a tool that waits for an elicitation whose id it gets, and one that needs pages.
func shareTools(t *testing.T, s *mcpserver.Server) {
	t.Helper()
	type in struct {
		ID string `json:"id"`
	}
	page := func(key, id string) *mcpserver.Question {
		return mcpserver.PageQuestion(key, "Please sign.", "https://example.com/sign?e="+mcpserver.ElicitationID, id)
	}
	err := errors.Join(
		mcpserver.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, req *mcpserver.ToolRequest, v in) (string, error) {
			q := page("page", v.ID)
			if err := req.Ask(ctx, q); err != nil {
				return "", err
			}
			return "signed", q.Err
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "two"}, func(_ context.Context, req *mcpserver.ToolRequest, v in) (string, error) {
			return "", req.Need(page("one", v.ID), mcpserver.URLQuestion("other", "Please pay.", "https://example.com/pay?e="+mcpserver.ElicitationID))
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

func openPage(t *testing.T, s *mcpserver.Server) (id, args string) {
	t.Helper()
	id, err := s.OpenElicitation(t.Context(), ada.ID, 15*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return id, fmt.Sprintf(`{"id":%q}`, id)
}

// URL-21: a page knows whether an elicitation is its visitor's; it ends after its own time.
func TestLookupElicitation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		id, _ := openPage(t, s)
		look := func(principal string, ended bool, want error) {
			t.Helper()
			if got, err := s.LookupElicitation(t.Context(), id, principal); got != ended || !errors.Is(err, want) {
				t.Errorf("LookupElicitation for %q: got %v, %v, want %v, %v", principal, got, err, ended, want)
			}
		}
		look(ada.ID, false, nil)
		look("bob", false, mcpserver.ErrNoElicitation)
		look("", false, mcpserver.ErrNoElicitation)
		for name, end := range map[string]error{"complete": s.CompleteElicitation(id, "bob"), "fail": s.FailElicitation(id, "", "no")} {
			if !errors.Is(end, mcpserver.ErrNoElicitation) {
				t.Errorf("%s by another: got %v, want ErrNoElicitation", name, end)
			}
		}
		look(ada.ID, false, nil)
		time.Sleep(15 * time.Minute)
		look(ada.ID, false, mcpserver.ErrNoElicitation)
		id, _ = openPage(t, s)
		if err := s.FailElicitation(id, ada.ID, "no"); err != nil {
			t.Error(err)
		}
		look(ada.ID, true, nil)
	})
}

// URL-17, URL-30: a person who refuses on the page ends the wait of the handler, at each server
// with the same records; a client of 2025-11-25 is told that there is nothing to wait for.
func TestFailElicitation(t *testing.T) {
	const want = "isError the user has declined: access_denied"
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s elsewhere %v", v, elsewhere), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					opts := &mcpserver.Options{Records: memstore.New(nil), Principal: ada}
					s, _ := newAsking(t, opts)
					shareTools(t, s)
					at := s
					if elsewhere {
						at, _ = newAsking(t, opts)
					}
					a := openAsked(t, s, v, allCapabilities)
					id, args := openPage(t, s)
					m := readMessage(t, a.peer.ask(a.tool("wait", args, "")))
					if v.Era() == mcp.EraModern {
						a.send(a.tool("wait", args, retryWith(m, `{"page":`+agreed+`}`)))
					} else {
						a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, agreed))
					}
					wait(5 * time.Second)
					if err := at.FailElicitation(id, ada.ID, "access_denied"); err != nil {
						t.Fatal(err)
					}
					if v.Era() == mcp.EraLegacy {
						if got := a.receive(); !strings.Contains(got, mcp.NotificationElicitationComplete) || !strings.Contains(got, id) {
							// The answer and the notice may come in any order from another server.
							if got := readMessage(t, got).text(); !elsewhere || got != want {
								t.Errorf("got %s, want the notice", got)
							}
							a.receive()
							return
						}
					}
					if got := readMessage(t, a.receive()).text(); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
					a.silent()
				})
			})
		}
	}
}

// URL-30: a page that several clients were sent to ends for each of them.
func TestPageQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, &mcpserver.Options{Principal: ada})
		shareTools(t, s)
		id, args := openPage(t, s)
		one, two := openAsked(t, s, mcp.V2025_11_25, allCapabilities), openAsked(t, s, mcp.V2025_11_25, allCapabilities)
		gone, other := openAsked(t, s, mcp.V2025_11_25, allCapabilities), openAsked(t, s, mcp.V2025_11_25, allCapabilities)
		for _, a := range []*asked{one, two, gone} {
			m := readMessage(t, a.peer.ask(a.tool("wait", args, "")))
			if got := pageOf(t, m.Params); got != id {
				t.Errorf("got the page %q, want %q", got, id)
			}
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, agreed))
		}
		gone.peer.in.Close()
		wait(time.Minute)
		if err := s.CompleteElicitation(id, ada.ID); err != nil {
			t.Fatal(err)
		}
		for i, a := range []*asked{one, two} {
			if got := a.receive(); !strings.Contains(got, mcp.NotificationElicitationComplete) || !strings.Contains(got, id) {
				t.Errorf("client %d: got %s, want the notice", i, got)
			}
			if got := readMessage(t, a.receive()).text(); got != "signed" {
				t.Errorf("client %d: got %q", i, got)
			}
		}
		other.silent()
		if open, told := mcpserver.Pages(s); open != 0 || told != 0 {
			t.Errorf("%d pages are left, %d clients to be told", open, told)
		}
	})
}

// URL-40: the error -32042 names each page that is needed, input_required and a text do, too.
func TestNeedPages(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28, mcp.V2025_06_18} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newAsking(t, &mcpserver.Options{Principal: ada})
			shareTools(t, s)
			a := openAsked(t, s, v, allCapabilities)
			id, args := openPage(t, s)
			m := readMessage(t, a.peer.ask(a.tool("two", args, "")))
			switch v {
			case mcp.V2025_11_25:
				all, ok := m.Error.URLElicitations()
				if !ok || len(all) != 2 || all[0].ElicitationID != id || !strings.HasPrefix(all[1].URL, "https://example.com/pay?e=") {
					t.Fatalf("got %s", m.Error.Data)
				}
				a.peer.ask(a.tool("two", args, "")) // the same pages
				for _, p := range all {
					if err := s.CompleteElicitation(p.ElicitationID, ada.ID); err != nil {
						t.Error(err)
					}
					if got := a.receive(); !strings.Contains(got, p.ElicitationID) {
						t.Errorf("got %s, want one notice of each", got)
					}
				}
				a.silent()
			case mcp.V2026_07_28:
				if len(m.Result.InputRequests) != 2 || pageOf(t, m.Result.InputRequests["one"].Params) != id {
					t.Errorf("got %s", m.text())
				}
			default:
				if got := m.text(); !strings.Contains(got, "sign?e="+id+"\nPlease pay. Open this page") {
					t.Errorf("got %q", got)
				}
			}
		})
	}
}
