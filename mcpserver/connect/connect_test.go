package connect_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/connect"
	"github.com/troupe-dev/troupe/store"
)

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

const useHub = `{"provider":"hub","scopes":["read"]}`

// eras runs a test with clients of both.
func eras(t *testing.T, f func(t *testing.T, v mcp.Version)) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, v) })
		})
	}
}

// URL-02, URL-20, URL-21, URL-22: a tool waits until its caller has connected an account; later
// calls have it. The link holds nothing but an id, a GET of it changes nothing (SECA-29), and the
// token is seen nowhere (SECA-27: see newWorld) and sent to no other host (SECA-22).
func TestConnect(t *testing.T) {
	eras(t, func(t *testing.T, v mcp.Version) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		p, b := w.dial(s.Server, v, withPages), w.browser("alice")
		page := p.ask(useHub)
		if !strings.HasPrefix(page, base+"/start/") || strings.Contains(page, "alice") || strings.Contains(page, "?") {
			t.Errorf("the address of the page is %q", page)
		}
		for range 3 { // previews
			b.get(page)
			b.want("the page", 200, "<b>Hub</b>")
			b.want("the page", 200, `id="tool">use<`)
			b.want("the page", 200, `id="scopes">read<`)
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := b.head.Get(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		if csp := b.head.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("the policy is %q", csp)
		}
		p.quiet()
		b.connect(page)
		if got := p.answer(); got != "200 OK the data" {
			t.Errorf("got %q", got)
		}
		p.call("use", useHub, "")
		if got := p.receive().text(); got != "200 OK the data" {
			t.Errorf("the second call: got %q", got)
		}
		p.call("use", `{"provider":"hub","scopes":["read"],"path":"away"}`, "") // see newWorld
		p.receive()
		if b.get(page); !strings.Contains(b.page, "is connected") {
			t.Errorf("the page again: got %s", b.page)
		}
		for _, row := range w.accounts() {
			if bytes.Contains(row.Value, []byte(planted)) || strings.Contains(row.Key, "alice") {
				t.Errorf("the row shows what it is: %s %q", row.Key, row.Value)
			}
		}
	})
}

// SECA-28, URL-21: Alice's link opened by Bob shows him nothing and changes nothing.
func TestForwardedLink(t *testing.T) {
	eras(t, func(t *testing.T, v mcp.Version) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		p := w.dial(s.Server, v, withPages)
		page := p.ask(useHub)
		bobs, anyones, alices := w.browser("bob"), w.browser(""), w.browser("alice")
		alices.get(page)
		form := url.Values{"token": {alices.token()}, "do": {"connect"}}
		for _, address := range []string{page, base + "/start/unknown", base + "/start/" + strings.Repeat("x", 1000), base + "/start/"} {
			bobs.get(address)
			bobs.want(address, 403, "not yours, or it has expired")
			bobs.post(address, "same-origin", form)
			bobs.want("POST "+address, 403, "not yours, or it has expired")
		}
		if strings.Contains(bobs.page, "Hub") || strings.Contains(bobs.page, "read") {
			t.Errorf("the page tells what it is for: %s", bobs.page)
		}
		anyones.get(page)
		anyones.want("a visitor who is not logged in", 401, "Log in first")
		anyones.post(page, "same-origin", form)
		anyones.want("a form of a visitor who is not logged in", 401, "Log in first")
		p.quiet()
		alices.connect(page) // it is as good as before
		if got := p.answer(); got != "200 OK the data" {
			t.Errorf("got %q", got)
		}
	})
}

// SECA-28, SECA-21: Alice's address at the provider, opened by Bob: his account does not become
// hers, nor hers his. A forged cookie does not help, nor a state that was used.
func TestForwardedAuthorization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		p := w.dial(s.Server, mcp.V2025_11_25, withPages)
		page := p.ask(useHub)
		alices, bobs, aliceElsewhere := w.browser("alice"), w.browser("bob"), w.browser("alice")
		authorize := alices.consent(page)
		w.hub.user = "bob-at-hub"
		answer := w.hub.approve(authorize) // Bob's account
		bobs.get(answer)
		bobs.want("Bob's browser", 403, "not yours")
		aliceElsewhere.get(answer) // a browser of hers in which nothing began
		aliceElsewhere.want("another browser of Alice's", 403, "not yours")
		u, _ := url.Parse(ours)
		aliceElsewhere.http.Jar.SetCookies(u, []*http.Cookie{{Name: "__Host-troupe-connect-flow", Value: strings.Repeat("A", 43), Path: "/", Secure: true}})
		aliceElsewhere.get(answer)
		aliceElsewhere.want("a forged cookie", 403, "not yours")
		for _, cookie := range alices.http.Jar.Cookies(u) { // Bob has stolen her flow cookie
			if cookie.Name != "login" {
				bobs.http.Jar.SetCookies(u, []*http.Cookie{cookie})
			}
		}
		bobs.get(answer)
		bobs.want("Bob with her cookie", 403, "not yours")
		for _, wrong := range []string{strings.Replace(answer, "/callback/hub", "/callback/keys", 1), strings.Replace(answer, "state=", "state=x", 1), answer + "&state=x", base + "/callback/hub"} {
			alices.get(wrong)
			alices.want(wrong, 403, "not yours")
		}
		if len(w.accounts()) != 0 {
			t.Fatal("an account was stored")
		}
		p.quiet()
		w.hub.user = "alice-at-hub"
		answer = w.hub.approve(authorize)
		alices.get(answer)
		alices.want("Alice", 200, "alice-at-hub")
		if got := p.answer(); got != "200 OK the data" {
			t.Errorf("got %q", got)
		}
		alices.get(answer)
		alices.want("the answer again", 403, "not yours")
	})
}

// SECA-17: an answer that names another issuer, or comes with an error, connects nothing, and
// the waiting handler learns it.
func TestProviderRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(url.Values)
		want   string
	}{
		"denied":         {func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }, "isError connecting the Hub account: the user has declined: Hub gave no access (access_denied)"},
		"another issuer": {func(q url.Values) { q.Set("iss", "https://evil.example") }, "isError connecting the Hub account: the user has declined: Hub gave no access"},
		"a bad code":     {func(q url.Values) { q.Set("code", "x") }, "isError connecting the Hub account: the user has declined: Hub gave no access (invalid_grant)"},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := w.start("api.example.com", alice, nil)
			p, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("alice")
			page := p.ask(useHub)
			answer, _ := url.Parse(w.hub.approve(b.consent(page)))
			q := answer.Query()
			tt.change(q)
			answer.RawQuery = q.Encode()
			b.get(answer.String())
			b.want(name, 200, "is not connected")
			if got := p.answer(); got != tt.want {
				t.Errorf("%s: got %q, want %q", name, got, tt.want)
			}
			b.get(page)
			b.want(name, 200, "is not connected")
			if len(w.accounts()) != 0 {
				t.Errorf("%s: an account was stored", name)
			}
		})
	}
}

// URL-17: a person who refuses on the page ends the wait.
func TestRefused(t *testing.T) {
	eras(t, func(t *testing.T, v mcp.Version) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		p, b := w.dial(s.Server, v, withPages), w.browser("alice")
		page := p.ask(useHub)
		b.get(page)
		b.post(page, "same-origin", url.Values{"token": {b.token()}, "do": {"refuse"}})
		b.want("refusing", 200, "is not connected")
		if got := p.answer(); got != "isError connecting the Hub account: the user has declined: the user has refused on the page" {
			t.Errorf("got %q", got)
		}
	})
}

// A page that is left expires after 15 minutes, and a flow after ten; the next call gets another.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		p, b := w.dial(s.Server, mcp.V2025_11_25, withPages), w.browser("alice")
		page := p.ask(useHub)
		b.get(page)
		form := url.Values{"token": {b.token()}, "do": {"connect"}}
		slow := b.consent(page)
		time.Sleep(11 * time.Minute)
		b.get(w.hub.approve(slow))
		b.want("a flow that has expired", 403, "expired")
		time.Sleep(5 * time.Minute)
		if got := p.answer(); got != "isError the page to connect the Hub account has expired: call again for another" {
			t.Errorf("got %q", got)
		}
		b.get(page)
		b.want("a page that has expired", 403, "expired")
		b.post(page, "same-origin", form)
		b.want("its form", 403, "expired")
		b.connect(p.ask(useHub))
		if got := p.answer(); got != "200 OK the data" {
			t.Errorf("got %q", got)
		}
	})
}

// Two tabs of one browser: each flow is good for itself, and the first that ends counts.
func TestTwoTabs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		p, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("alice")
		page := p.ask(useHub)
		one, two := b.consent(page), b.consent(page)
		b.get(w.hub.approve(one))
		b.want("the first tab", 200, "alice-at-hub")
		b.get(w.hub.approve(two))
		b.want("the second tab", 200, "is connected")
		if got := p.answer(); got != "200 OK the data" || len(w.accounts()) != 1 {
			t.Errorf("got %q and %d accounts", got, len(w.accounts()))
		}
	})
}

// The page of one instance is served by another that shares the store; the handler that waits
// at the first goes on within seconds (URL-30).
func TestSecondInstance(t *testing.T) {
	eras(t, func(t *testing.T, v mcp.Version) {
		w := newWorld(t)
		first := w.start("", alice, nil)
		w.start("api.example.com", bob, nil)
		p, b := w.dial(first.Server, v, withPages), w.browser("alice")
		page := p.ask(useHub)
		time.Sleep(10 * time.Second)
		b.connect(page)
		begun := time.Now()
		if got := p.answer(); got != "200 OK the data" || time.Since(begun) > 4*time.Second {
			t.Errorf("got %q after %v", got, time.Since(begun))
		}
	})
}

// SECA-28: forms of other sites, and those without the token of their page, do nothing.
func TestForgery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		p, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("alice")
		page := p.ask(useHub)
		b.get(page)
		good := b.token()
		b.get(base)
		tests := []struct{ name, site, token, at string }{
			{"of another site", "cross-site", good, page},
			{"of a sister host", "same-site", good, page},
			{"without a token", "same-origin", "", page},
			{"with a wrong token", "same-origin", "AAAA" + good[4:], page},
			{"with the token of another page", "same-origin", good, base + "/revoke"},
		}
		for _, tt := range tests {
			b.post(tt.at, tt.site, url.Values{"token": {tt.token}, "do": {"connect"}, "provider": {"hub"}})
			b.want(tt.name, 403, "not yours")
		}
		for _, method := range []string{"PUT", "DELETE", "OPTIONS"} {
			r, _ := http.NewRequestWithContext(t.Context(), method, page, nil)
			b.do(r)
			b.want(method, 405, "")
		}
		b.post(page, "same-origin", url.Values{"token": {good}, "key": {strings.Repeat("x", 100<<10)}})
		b.want("a huge form", 400, "")
		p.quiet()
		b.get(page)
		form := url.Values{"token": {b.token()}, "do": {"connect"}}
		if b.post(page, "same-origin", form); b.code != http.StatusSeeOther {
			t.Errorf("the first time: got %d", b.code)
		}
		b.post(page, "same-origin", form)
		b.want("a form that was sent before", 403, "not yours")
		b.get(page)
		if b.post(page, "same-origin", url.Values{"token": {b.token()}, "do": {"connect"}}); b.code != http.StatusSeeOther {
			t.Errorf("the page anew: got %d", b.code)
		}
	})
}

// SECA-1: pages are reached by the host of Base, and by what a proxy makes of it; by no other name.
func TestHosts(t *testing.T) {
	tests := []struct {
		base, host string
		hosts      []string
		ok         bool
	}{
		{base, "api.example.com", nil, true},
		{base, "API.example.com:443", nil, true},
		{base, "api.example.com:8443", nil, false},
		{base, "evil.example", nil, false},
		{base, "api.example.com.evil.example", nil, false},
		{base, "localhost", nil, false},
		{base, "", nil, false},
		{base, "10.0.0.7:8080", []string{"10.0.0.7:8080"}, true},
		{"http://127.0.0.1:9000/connect", "127.0.0.1:9000", nil, true},
		{"http://127.0.0.1:9000/connect", "localhost:9000", nil, true},
		{"http://127.0.0.1:9000/connect", "evil.example:9000", nil, false},
	}
	for _, tt := range tests {
		s := newWorld(t).start("", alice, func(o *connect.Options) { o.Base, o.Hosts = tt.base, tt.hosts })
		for _, path := range []string{"/connect", "/connect/start/x", "/connect/login", "/connect/callback/hub", "/elsewhere"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = tt.host
			w := httptest.NewRecorder()
			s.cn.ServeHTTP(w, r)
			if got := w.Code != http.StatusMisdirectedRequest; got != tt.ok {
				t.Errorf("%s by %q: got %d", tt.base+path, tt.host, w.Code)
			}
		}
	}
}

// One page for one need, five for a person; what is done or refused counts no more.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, func(o *connect.Options) { o.NoWait = true })
		p := w.dial(s.Server, mcp.V2025_06_18, `{}`)
		pages := make(map[string]bool)
		for i := range 30 {
			p.call("use", fmt.Sprintf(`{"provider":"hub","scopes":["s%d"]}`, i%5), "")
			text := p.receive().text()
			_, page, ok := strings.Cut(text, "Open this page, then call again: ")
			if !ok {
				t.Fatalf("got %q", text)
			}
			pages[page] = true
		}
		if len(pages) != 5 {
			t.Errorf("got %d pages, want 5", len(pages))
		}
		two := func(scopes string) string {
			p.call("use", `{"provider":"hub","scopes":[`+scopes+`]}`, "")
			return p.receive().text()
		}
		p.call("use", `{"provider":"hub","scopes":["s6"]}`, "")
		if got := p.receive().text(); !strings.Contains(got, "5 pages wait for the user already") {
			t.Errorf("got %q", got)
		}
		b := w.browser("alice")
		b.get(base)
		b.want("the list", 200, "A tool waits")
		for page := range pages {
			for range 20 {
				b.consent(page)
			}
			b.get(page)
			b.post(page, "same-origin", url.Values{"token": {b.token()}, "do": {"connect"}})
			b.want("too many flows", 429, "Too many")
			b.get(page)
			b.post(page, "same-origin", url.Values{"token": {b.token()}, "do": {"refuse"}})
			break
		}
		if got := two(`"s6","s7"`); !strings.Contains(got, "Open this page") || got != two(`"s7","s6","s7"`) {
			t.Errorf("got %q, and another page for the same scopes", got)
		}
	})
}

// URL-40, URL-42, MRTR-33: a handler that does not wait: -32042 with each page, input_required,
// or a text; a refusal is told once.
func TestNoWait(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28, mcp.V2025_03_26} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := w.start("api.example.com", alice, func(o *connect.Options) { o.NoWait = true })
			p, b := w.dial(s.Server, v, withPages), w.browser("alice")
			p.call("both", `{}`, "")
			m := p.receive()
			var pages []string
			switch v {
			case mcp.V2025_11_25:
				all, ok := m.Error.URLElicitations()
				if !ok || len(all) != 2 {
					t.Fatalf("got %s", m.raw)
				}
				pages = []string{all[0].URL, all[1].URL}
			case mcp.V2026_07_28:
				for _, key := range []string{"connect hub read", "connect keys"} {
					pages = append(pages, urlOf(t, m.Result.InputRequests[key].Params))
				}
			default:
				for line := range strings.Lines(strings.TrimPrefix(m.text(), "isError ")) {
					_, page, _ := strings.Cut(strings.TrimSpace(line), "then call again: ")
					pages = append(pages, page)
				}
			}
			b.connect(pages[0])
			b.get(pages[1])
			b.want("the form for a key", 200, "Keys Inc")
			form := url.Values{"token": {b.token()}, "do": {"connect"}}
			for key, want := range map[string]string{"": "That is not a key", "a b": "That is not a key", "wrong": "does not accept this key"} {
				form.Set("key", key)
				b.post(pages[1], "same-origin", form)
				b.want("the key "+key, 400, want)
			}
			form.Set("key", "key-"+planted)
			b.post(pages[1], "same-origin", form)
			b.want("the key", 200, "is connected")
			if v == mcp.V2025_11_25 {
				for range 2 {
					if m := p.receive(); m.Method != mcp.NotificationElicitationComplete {
						t.Errorf("got %s, want the notice", m.raw)
					}
				}
			}
			p.call("both", `{}`, "")
			if got := p.receive().text(); got != "both" {
				t.Errorf("got %q", got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		p, b := w.dial(s.Server, mcp.V2026_07_28, `{}`), w.browser("alice")
		page := func() string {
			p.call("use", useHub, "")
			_, page, _ := strings.Cut(p.receive().text(), "then call again: ")
			return page
		}
		first := page()
		if again := page(); again != first || first == "" {
			t.Errorf("got the pages %q and %q, want one", first, again)
		}
		b.get(first)
		b.post(first, "same-origin", url.Values{"token": {b.token()}, "do": {"refuse"}})
		p.call("use", useHub, "")
		if got := p.receive().text(); !strings.Contains(got, "the user has declined: the user has refused on the page") {
			t.Errorf("got %q", got)
		}
		if again := page(); again == first || again == "" {
			t.Errorf("got the page %q after the refusal", again)
		}
	})
}

// An account without the scopes that are needed is asked for more, with those that it has.
func TestMoreScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		p, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("alice")
		b.connect(p.ask(useHub))
		p.answer()
		page := p.ask(`{"provider":"hub","scopes":["write"]}`)
		authorize, _ := url.Parse(b.consent(page))
		if got := authorize.Query().Get("scope"); got != "write read" {
			t.Errorf("asked for %q, want both", got)
		}
		b.get(w.hub.approve(authorize.String()))
		if got := p.answer(); got != "200 OK the data" {
			t.Errorf("got %q", got)
		}
		w.hub.grants = "read"
		b.connect(p.ask(`{"provider":"hub","scopes":["admin"]}`))
		if got := p.answer(); !strings.Contains(got, "without all that is needed (admin)") {
			t.Errorf("a grant that is too narrow: got %q", got)
		}
	})
}

// A token that has ended, or is refused, is refreshed once; what was rotated is kept. An account
// that cannot be refreshed is asked for again.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.life = 600
		s := w.start("api.example.com", alice, nil)
		p, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("alice")
		use := func() string {
			p.call("use", useHub, "")
			return p.receive().text()
		}
		b.connect(p.ask(useHub))
		p.answer()
		for i := 1; i <= 3; i++ {
			time.Sleep(11 * time.Minute)
			if got := use(); got != "200 OK the data" || w.hub.refreshed != i {
				t.Errorf("an hour later: got %q after %d refreshes", got, w.hub.refreshed)
			}
		}
		w.hub.expire(false) // revoked there
		if got := use(); got != "200 OK the data" || w.hub.refreshed != 4 {
			t.Errorf("refused: got %q after %d refreshes", got, w.hub.refreshed)
		}
		w.hub.down = true
		time.Sleep(11 * time.Minute)
		if got := use(); !strings.Contains(got, "refreshing the token of the Hub account") {
			t.Errorf("in trouble: got %q", got)
		}
		w.hub.down = false
		if got := use(); got != "200 OK the data" {
			t.Errorf("after the trouble: got %q", got)
		}
		w.hub.expire(true)
		if got := use(); !strings.Contains(got, connect.ErrDisconnected.Error()) {
			t.Errorf("ended: got %q", got)
		}
		b.get(base)
		b.want("the list", 200, "has to be connected again")
		b.connect(p.ask(useHub))
		if got := p.answer(); got != "200 OK the data" {
			t.Errorf("connected again: got %q", got)
		}
		w.hub.noRefresh = true
		w.hub.expire(true)
		use()
		b.connect(p.ask(useHub))
		p.answer()
		w.hub.expire(true)
		if got := use(); !strings.Contains(got, connect.ErrDisconnected.Error()) {
			t.Errorf("a provider without refresh: got %q", got)
		}
	})
}

// SECA-25: of many requests of two instances one refreshes: a second would use a token that was rotated.
func TestRefreshRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.life = 600
		one, two := w.start("api.example.com", alice, nil), w.start("", alice, nil)
		p, b := w.dial(one.Server, mcp.V2026_07_28, withPages), w.browser("alice")
		b.connect(p.ask(useHub))
		p.answer()
		time.Sleep(11 * time.Minute)
		w.hub.slow = 2 * time.Second
		var peers []*peer
		for i := range 10 {
			peers = append(peers, w.dial([]*instance{one, two}[i%2].Server, mcp.V2026_07_28, withPages))
		}
		for _, p := range peers {
			p.call("use", useHub, "")
		}
		for i, p := range peers {
			if got := p.receive().text(); got != "200 OK the data" {
				t.Errorf("call %d: got %q", i, got)
			}
		}
		if w.hub.refreshed != 1 {
			t.Errorf("%d refreshes, want 1", w.hub.refreshed)
		}
	})
}

// SECA-25: a caller that leaves while a token is renewed, and an answer of the provider that comes
// late, lose nothing: what was rotated is kept.
func TestRefreshAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hub.life = 600
		s := w.start("api.example.com", alice, nil)
		p, b := w.dial(s.Server, mcp.V2025_11_25, withPages), w.browser("alice")
		b.connect(p.ask(useHub))
		p.answer()
		time.Sleep(11 * time.Minute)
		w.hub.slow = 20 * time.Second
		p.call("use", useHub, "")
		time.Sleep(time.Second)
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, p.id))
		time.Sleep(time.Minute)
		p.quiet()
		p.call("use", useHub, "")
		if got := p.receive().text(); got != "200 OK the data" || w.hub.refreshed != 1 {
			t.Errorf("got %q after %d refreshes, want one", got, w.hub.refreshed)
		}
	})
}

// SECA-16: metadata of a provider lead nowhere inside: neither by the name of a host, nor by an
// address.
func TestInside(t *testing.T) {
	inside := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a request came in: %s %s", r.Method, r.URL) }))
	defer inside.Close()
	for _, at := range []string{inside.URL, strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)} {
		w := newWorld(t)
		s := w.start("api.example.com", alice, func(o *connect.Options) {
			o.HTTP, o.NoWait = nil, true
			o.Providers = []connect.Provider{connect.OAuth("hub", connect.OAuthConfig{ClientID: "app", Issuer: at, API: []string{theirs}})}
		})
		p, b := w.dial(s.Server, mcp.V2025_06_18, `{}`), w.browser("alice")
		p.call("use", useHub, "")
		_, page, _ := strings.Cut(p.receive().text(), "then call again: ")
		b.get(page)
		b.post(page, "same-origin", url.Values{"token": {b.token()}, "do": {"connect"}})
		b.want(at, 502, "cannot be reached")
	}
}

// A person sees the accounts, and ends one here and at the provider; a client that a handler
// still has is of no use then.
func TestRevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		var kept *http.Client
		err := mcpserver.AddTool(s.Server, &mcp.Tool{Name: "keep"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (_ string, err error) {
			kept, err = s.cn.Client(ctx, req, "hub", "read")
			return "kept", err
		})
		if err != nil {
			t.Fatal(err)
		}
		p, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("alice")
		b.connect(p.ask(useHub))
		p.answer()
		p.call("keep", `{}`, "")
		p.receive()
		other := w.browser("bob")
		other.get(base)
		other.want("Bob's list", 200, `id="none"`)
		b.get(base)
		b.want("the list", 200, "alice-at-hub")
		form := url.Values{"provider": {"hub"}, "token": {b.token()}}
		other.post(base+"/revoke", "same-origin", form)
		other.want("Bob with her form", 403, "not yours")
		b.post(base+"/revoke", "same-origin", form)
		b.want("revoking", 200, "disconnected")
		if len(w.accounts()) != 0 || len(w.hub.revoked) != 1 || !strings.HasPrefix(w.hub.revoked[0], "refresh-") {
			t.Errorf("%d accounts are left; revoked %d tokens", len(w.accounts()), len(w.hub.revoked))
		}
		if _, err := kept.Get(theirs + "/"); !errors.Is(err, connect.ErrDisconnected) {
			t.Errorf("a client of before: got %v, want ErrDisconnected", err)
		}
		p.ask(useHub)
	})
}

// SECA-36: a row that was moved to another person, one of before, and one of a key that is lost
// open nowhere; the person can connect the account anew.
func TestDamagedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alices, bobs := w.start("api.example.com", alice, nil), w.start("", bob, nil)
		pa, pb := w.dial(alices.Server, mcp.V2026_07_28, withPages), w.dial(bobs.Server, mcp.V2026_07_28, withPages)
		ba, bb := w.browser("alice"), w.browser("bob")
		ba.connect(pa.ask(useHub))
		pa.answer()
		old := w.accounts()[0]
		bb.connect(pb.ask(useHub))
		pb.answer()
		use := func(p *peer) string {
			p.call("use", useHub, "")
			return p.receive().text()
		}
		for _, row := range w.accounts() {
			if row.Key == old.Key {
				continue
			}
			moved := old
			moved.Key, moved.Version = row.Key, row.Version+1
			if err := w.store.PutSealed(t.Context(), moved, row.Version); err != nil {
				t.Fatal(err)
			}
		}
		if got := use(pb); !strings.HasPrefix(got, "isError") || !strings.Contains(got, "cannot be opened") {
			t.Errorf("a row that was moved: got %q", got)
		}
		now := old
		now.Version++
		if err := w.store.PutSealed(t.Context(), now, old.Version); err != nil { // of a backup, say
			t.Fatal(err)
		}
		if got := use(pa); !strings.Contains(got, "cannot be opened") {
			t.Errorf("a row of before: got %q", got)
		}
		ba.get(base)
		ba.want("the list", 200, "has to be connected again")
		ba.post(base+"/revoke", "same-origin", url.Values{"provider": {"hub"}, "token": {ba.token()}})
		ba.want("removing it", 200, "disconnected")
		ba.connect(pa.ask(useHub))
		pa.answer()
		lost := w.start("", alice, func(o *connect.Options) { o.Keys = [][]byte{bytes.Repeat([]byte{8}, 32)} })
		if got := use(w.dial(lost.Server, mcp.V2026_07_28, withPages)); !strings.Contains(got, "sealed with a key that is not here") {
			t.Errorf("another key: got %q", got)
		}
		both := w.start("", alice, func(o *connect.Options) { o.Keys = [][]byte{bytes.Repeat([]byte{8}, 32), w.keys[0]} })
		if got := use(w.dial(both.Server, mcp.V2026_07_28, withPages)); got != "200 OK the data" {
			t.Errorf("a new key and the old one: got %q", got)
		}
	})
}

// Requests without a person have no account: anonymous ones over HTTP, and those of machines.
func TestNoPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", nil, nil)
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"use","arguments":` + useHub + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + withPages + `,"io.modelcontextprotocol/clientInfo":{"name":"peer","version":"1"}}}}`
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "use"} {
			r.Header.Set(name, value)
		}
		w.net["localhost"] = s.Handler()
		b := w.browser("")
		b.do(r)
		b.want("an anonymous request", 200, "the server does not know who sends the request")

		machine := w.start("", &mcpserver.Principal{ID: "m", Issuer: "https://idp.example", Subject: "m", Machine: true}, nil)
		p := w.dial(machine.Server, mcp.V2026_07_28, withPages)
		p.call("use", useHub, "")
		if got := p.receive().text(); !strings.Contains(got, "no person stands behind it") {
			t.Errorf("a machine: got %q", got)
		}
	})
}

// Pages of several calls at once: one page, and all go on.
func TestSideBySide(t *testing.T) {
	eras(t, func(t *testing.T, v mcp.Version) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		b := w.browser("alice")
		var peers []*peer
		pages := make(map[string]bool)
		for range 4 {
			p := w.dial(s.Server, v, withPages)
			peers = append(peers, p)
			pages[p.ask(useHub)] = true
		}
		if len(pages) != 1 {
			t.Errorf("%d pages, want one", len(pages))
		}
		for page := range pages {
			b.connect(page)
		}
		for i, p := range peers {
			if got := p.answer(); got != "200 OK the data" {
				t.Errorf("call %d: got %q", i, got)
			}
		}
	})
}

// The next result of a tool tells the owner of an account that it was connected, and where to end
// that; one result does, also of many at once, whatever the tool returns.
func TestOwnerIsTold(t *testing.T) {
	eras(t, func(t *testing.T, v mcp.Version) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, nil)
		kept := &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("kept")}}
		uses := func(name string) error {
			return mcpserver.AddTool(s.Server, &mcp.Tool{Name: name}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (*mcp.CallToolResult, error) {
				_, err := s.cn.Client(ctx, req, "hub", "read")
				return kept, err
			})
		}
		type out struct {
			N int `json:"n"`
		}
		err := errors.Join(uses("kept"), mcpserver.AddTool(s.Server, &mcp.Tool{Name: "value"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (out, error) {
			_, err := s.cn.Client(ctx, req, "hub", "read")
			return out{7}, err
		}), mcpserver.AddTool(s.Server, &mcp.Tool{Name: "fails"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			if _, err := s.cn.Client(ctx, req, "hub", "read"); err != nil {
				return "", err
			}
			return "", errors.New("the disk is full")
		}))
		if err != nil {
			t.Fatal(err)
		}
		b, p := w.browser("alice"), w.dial(s.Server, v, `{}`)
		const want = `Note for the user: the Hub account "alice-at-hub" was connected with Example on 2000-01-01 at 00:00 UTC. If that was not you, disconnect it at https://api.example.com/connect.`
		call := func(tool string) message {
			p.call(tool, map[bool]string{true: useHub, false: `{}`}[tool == "use"], "")
			return p.receive()
		}
		for tool, text := range map[string]string{"use": "200 OK the data", "kept": "kept", "value": `{"n":7}`} {
			_, page, _ := strings.Cut(call("use").text(), "then call again: ")
			b.connect(page)
			if m := call("fails"); m.text() != "isError the disk is full" {
				t.Errorf("a tool that fails: got %s", m.raw)
			}
			for i, want := range []string{want, ""} {
				if m := call(tool); m.text() != text || m.note() != want {
					t.Errorf("result %d of %s: got %s, want %q and the note %q", i, tool, m.raw, text, want)
				}
			}
			b.get(base)
			b.post(base+"/revoke", "same-origin", url.Values{"provider": {"hub"}, "token": {b.token()}})
		}
		if len(kept.Content) != 1 {
			t.Errorf("the handler's own result has %d contents", len(kept.Content))
		}
	})
	synctest.Test(t, func(t *testing.T) { // the call that has waited is the next one; of several, one
		w := newWorld(t)
		one, two := w.start("api.example.com", alice, nil), w.start("", alice, nil)
		var peers []*peer
		var page string
		for i := range 6 {
			p := w.dial([]*instance{one, two}[i%2].Server, mcp.V2026_07_28, withPages)
			peers, page = append(peers, p), p.ask(useHub)
		}
		w.browser("alice").connect(page)
		told := 0
		for _, p := range peers {
			if m := p.receive(); m.text() != "200 OK the data" {
				t.Errorf("got %s", m.raw)
			} else if m.note() != "" {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times, want once", told)
		}
	})
}

// A key that a person pastes is sent in its header, to its own hosts; one that is not accepted any
// more is asked for again, and there is no way to end it but that of the service.
func TestAPIKey(t *testing.T) {
	eras(t, func(t *testing.T, v mcp.Version) {
		w := newWorld(t)
		good := "key-" + planted
		w.net["keys.example"] = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Key") != "v1 "+good || r.Header.Get("Authorization") != "" {
				out.WriteHeader(http.StatusUnauthorized)
				return
			}
			fmt.Fprint(out, `{"email":"alice@keys"}`)
		})
		s := w.start("api.example.com", alice, func(o *connect.Options) {
			o.Providers = []connect.Provider{connect.APIKey("keys", connect.APIKeyConfig{
				Title: "Keys Inc", Help: "see <settings>", API: []string{"https://keys.example"}, Header: "X-Key", Prefix: "v1 ",
				AccountURL: "https://keys.example/me", AccountField: "email",
			})}
		})
		err := mcpserver.AddTool(s.Server, &mcp.Tool{Name: "key"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			client, err := s.cn.Client(ctx, req, "keys", "scopes", "mean", "nothing")
			if err != nil {
				return "", err
			}
			resp, err := client.Get("https://keys.example/me")
			if err != nil {
				return "", err
			}
			return resp.Status, resp.Body.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
		p, b := w.dial(s.Server, v, `{}`), w.browser("alice")
		call := func() message {
			p.call("key", `{}`, "")
			return p.receive()
		}
		for _, key := range []string{good, "key-2-" + planted} {
			_, page, _ := strings.Cut(call().text(), "then call again: ")
			b.get(page)
			b.want("the form", 200, "see &lt;settings&gt;")
			if policy := b.head.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self';") {
				t.Errorf("the form may lead elsewhere: %q", policy)
			}
			good = key
			b.post(page, "same-origin", url.Values{"token": {b.token()}, "do": {"connect"}, "key": {" " + key + " "}})
			b.want("the key", 200, `id="account">alice@keys<`)
			if m := call(); m.text() != "200 OK" {
				t.Errorf("got %s", m.raw)
			}
			good = "another"
			if m := call(); !strings.Contains(m.text(), connect.ErrDisconnected.Error()) {
				t.Errorf("a key that has ended: got %s", m.raw)
			}
		}
		b.get(base)
		b.want("the list", 200, "has to be connected again")
		_, page, _ := strings.Cut(call().text(), "then call again: ")
		good = "key-3-" + planted
		b.get(page)
		b.post(page, "same-origin", url.Values{"token": {b.token()}, "do": {"connect"}, "key": {good}})
		b.get(base)
		b.post(base+"/revoke", "same-origin", url.Values{"provider": {"keys"}, "token": {b.token()}})
		b.want("the end", 200, "Its token is deleted here. Keys Inc was not told of that")
	})
}

// A person who has connected an account has done so for all tools that wait for no more of it: one
// that needs other scopes goes on waiting.
func TestOthersGoOn(t *testing.T) {
	eras(t, func(t *testing.T, v mcp.Version) {
		w := newWorld(t)
		one, two := w.start("api.example.com", alice, nil), w.start("", alice, nil)
		b := w.browser("alice")
		var peers []*peer
		var pages []string
		for i, scopes := range []string{`"read"`, `"read","write"`, `"admin"`} {
			p := w.dial([]*instance{one, two}[i%2].Server, v, withPages)
			peers, pages = append(peers, p), append(pages, p.ask(`{"provider":"hub","scopes":[`+scopes+`]}`))
		}
		b.connect(pages[1])
		for _, p := range peers[:2] {
			if got := p.answer(); got != "200 OK the data" {
				t.Errorf("got %q", got)
			}
		}
		b.get(pages[0])
		b.want("the page that is over", 200, "is connected")
		time.Sleep(10 * time.Second)
		peers[2].quiet()
		b.connect(pages[2])
		if got := peers[2].answer(); got != "200 OK the data" {
			t.Errorf("got %q", got)
		}
	})
}

// slowStore gives others time before it answers.
type slowStore struct{ connect.Store }

func (s slowStore) Records(ctx context.Context, q store.RecordQuery) ([]store.Record, error) {
	all, err := s.Store.Records(ctx, q)
	time.Sleep(time.Second)
	return all, err
}

// Two instances that make a page for the same need at the same time agree on one.
func TestOnePageOfTwoInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow := func(o *connect.Options) { o.Store, o.NoWait = slowStore{w.store}, true }
		pages := make(map[string]bool)
		var peers []*peer
		for _, host := range []string{"api.example.com", ""} {
			peers = append(peers, w.dial(w.start(host, alice, slow).Server, mcp.V2026_07_28, `{}`))
		}
		for range 2 {
			for _, p := range peers {
				p.call("use", useHub, "")
			}
			for _, p := range peers {
				text := p.receive().text()
				_, page, ok := strings.Cut(text, "then call again: ")
				if !ok {
					t.Fatalf("got %q", text)
				}
				pages[page] = true
			}
		}
		if len(pages) != 1 {
			t.Errorf("got the pages %v, want one", pages)
		}
		for page := range pages {
			w.browser("alice").connect(page)
		}
	})
}

// New refuses what would not be safe.
func TestNew(t *testing.T) {
	w := newWorld(t)
	s, err := mcpserver.New(mcp.Implementation{Name: "x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	config := connect.OAuthConfig{ClientID: "c", AuthorizeURL: theirs + "/a", TokenURL: theirs + "/t", API: []string{theirs}}
	with := func(change func(*connect.OAuthConfig)) []connect.Provider {
		c := config
		change(&c)
		return []connect.Provider{connect.OAuth("x", c)}
	}
	bad := map[string]func(*connect.Options){
		"no keys":            func(o *connect.Options) { o.Keys = nil },
		"short keys":         func(o *connect.Options) { o.Keys = [][]byte{{1}} },
		"no store":           func(o *connect.Options) { o.Store = nil },
		"no login":           func(o *connect.Options) { o.Login = nil },
		"no providers":       func(o *connect.Options) { o.Providers = nil },
		"http":               func(o *connect.Options) { o.Base = "http://api.example.com" },
		"a query":            func(o *connect.Options) { o.Base = base + "?x" },
		"a name twice":       func(o *connect.Options) { o.Providers = append(o.Providers, o.Providers[0]) },
		"a name like a path": func(o *connect.Options) { o.Providers = []connect.Provider{connect.OAuth("a/b", config)} },
		"no API":             func(o *connect.Options) { o.Providers = with(func(c *connect.OAuthConfig) { c.API = nil }) },
		"an API by http": func(o *connect.Options) {
			o.Providers = with(func(c *connect.OAuthConfig) { c.API = []string{"http://hub.example"} })
		},
		"an API with a path": func(o *connect.Options) {
			o.Providers = with(func(c *connect.OAuthConfig) { c.API = []string{theirs + "/x"} })
		},
		"a token by http": func(o *connect.Options) {
			o.Providers = with(func(c *connect.OAuthConfig) { c.TokenURL = "http://hub.example/t" })
		},
		"half of an OAuth": func(o *connect.Options) { o.Providers = with(func(c *connect.OAuthConfig) { c.TokenURL = "" }) },
	}
	for name, change := range bad {
		o := w.options()
		change(&o)
		if _, err := connect.New(s, o); err == nil {
			t.Errorf("%s: got no error", name)
		} else if strings.Contains(err.Error(), planted) {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
	if _, err := connect.New(s, w.options()); err != nil {
		t.Error(err)
	}
	o := w.options()
	o.Providers = []connect.Provider{connect.GitHub("id", "secret"), connect.Google("id", "secret")}
	if _, err := connect.New(s, o); err != nil {
		t.Errorf("the presets: %v", err)
	}
}
