package authserver_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// AUTH-05, AUTH-12, AUTH-13, AUTH-25, AUTH-40, AUTH-46, AUTH-50: a client registers, a person
// consents, and the resource server in the same process knows who sends the request, for what, by
// which client and until when.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		client, access, refresh := w.logIn("alice")
		p, err := w.uses(access)
		if err != nil {
			t.Fatal(err)
		}
		if p.Issuer != issuer || p.Subject != "alice" || p.ClientID != client || !slices.Equal(p.Scopes, []string{"mcp"}) || time.Until(p.Expiry) > 16*time.Minute || p.Machine {
			t.Errorf("got %+v", p)
		}
		next, _ := w.tokens(renew(client, refresh))
		if p, err := w.uses(next); err != nil || p.Subject != "alice" || next == access {
			t.Errorf("after the renewal: got %+v, %v", p, err)
		}
		time.Sleep(20 * time.Minute)
		if _, err := w.uses(next); err == nil {
			t.Error("an expired token is good")
		}
	})
}

// The page shows what a person has to know, as text, and no other page may frame it, run a script
// in it, or keep it; a GET changes nothing (SEC-12, SECA-29, SECA-50).
func TestConsentPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		client := w.register(object{"client_name": "<script>alert(1)</script>\u202e\n" + strings.Repeat("x", 500)})
		b := w.browser("alice")
		p := b.get(ask(client, url.Values{"scope": {"mcp files:write openid"}}))
		for _, want := range []string{"&lt;script&gt;", "files:write", "alice", "127.0.0.1:7777", resource} {
			if !strings.Contains(p.body, want) {
				t.Errorf("the page does not have %q:\n%s", want, p.body)
			}
		}
		for _, bad := range []string{"<script", "\u202e", "openid", strings.Repeat("x", 200)} {
			if strings.Contains(p.body, bad) {
				t.Errorf("the page has %q", bad)
			}
		}
		csp := p.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self' https: http:"} {
			if !strings.Contains(csp, want) {
				t.Errorf("the policy is %q, want %s", csp, want)
			}
		}
		for name, want := range map[string]string{"X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"} {
			if got := p.header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if cookie := p.header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-") || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "SameSite=Lax") {
			t.Errorf("the cookie is %q", cookie)
		}
		p = b.do(http.MethodPost, issuer+"/authorize", url.Values{"token": {p.token()}, "do": {"refuse"}})
		if at, q := p.location(); at != callback || q.Get("error") != "access_denied" || q.Get("iss") != issuer || q.Get("state") != "the state" || q.Has("code") {
			t.Errorf("refused: got %s %v", at, q)
		}
	})
}
