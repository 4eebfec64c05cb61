package auth_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// What ends a login before the person is asked, and before anything is registered: metadata of
// another resource (AUTH-23, SECA-18), of another issuer (AUTH-26, SECA-17), an authorization
// server without PKCE (AUTH-27, SECA-20), none at all, another than the configured one (AUTH-24),
// or addresses that no browser may be sent to (SEC-11, SECA-15, SECA-16).
func TestDiscoveryFails(t *testing.T) {
	for name, test := range map[string]struct {
		change func(k *kit)
		is     error
		want   string
	}{
		"another resource": {func(k *kit) { k.resource = "https://victim.example/mcp" }, oauth.ErrOtherResource, ""},
		"a longer path":    {func(k *kit) { k.resource = "https://mcp.example/mcp/tenant" }, oauth.ErrOtherResource, ""},
		"a similar path":   {func(k *kit) { k.resource = "https://mcp.example/mc" }, oauth.ErrOtherResource, ""},
		"another issuer":   {func(k *kit) { k.serverAS = map[string]any{"issuer": "https://mcp.example/as2"} }, oauth.ErrIssuer, ""},
		"no PKCE":          {func(k *kit) { k.serverAS = map[string]any{"code_challenge_methods_supported": nil} }, nil, "PKCE"},
		"plain PKCE":       {func(k *kit) { k.serverAS = map[string]any{"code_challenge_methods_supported": []string{"plain"}} }, nil, "S256"},
		"no server":        {func(k *kit) { k.issuers = []string{} }, nil, "names no authorization server"},
		"not configured":   {func(k *kit) { k.cfg.Issuer = "https://other.example" }, nil, "https://other.example is none of those"},
		"inwards":          {func(k *kit) { k.serverAS = map[string]any{"token_endpoint": "https://127.0.0.1/token"} }, nil, "this machine"},
		"a script":         {func(k *kit) { k.serverAS = map[string]any{"authorization_endpoint": "javascript:alert(1)"} }, nil, "authorization_endpoint"},
		"no registration":  {func(k *kit) { k.serverAS = map[string]any{"registration_endpoint": nil} }, nil, "configure oauth.clientId"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				test.change(k)
				err := k.call(k.credential(), "t")
				if !errors.Is(err, auth.ErrLogin) || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want a failed login with %v %q", err, test.is, test.want)
				}
				k.counts("afterwards", map[string]int{"authorize": 0, "authorization_code": 0})
				if n := len(k.requests()); n != 0 {
					t.Errorf("the person was asked %d times", n)
				}
			})
		})
	}
}

// A server without resource metadata is one of 2025-03-26: its own authorization server, with
// metadata at its origin and no resource indicators (AUTH-10, AUTH-28).
func TestOldServer(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.issuers, k.life = nil, 60
		k.logsInAndRenews()
		if r := k.requests()[0]; r.Issuer != k.base || r.Resource != k.base+"/mcp" {
			t.Errorf("got the request %+v", r)
		}
	})
}

// A server of 2025-03-26 without any metadata has the default endpoints (AUTH-11).
func TestDefaultEndpoints(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.issuers, k.bare = nil, true
		k.good(k.call(k.credential(), "t"))
		if r := k.requests()[0]; !strings.HasPrefix(r.URL, k.base+"/authorize?") || k.count("authorization_code") != 1 {
			t.Errorf("got the request %+v", r)
		}
	})
}

// The metadata of an authorization server may be that of OpenID Connect, behind its path
// (AUTH-25).
func TestOpenIDMetadata(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.openid, k.life = true, 60
		k.logsInAndRenews()
	})
}

// A registration says what the program is: a native one that wants codes and refresh tokens. A
// server that refuses it ends the login with its reason, and no person is asked (AUTH-12,
// AUTH-33).
func TestRegistration(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.noClients = http.StatusBadRequest
		c := k.credential()
		if err := k.call(c, "t"); oauth.CodeOf(err) != oauth.CodeInvalidClientMetadata || !strings.Contains(err.Error(), "no natives") || len(k.requests()) != 0 {
			t.Errorf("a registration that is refused: got %v, and the person was asked %d times", err, len(k.requests()))
		}
		k.set(func() { k.noClients = 0 })
		k.good(k.call(c, "t"))
		want := `{"client_name":"Troupe","redirect_uris":["` + redirectURI + `"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","application_type":"native"}`
		if n := len(k.registered); n != 2 || k.registered[1] != want {
			t.Errorf("got the registrations %q, want %s", k.registered, want)
		}
	})
}

// A token goes to the server that it is for and to no other, also of the same host and the same
// authorization server (AUTH-51).
func TestTokensStayApart(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.good(k.call(k.credential(), "t"))
		for _, at := range []string{k.base + "/mcp/other", k.base + "/", "https://mcp.example.evil.example/mcp", k.base + ":8443/mcp", k.base + "/mcp?tenant=2"} {
			c, err := k.auth.For(&mcpclient.Server{URL: at})
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Authorize(t.Context(), req); err != nil || len(req.Header) != 0 {
				t.Errorf("%s: got %v, %v, want no header", at, req.Header, err)
			}
		}
	})
}

// A server that once had resource metadata is never taken for one of 2025-03-26, also if the
// login failed then, and in other processes (AUTH-28, SECA-19).
func TestNoDowngrade(t *testing.T) {
	for name, declines := range map[string]bool{"after a login": false, "after a login that failed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				if declines {
					k.is(func(context.Context, *auth.Request) error { return errDeclined })
				}
				if err := k.call(k.credential(), "t"); errors.Is(err, errDeclined) != declines {
					t.Fatalf("got %v", err)
				}
				asked := len(k.requests())
				k.is(k.agree)
				k.set(func() { k.issuers = nil; clear(k.access); clear(k.refresh) })
				other := k.another(k.inBubble)
				for _, p := range []*process{k.process, other} {
					if err := p.call(p.credential(), "t"); !errors.Is(err, oauth.ErrNoMetadata) {
						t.Errorf("got %v, want %v", err, oauth.ErrNoMetadata)
					}
				}
				if n := len(k.requests()) + len(other.requests()); n != asked {
					t.Errorf("the person was asked %d times, want %d", n, asked)
				}
			})
		})
	}
}

// Another issuer in the metadata means another registration. What belongs to the old one is
// never shown to the new one, and the new one is found though the old one still renews its
// token (AUTH-34, SECA-19).
func TestIssuerChanges(t *testing.T) {
	for name, life := range map[string]int{"while the token is good": 0, "when it has expired": 60} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.life = life
				c := k.credential()
				k.good(k.call(c, "t"))
				k.set(func() { k.issuers = []string{"/as2"} })
				time.Sleep(time.Hour)
				k.good(k.call(c, "t"))
				k.good(k.many(c, 10)...)
				k.counts("at the end", map[string]int{"authorize": 2, "register": 2})
				if r := k.requests(); len(r) != 2 || r[1].Issuer != k.base+"/as2" || !strings.HasPrefix(r[1].ClientID, "client-as2-") {
					t.Errorf("got the requests %+v", r)
				}
				k.set(func() {
					for _, seen := range k.seen {
						if strings.HasPrefix(seen, "/as2") && strings.Contains(seen, "client-as1") || strings.HasPrefix(seen, "/as1") && strings.Contains(seen, "client-as2") {
							t.Errorf("one server was shown the client of the other: %s", seen)
						}
					}
				})
			})
		})
	}
}

// A configured secret goes to its issuer only, and none is without an issuer (AUTH-34). It is
// encoded as Basic has it.
func TestConfiguredSecret(t *testing.T) {
	const secret = "client-secret-+:%"
	for name, test := range map[string]struct {
		issuer, named string
		good          bool
	}{
		"its issuer":      {"/as1", "/as1", true},
		"another":         {"/as1", "/as2", false},
		"none configured": {"", "/as1", true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.cfg = mcpclient.OAuth{ClientID: "configured", ClientSecret: secret}
				if test.issuer != "" {
					k.cfg.Issuer = k.base + test.issuer
				}
				k.issuers, k.life = []string{test.named}, 60
				k.secret = "client-secret-%2B%3A%25"
				k.serverAS = map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_basic"}}
				c := k.credential()
				err := k.call(c, "t")
				if test.good {
					time.Sleep(time.Minute)
					k.good(err, k.call(c, "t"))
					k.counts("at the end", map[string]int{"register": 0, "authorize": 1, "refresh_token": 1})
					return
				}
				if !errors.Is(err, auth.ErrLogin) || strings.Contains(err.Error(), secret) {
					t.Errorf("got %v, want an error without the secret", err)
				}
				if len(k.requests()) != 0 || len(k.seen) != 0 {
					t.Errorf("the person was asked %d times, and the server was shown %q", len(k.requests()), k.seen)
				}
			})
		})
	}
}

// Without a configured issuer a secret belongs to the first one that it was shown to: when the
// server names another, the secret is not shown there (AUTH-34).
func TestConfiguredSecretMoves(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.cfg = mcpclient.OAuth{ClientID: "configured", ClientSecret: "client-secret"}
		k.issuers, k.secret = []string{"/as1"}, "client-secret"
		k.serverAS = map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_basic"}}
		c := k.credential()
		k.good(k.call(c, "t"))
		k.set(func() {
			k.issuers, k.seen = []string{"/as2"}, nil
			clear(k.access)
			clear(k.refresh)
		})
		if err := k.call(c, "t"); err == nil || !strings.Contains(err.Error(), "oauth.issuer") {
			t.Errorf("at another issuer: got %v, want an error that names oauth.issuer", err)
		}
		for _, seen := range k.seen {
			if strings.HasPrefix(seen, "/as2") {
				t.Errorf("the other server was shown %q", seen)
			}
		}
	})
}

// Another issuer or another client that is configured has its own registration and tokens: those
// of before are not used (AUTH-24, AUTH-34).
func TestConfigurationChanges(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.issuers = []string{"/as1", "/as2"}
		k.good(k.call(k.credential(), "t"))
		for _, cfg := range []mcpclient.OAuth{{Issuer: k.base + "/as2"}, {Issuer: k.base + "/as2", ClientID: "mine"}} {
			p := k.another(k.inBubble)
			p.cfg = cfg
			c := p.credential()
			k.good(p.call(c, "t"), p.call(c, "t"))
			if r := p.requests(); len(r) != 1 || r[0].Issuer != cfg.Issuer || cfg.ClientID != "" && r[0].ClientID != cfg.ClientID {
				t.Errorf("%+v: got the requests %+v", cfg, r)
			}
		}
		k.counts("at the end", map[string]int{"authorize": 3, "register": 2})
	})
}

// The client id, in this order: the configured one, the address of a description where the
// server reads that, a registration that is there, a new one (AUTH-12, AUTH-30, AUTH-31).
func TestClientID(t *testing.T) {
	const document = "https://troupe.example/client.json"
	bubble(t, func(t *testing.T, k *kit) {
		described := func(o *auth.Options) {
			k.inBubble(o)
			o.ClientMetadataURL = document
		}
		ids := map[string]string{}
		login := func(name string, p *process) {
			t.Helper()
			k.set(func() { clear(k.access); clear(k.refresh) })
			k.good(p.call(p.credential(), "t"))
			ids[name] = p.requests()[len(p.requests())-1].ClientID
		}
		configured := k.another(described)
		configured.cfg.ClientID = "configured"
		login("configured", configured)
		login("not read", k.another(described))
		login("registered before", k.another(k.inBubble))
		k.set(func() { k.serverAS = map[string]any{"client_id_metadata_document_supported": true} })
		login("described", k.another(described))
		login("none published", k.another(k.inBubble))
		want := map[string]string{"configured": "configured", "described": document, "not read": ids["not read"], "registered before": ids["not read"], "none published": ids["not read"]}
		for name, id := range want {
			if ids[name] != id || id == "" {
				t.Errorf("%s: got the client id %q, want %q", name, ids[name], id)
			}
		}
		k.counts("at the end", map[string]int{"register": 1})
	})
}

// Which scopes are asked for: the configured ones, those of the challenge, those of the
// metadata, and no more (AUTH-45); offline_access where the authorization server lists it
// (AUTH-41, AUTH-44), with the consent without which OpenID Connect ignores it.
func TestScopes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(k *kit)
		want   []string
	}{
		"of the metadata":  {func(*kit) {}, []string{"read"}},
		"of the challenge": {func(k *kit) { k.challenged = "tools files" }, []string{"tools", "files"}},
		"configured":       {func(k *kit) { k.challenged, k.cfg.Scopes = "tools", []string{"mine"} }, []string{"mine"}},
		"none":             {func(k *kit) { k.cfg.Scopes = []string{} }, []string{}},
		"offline": {func(k *kit) { k.serverAS = map[string]any{"scopes_supported": []string{"x", "offline_access"}} },
			[]string{"read", "offline_access"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				test.change(k)
				k.good(k.call(k.credential(), "t"))
				if got := k.requests()[0].Scopes; !slices.Equal(got, test.want) {
					t.Errorf("got the scopes %q, want %q", got, test.want)
				}
				if offline, consent := name == "offline", strings.Contains(k.requests()[0].URL, "prompt=consent"); consent != offline {
					t.Errorf("the address asks for consent: %t, want %t", consent, offline)
				}
			})
		})
	}
}

// The parameter "resource" is left out of every request where that is configured.
func TestNoResource(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.cfg.NoResource, k.life, k.noResource = true, 60, true
		k.logsInAndRenews()
		for _, seen := range k.seen {
			if strings.Contains(seen, "resource=") {
				t.Errorf("got %q", seen)
			}
		}
	})
}

// Options without what is required, or with a client id that is no address, are refused.
func TestOptions(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		good := auth.Options{System: k.sys, Vault: k.store, Keys: [][]byte{k.key}}
		for name, change := range map[string]func(*auth.Options){
			"Vault":             func(o *auth.Options) { o.Vault = nil },
			"Keys":              func(o *auth.Options) { o.Keys = [][]byte{{1}} },
			"ClientMetadataURL": func(o *auth.Options) { o.ClientMetadataURL = "http://troupe.example/c" },
		} {
			o := good
			change(&o)
			if _, err := auth.New(o); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if _, err := k.auth.For(&mcpclient.Server{URL: "ftp://mcp.example"}); err == nil {
			t.Error("a server with another scheme: got no error")
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, k.base, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.credential().Authorize(t.Context(), req); err != nil || len(req.Header) != 0 {
			t.Errorf("a server that wants nothing: got %v, %v", req.Header, err)
		}
	})
}

// Addresses inside are contacted only where the user has named them: a peer that names one gets
// nothing (SECA-16, SECA-17).
func TestAddressesInside(t *testing.T) {
	k := loopback(t)
	for _, test := range []struct {
		endpoint, issuer, asked string
		refused                 bool
	}{
		{"https://mcp.example/mcp", "", "https://127.0.0.1:1/token", true},
		{"https://mcp.example/mcp", "", "https://10.1.2.3/token", true},
		{"https://mcp.example/mcp", "", "https://[fd00::1]/token", true},
		{"https://mcp.example/mcp", "", "http://169.254.169.254/latest/meta-data", true},
		{"https://mcp.example/mcp", "https://127.0.0.1:1", "https://127.0.0.1:1/token", false},
		{"https://mcp.example/mcp", "https://127.0.0.1:1", "http://127.0.0.1:1/token", true},
		{"http://127.0.0.1:1/mcp", "", "http://127.0.0.1:1/token", false},
		{"http://127.0.0.1:1/mcp", "", "https://10.1.2.3/token", true},
	} {
		hc, err := auth.ClientFor(k.auth, test.endpoint, &mcpclient.OAuth{Issuer: test.issuer})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := hc.Get(test.asked)
		if err == nil {
			resp.Body.Close()
		}
		if err == nil || errors.Is(err, netguard.ErrRefused) != test.refused {
			t.Errorf("%s for %s, issuer %q: got %v, want it refused: %v", test.asked, test.endpoint, test.issuer, err, test.refused)
		}
	}
}
