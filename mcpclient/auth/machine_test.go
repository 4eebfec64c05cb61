package auth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// A program that acts for itself has a token without a person, and another whenever that has
// expired, once for all calls; it needs none who could be asked (AUTH-13, AUTH-80). A server that
// refuses whatever it is given is no reason for more than a few (SECA-26).
func TestClientCredentials(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.secret, k.single, k.life = "client-secret", true, 60
		k.serverAS = map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_basic"}}
		p := k.another(func(o *auth.Options) {
			k.inBubble(o)
			o.Authorize = nil
		})
		p.cfg = mcpclient.OAuth{Grant: mcpclient.GrantClient, ClientID: "machine", ClientSecret: k.secret, Issuer: k.base + "/as1"}
		c := p.credential()
		for n := range 10 {
			k.good(p.many(c, 20)...)
			k.counts("after a token", map[string]int{"client_credentials": n + 1, "authorize": 0, "register": 0, "call": 20 * (n + 1)})
			time.Sleep(time.Minute)
		}
		before := k.count("client_credentials")
		k.set(func() { k.refuse = true })
		var err error
		for range 20 {
			err = p.call(c, "t")
		}
		if n := k.count("client_credentials") - before; n > auth.MaxLogins+1 || err == nil || errors.Is(err, auth.ErrLogin) ||
			!strings.Contains(err.Error(), "the program is not authorized") || !strings.Contains(err.Error(), "three times within a minute") {
			t.Errorf("a server that refuses for ever: %d tokens, and %v", n, err)
		}
	})
}

// SECA-19, SECA-22: what a program proves itself by goes to no authorization server that only the MCP server names,
// as no person sees that; where it was named, or was used before, it does.
func TestSecretForUnseenIssuer(t *testing.T) {
	const elsewhere = "https://as.example"
	tests := []struct {
		name string
		cfg  mcpclient.OAuth
		good bool
	}{
		{"named by the server alone", mcpclient.OAuth{}, false},
		{"named", mcpclient.OAuth{Issuer: elsewhere + "/as1"}, true},
		{"described where the definition says", mcpclient.OAuth{MetadataURL: elsewhere + "/.well-known/oauth-authorization-server/as1"}, true},
		{"trusted to name one", mcpclient.OAuth{AnyIssuer: true}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.secret, k.single, k.elsewhere = "client-secret", true, elsewhere
				k.serverAS = map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_basic"}}
				k.cfg = tt.cfg
				k.cfg.Grant, k.cfg.ClientID, k.cfg.ClientSecret = mcpclient.GrantClient, "machine", k.secret
				err := k.call(k.credential(), "t")
				if (err == nil) != tt.good || err != nil && !strings.Contains(err.Error(), "name it in oauth.issuer") {
					t.Errorf("got %v", err)
				}
				if shown := len(k.seen) > 0; shown != tt.good {
					t.Errorf("shown to the issuer: %v", k.seen)
				}
				if !tt.good {
					return
				}
				k.cfg.Issuer, k.cfg.MetadataURL, k.cfg.AnyIssuer = "", tt.cfg.MetadataURL, false
				if p := k.another(k.inBubble); tt.cfg.MetadataURL == "" {
					p.cfg = k.cfg
					k.good(p.call(p.credential(), "t"))
				}
			})
		})
	}
}

// Two entries for one server with different grants are two accounts: neither shows the token of
// the other, in one process or after one another (AUTH-32).
func TestGrantsAreApart(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.secret = "client-secret"
		k.serverAS = map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "none"}}
		k.good(k.call(k.credential(), "t"))
		k.cfg = mcpclient.OAuth{Grant: mcpclient.GrantClient, ClientID: "machine", ClientSecret: k.secret, Issuer: k.base + "/as1"}
		k.good(k.call(k.credential(), "t"))
		k.counts("with both", map[string]int{"authorization_code": 1, "client_credentials": 1})
		p := k.another(k.inBubble)
		p.cfg = mcpclient.OAuth{Issuer: k.base + "/as1"}
		k.good(p.call(p.credential(), "t"))
		k.counts("a person again", map[string]int{"authorization_code": 2, "client_credentials": 1})
	})
}
