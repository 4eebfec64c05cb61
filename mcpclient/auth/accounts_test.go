package auth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcpclient"
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
			if had, err := k.auth.Logout(t.Context(), &mcpclient.Server{URL: url}); had != want || err != nil {
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

// Logout has the tokens revoked where the authorization server can, also those of a client with
// a configured secret, which it shows; Account says before and after how it stands.
func TestRevocation(t *testing.T) {
	for name, cfg := range map[string]mcpclient.OAuth{"registered": {}, "configured": {ClientID: "configured", ClientSecret: "client-secret"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.cfg, k.secret, k.life = cfg, cfg.ClientSecret, 60
				k.serverAS = map[string]any{"revocation_endpoint": k.base + "/as1/revoke"}
				stands := func(kept, wanted bool) {
					t.Helper()
					a, w, err := k.auth.Account(t.Context(), k.server())
					if err != nil || w != wanted || (a != nil) != kept {
						t.Errorf("got the account %+v, wanted %v, %v; want kept %v, wanted %v", a, w, err, kept, wanted)
					}
					if kept && (!a.Renews || !a.Expires.Equal(time.Now().Add(time.Minute)) || a.Issuer != k.base+"/as1") {
						t.Errorf("got the account %+v", a)
					}
				}
				stands(false, false)
				k.good(k.call(k.credential(), "t"))
				stands(true, true)
				if had, err := k.auth.Logout(t.Context(), k.server()); !had || err != nil {
					t.Errorf("Logout: got %v, %v", had, err)
				}
				stands(false, true)
				k.counts("at the end", map[string]int{"revoke": 1})
				if len(k.refresh) != 0 {
					t.Errorf("refresh tokens are left: %v", k.refresh)
				}
			})
		})
	}
}
