package auth_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// What is configured of a login takes the place of what is published: the description of the
// authorization server and of the client, the resource, and how the client proves who it is. A
// renewal uses the same (AUTH-24, AUTH-30, AUTH-31, AUTH-40).
func TestConfigured(t *testing.T) {
	for name, test := range map[string]struct {
		change func(k *kit)
		want   func(k *kit, r *requestView) bool
	}{
		"metadata": {func(k *kit) {
			k.issuers = []string{"/as2", "/as1"}
			k.cfg.MetadataURL = k.base + "/.well-known/oauth-authorization-server/as1"
		}, func(k *kit, r *requestView) bool { return r.issuer == k.base+"/as1" }},
		"metadata of a server without any": {func(k *kit) {
			k.issuers = nil
			k.cfg.MetadataURL = k.base + "/.well-known/oauth-authorization-server"
		}, func(k *kit, r *requestView) bool {
			return r.issuer == k.base && r.sent.Get("resource") == k.base+"/mcp"
		}},
		"client": {func(k *kit) {
			k.serverAS = map[string]any{"client_id_metadata_document_supported": true}
			k.cfg.ClientMetadataURL = "https://mine.example/client.json"
		}, func(k *kit, r *requestView) bool {
			return r.sent.Get("client_id") == "https://mine.example/client.json" && k.count("register") == 0
		}},
		"resource": {func(k *kit) {
			k.noResource = true
			k.cfg.Resource = "api://another"
		}, func(k *kit, r *requestView) bool { return r.sent.Get("resource") == "api://another" }},
		"no resource": {func(k *kit) {
			k.noResource = true
			k.cfg.NoResource = true
		}, func(k *kit, r *requestView) bool { return !r.sent.Has("resource") }},
		"redirect": {func(k *kit) { k.cfg.RedirectURI = "https://mine.example/done" },
			func(k *kit, r *requestView) bool { return r.sent.Get("redirect_uri") == "https://mine.example/done" }},
		"post": {func(k *kit) {
			k.cfg = mcpclient.OAuth{Issuer: k.base + "/as1", ClientID: "mine", ClientSecret: "client-secret", AuthMethod: "client_secret_post"}
			k.secret, k.posted = "client-secret", true
		}, func(k *kit, r *requestView) bool {
			return strings.Contains(strings.Join(k.seen, "\n"), "client_secret=client-secret")
		}},
		"method of a registration": {func(k *kit) { k.cfg.AuthMethod = "client_secret_basic"; k.secret = "client-secret" },
			func(k *kit, r *requestView) bool {
				return strings.Contains(k.registered[0], `"token_endpoint_auth_method":"client_secret_basic"`)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.life = 60
				test.change(k)
				c := k.credential()
				k.good(k.call(c, "t"))
				time.Sleep(time.Minute)
				k.good(k.call(c, "t"))
				k.counts("at the end", map[string]int{"authorize": 1, "refresh_token": 1})
				later := k.another(k.inBubble)
				later.cfg = k.cfg
				k.good(later.call(later.credential(), "t"))
				if n := len(later.requests()); n != 0 {
					t.Errorf("a later process asks %d times", n)
				}
				r := k.requests()[0]
				u, err := url.Parse(r.URL)
				if err != nil || !test.want(k, &requestView{r.Issuer, u.Query()}) {
					t.Errorf("got the request %+v, %v\n%s", r, err, strings.Join(k.seen, "\n"))
				}
			})
		})
	}
}

type requestView struct {
	issuer string
	sent   url.Values
}

// A configuration that contradicts itself, or names what cannot be used, is refused.
func TestConfigurationRefused(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		for want, cfg := range map[string]mcpclient.OAuth{
			"oauth.clientMetadataUrl":                                                 {ClientMetadataURL: "http://mine.example/client.json"},
			`oauth.redirectUri "http://evil.example/callback"`:                        {RedirectURI: "http://evil.example/callback"},
			`oauth.redirectUri "http://localhost.evil.example:80/"`:                   {RedirectURI: "http://localhost.evil.example:80/"},
			`oauth.redirectUri "javascript:alert(1)"`:                                 {RedirectURI: "javascript:alert(1)"},
			`oauth.redirectUri "http://u@127.0.0.1/"`:                                 {RedirectURI: "http://u@127.0.0.1/"},
			"oauth.tokenEndpointAuthMethod is none":                                   {AuthMethod: "none", ClientID: "c", ClientSecret: "s"},
			"oauth.tokenEndpointAuthMethod client_secret_post needs":                  {AuthMethod: "client_secret_post", ClientID: "c"},
			"oauth.tokenEndpointAuthMethod private_key_jwt needs":                     {AuthMethod: "private_key_jwt", ClientID: "c"},
			`oauth.tokenEndpointAuthMethod "mtls": want none, client_secret_basic, c`: {AuthMethod: "mtls"},
		} {
			if _, err := k.auth.For(&mcpclient.Server{URL: k.base + "/mcp", OAuth: cfg}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %q", cfg, err, want)
			}
		}
	})
}

// Tokens of an issuer never go to the endpoints that configured metadata names for the same
// issuer: a configuration of another hand might have written that (AUTH-34, SECA-19).
func TestConfiguredMetadataIsApart(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.life = 60
		k.good(k.call(k.credential(), "t"))
		time.Sleep(time.Minute)
		k.documents = map[string]any{"/evil.json": map[string]any{
			"issuer": k.base + "/as1", "authorization_endpoint": k.base + "/evil/authorize", "token_endpoint": k.base + "/evil/token", "registration_endpoint": k.base + "/evil/register",
			"revocation_endpoint": k.base + "/evil/revoke", "code_challenge_methods_supported": []string{"S256"},
		}}
		evil := k.another(k.inBubble)
		evil.cfg = mcpclient.OAuth{MetadataURL: k.base + "/evil.json"}
		evil.is(func(context.Context, *auth.Request) error { return errDeclined })
		if err := evil.call(evil.credential(), "t"); err == nil || len(evil.requests()) != 1 {
			t.Errorf("got %v, want that a person is asked", err)
		}
		if had, err := evil.auth.Logout(t.Context(), evil.server()); !had || err != nil {
			t.Errorf("Logout: got %v, %v", had, err)
		}
		for _, seen := range k.seen {
			if strings.HasPrefix(seen, "/evil ") && (strings.Contains(seen, "-secret-") || strings.Contains(seen, "client-as1")) {
				t.Errorf("the other endpoints were shown %s", seen)
			}
		}
	})
}

// A configured redirect address on this machine is listened at, by both addresses that a
// browser may take its name for. One whose port is taken ends the login (AUTH-06).
func TestConfiguredPort(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	for _, test := range []struct{ name, uri, says string }{
		{"taken", "http://localhost:" + port + "/done", "in use"},
		{"a name", "http://localhost:" + port + "/done", ""},
		{"an address", "http://127.0.0.1:" + port + "/done", ""},
		{"any port", "http://127.0.0.1/other", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.says == "" {
				free.Close()
			}
			k := loopback(t)
			k.cfg.RedirectURI = test.uri
			k.is(func(ctx context.Context, r *auth.Request) error {
				u, _ := url.Parse(r.URL)
				back, _ := url.Parse(u.Query().Get("redirect_uri"))
				if want, _ := url.Parse(test.uri); back.Path != want.Path || back.Hostname() != want.Hostname() || want.Port() != "" && back.Port() != want.Port() || back.Port() == "" {
					t.Errorf("got the redirect address %s, want %s", back, test.uri)
				}
				if back.Hostname() == "localhost" {
					if conn, err := net.Dial("tcp", "[::1]:"+back.Port()); err == nil {
						conn.Close()
					} else if l, bad := net.Listen("tcp", "[::1]:0"); bad == nil {
						l.Close()
						t.Errorf("no program listens at ::1: %v", err)
					}
				}
				return k.browse(ctx, r, 200)
			})
			err := k.call(k.credential(), "t")
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}
