package connect_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
)

// Every answer of the pages, whatever it is, may be neither framed nor kept, runs nothing, and
// tells no other site where it came from; nor has a window that opened it a hold of it.
func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		idp, s := w.withIDP("alice")
		p, b, stranger := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser(""), w.browser("")
		page := p.ask(useHub)
		check := func(what string, b *browser, code int) {
			t.Helper()
			if b.code != code {
				t.Errorf("%s: got %d, want %d", what, b.code, code)
			}
			for name, want := range map[string]string{
				"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := b.head.Values(name); len(got) != 1 || got[0] != want {
					t.Errorf("%s: %s is %q, want %q", what, name, got, want)
				}
			}
			policy := b.head.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "base-uri 'none'") || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: the policy is %q", what, policy)
			}
			for _, c := range (&http.Response{Header: b.head}).Cookies() {
				if !strings.HasPrefix(c.Name, "__Host-") || !c.HttpOnly || !c.Secure || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteLaxMode {
					t.Errorf("%s: the cookie %q is not bound to this host", what, c.Name)
				}
			}
		}
		login := b.get(page)
		check("to the login", b, http.StatusFound)
		answer := idp.approve(b.get(ours + login))
		check("to the provider of the login", b, http.StatusFound)
		stranger.get(answer)
		check("a login of another browser", stranger, http.StatusBadGateway)
		b.get(answer)
		check("back from it", b, http.StatusSeeOther)
		b.get(page)
		check("the page", b, http.StatusOK)
		token := b.token()
		b.post(page, "cross-site", nil)
		check("a form of another site", b, http.StatusForbidden)
		at := b.post(page, "same-origin", url.Values{"token": {token}, "do": {"connect"}})
		check("to the service", b, http.StatusSeeOther)
		b.get(base + "/callback/hub?state=x")
		check("a wrong state", b, http.StatusForbidden)
		b.get(w.hub.approve(at))
		check("the end", b, http.StatusOK)
		b.get(base)
		check("the list", b, http.StatusOK)
		b.post(base+"/revoke", "same-origin", url.Values{"provider": {"hub"}, "token": {b.token()}})
		check("the account's end", b, http.StatusOK)
		b.get(ours + "/connectx")
		check("no page", b, http.StatusNotFound)
		b.get(base + "/unknown")
		check("no page of ours", b, http.StatusNotFound)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, page, nil)
		b.do(r)
		check("a strange method", b, http.StatusMethodNotAllowed)
	})
}
