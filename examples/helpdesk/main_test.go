package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// user answers what the server asks. It plays the browser, too.
type user struct {
	tokens []string // with which it opens a page, one after the other
	form   map[string]json.RawMessage
	asked  []string
	pages  []int // the status of each page
}

func (u *user) Decide(_ context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	u.asked = append(u.asked, ask.Message)
	return &mcpclient.Decision{Action: mcp.ActionAccept, Content: u.form}, nil
}

func (u *user) open(ctx context.Context, page string) error {
	for _, token := range u.tokens {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, page, nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		u.pages = append(u.pages, res.StatusCode)
		res.Body.Close()
	}
	return nil
}

// startWeb serves a desk over HTTP, as main does.
func startWeb(t *testing.T) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	d := newDesk(web.URL)
	s, err := newServer(d, authenticate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/rate/", d.ratePage(s))
	return web.URL + "/mcp"
}

// dial connects as ada, in a revision of the protocol.
func dial(t *testing.T, address string, v mcp.Version, u *user) *mcpclient.Client {
	t.Helper()
	server := mcpclient.Server{Name: "helpdesk", URL: address, Protocol: string(v), Headers: map[string]string{"Authorization": "Bearer ada-secret"}}
	sampler := mcpclient.SamplerFunc(func(context.Context, *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: mcp.Contents{mcp.Text("Try black ink.")}}, nil
	})
	c, err := mcpclient.Dial(t.Context(), server, &mcpclient.Options{AskOptions: mcpclient.AskOptions{
		Human: u, OpenURL: u.open, Sampler: sampler, SampleFreely: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestTools calls each tool, as a client of either era.
func TestTools(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		u := &user{tokens: []string{"ada-secret"}, form: map[string]json.RawMessage{"solved": json.RawMessage("true"), "note": json.RawMessage(`"Ink."`)}}
		c := dial(t, startWeb(t), v, u)
		for _, tt := range []struct{ tool, args, want string }{
			{"find_ticket", `{"text":"PRINTER"}`, `{"tickets":[{"id":1,"text":"The printer prints only in blue.","open":true}]}`},
			{"find_ticket", `{"text":"cat"}`, `no ticket contains "cat"`},
			{"check_all", `{}`, "2 tickets are in order."},
			{"draft_reply", `{"id":1}`, "Try black ink."},
			{"draft_reply", `{"id":9}`, "there is no ticket 9: search with find_ticket"},
			{"close_ticket", `{"id":1}`, "Ticket 1 is closed. Ink."},
			{"rate_ticket", `{"id":1}`, "Thank you for the rating."},
		} {
			res, err := c.CallTool(t.Context(), tt.tool, json.RawMessage(tt.args), nil)
			if err != nil || res.Content.Text() != tt.want {
				t.Errorf("%s, %s %s: got %+v, %v, want %q", v, tt.tool, tt.args, res, err, tt.want)
			}
		}
		if got := strings.Join(u.asked, "; "); got != "Close ticket 1: The printer prints only in blue.; Rate the work on ticket 1." {
			t.Errorf("%s: the user was asked %q", v, got)
		}
	}
}

// TestAuthenticate: a request without a token gets a challenge, and one user can not
// complete the page of another.
func TestAuthenticate(t *testing.T) {
	address := startWeb(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("without a token: got %+v, %v, want 401 with a challenge", res, err)
	}
	u := &user{tokens: []string{"bob-secret", "ada-secret"}} // bob opens the page that ada was sent to, then she does
	c := dial(t, address, mcp.V2025_11_25, u)
	if res, err := c.CallTool(t.Context(), "rate_ticket", json.RawMessage(`{"id":1}`), nil); err != nil || res.IsError {
		t.Errorf("rate_ticket: got %+v, %v", res, err)
	}
	if !slices.Equal(u.pages, []int{http.StatusNotFound, http.StatusOK}) {
		t.Errorf("the page answered bob and ada with %v, want 404 and 200", u.pages)
	}
}
