package auth_test

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// Accounts lists what is kept, by profile and without the query of an address, and Logout ends
// it: the next call of a program that starts then asks the person.
func TestAccounts(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		guest := k.another(func(o *auth.Options) {
			k.inBubble(o)
			o.Profile = "guest"
		})
		list := func(p *process) []auth.Account {
			t.Helper()
			all, err := p.auth.Accounts(t.Context())
			if err != nil {
				t.Error(err)
			}
			return all
		}
		k.good(k.call(k.credential(), "t"), guest.call(guest.credential(), "t"))
		plain := k.server().URL
		k.query = "?key=query-secret"
		k.good(k.call(k.credential(), "t"))
		all := list(k.process)
		if len(all) != 2 || len(list(guest)) != 1 {
			t.Fatalf("got the accounts %+v and %+v", all, list(guest))
		}
		for i, url := range []string{plain, k.server().URL} {
			a := all[i]
			if a.Server != plain || !a.At(url) || a.At(plain+"?key=other") || a.At(k.base) || a.Issuer != k.base+"/as1" || a.Resource != plain || !a.Renews || a.Updated.IsZero() || len(a.Scopes) != 1 {
				t.Errorf("%s: got the account %+v", url, a)
			}
		}
		url := strings.Replace(k.server().URL, "https://mcp", "HTTPS://MCP", 1)
		for _, want := range []bool{true, false} { // both have one resource, and so one token
			if had, err := k.auth.Logout(t.Context(), url); had != want || err != nil {
				t.Errorf("Logout: got %v, %v, want %v", had, err, want)
			}
		}
		if left := list(k.process); len(left) != 0 || len(list(guest)) != 1 {
			t.Errorf("got the accounts %+v and %+v", left, list(guest))
		}
		later := k.another(k.inBubble)
		k.good(later.call(later.credential(), "t"))
		if n := len(later.requests()); n != 1 {
			t.Errorf("the person was asked %d times after the end, want once", n)
		}
	})
}
