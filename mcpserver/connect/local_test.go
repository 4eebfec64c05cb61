package connect_test

import (
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/connect"
)

// On stdio the owner of the process is the user: the page is on this machine, and lets in the
// browser that opens its address first. The port is closed with the connector.
func TestLocal(t *testing.T) {
	w := newWorld(t)
	s := w.start("", nil, func(o *connect.Options) {
		o.Base, o.Login = "", nil
		o.HTTP = nil // one that contacts this machine
		there := httptest.NewServer(w.hub)
		t.Cleanup(there.Close)
		o.Providers = []connect.Provider{connect.OAuth("hub", connect.OAuthConfig{
			Title: "Hub", ClientID: "app", ClientSecret: "app-" + planted, Issuer: theirs, AuthorizeURL: there.URL + "/authorize", TokenURL: there.URL + "/token",
			API: []string{theirs}, AccountURL: there.URL + "/me", AccountField: "login",
		})}
	})
	p := w.dial(s.Server, mcp.V2026_07_28, withPages)
	page := p.ask(useHub)
	at, err := url.Parse(page)
	if err != nil || at.Hostname() != "127.0.0.1" || at.Scheme != "http" {
		t.Fatalf("the page is %q", page)
	}
	real := func() *browser {
		b := w.browser("")
		jar, _ := cookiejar.New(nil)
		b.http.Jar, b.http.Transport = jar, http.DefaultTransport
		return b
	}
	start := at.Scheme + "://" + at.Host + "/connect/start/" + page[strings.LastIndex(page, "/")+1:]
	stranger, guesser, mine := real(), real(), real()
	stranger.get(start)
	stranger.want("without the secret", 401, "Log in first")
	guesser.get(strings.Replace(page, "/open/", "/open/x", 1))
	guesser.want("a wrong secret", 403, "not yours")
	if to := mine.get(page); at.Scheme+"://"+at.Host+to != start {
		t.Fatalf("the address leads to %q (%d)", to, mine.code)
	}
	stranger.get(page)
	stranger.want("the secret for the second time", 403, "not yours")
	if to := mine.get(page); to == "" { // its own browser may
		t.Errorf("again in the same browser: got %d", mine.code)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, start, nil)
	r.Host = "evil.example"
	mine.do(r)
	mine.want("another host", 404, "")
	mine.get(start)
	authorize := mine.post(start, "same-origin", url.Values{"token": {mine.token()}, "do": {"connect"}})
	if !strings.Contains(authorize, url.QueryEscape(at.Scheme+"://"+at.Host+"/connect/callback/hub")) {
		t.Fatalf("the form leads to %q (%d)\n%s", authorize, mine.code, mine.page)
	}
	answer := w.hub.approve(authorize)
	stranger.get(answer)
	stranger.want("another browser", 401, "Log in first")
	mine.get(answer)
	mine.want("the answer", 200, "alice-at-hub")
	if got := p.receive().text(); got != "200 OK the data" {
		t.Errorf("got %q", got)
	}
	if err := s.cn.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.DialTimeout("tcp", at.Host, time.Second); err == nil {
		conn.Close()
		t.Error("the port is open after Close")
	}
	p.call("use", `{"provider":"hub","scopes":["more"]}`, "")
	if got := p.receive().text(); !strings.Contains(got, "the connector is closed") {
		t.Errorf("after Close: got %q", got)
	}
}
