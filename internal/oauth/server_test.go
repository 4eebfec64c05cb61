package oauth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/weburl"
)

// The metadata of an issuer is looked for in the order of the specification and nowhere else
// (AUTH-25).
func TestServerAddresses(t *testing.T) {
	tests := []struct {
		issuer   string
		loopback bool
		want     []string
	}{
		{"https://as.example", false, []string{"https://as.example/.well-known/oauth-authorization-server", "https://as.example/.well-known/openid-configuration"}},
		{"https://as.example/", false, []string{"https://as.example/.well-known/oauth-authorization-server", "https://as.example/.well-known/openid-configuration"}},
		{"https://as.example/t/a", false, []string{"https://as.example/.well-known/oauth-authorization-server/t/a",
			"https://as.example/.well-known/openid-configuration/t/a", "https://as.example/t/a/.well-known/openid-configuration"}},
		{"http://localhost:3001/t", true, []string{"http://localhost:3001/.well-known/oauth-authorization-server/t",
			"http://localhost:3001/.well-known/openid-configuration/t", "http://localhost:3001/t/.well-known/openid-configuration"}},
		{"http://localhost:3001", false, nil},
		{"https://127.0.0.1", false, nil},
		{"http://as.example", true, nil},
		{"https://as.example?x=1", false, nil},
		{"https://as.example?", false, nil},
		{"https://as.example#x", false, nil},
		{"https://u@as.example", false, nil},
		{"https://as.example/a/../b", false, nil},
		{"https://as.example/%2E%2E/b", false, nil},
		{"javascript:alert(1)", false, nil},
		{"", false, nil},
	}
	for _, tt := range tests {
		got, err := oauth.ServerAddresses(tt.issuer, tt.loopback)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("ServerAddresses(%q): got %q, %v, want %q", tt.issuer, got, err, tt.want)
		}
	}
}

// The issuer in the metadata is the one it was asked for, byte by byte (AUTH-26, SECA-17).
func TestIssuer(t *testing.T) {
	for _, tt := range []struct {
		asked, says string
		ok          bool
	}{
		{"https://as.example/t", "https://as.example/t", true},
		{"https://as.example/t", "https://as.example/t/", false},
		{"https://as.example/t/", "https://as.example/t", false},
		{"https://as.example/t", "https://AS.example/t", false},
		{"https://as.example/t", "https://as.example:443/t", false},
		{"https://as.example/t", "https://as.example/%74", false},
		{"https://as.example/t", "https://evil.example/t", false},
		{"https://as.example/t", "", false},
	} {
		w := &web{pages: map[string]http.HandlerFunc{"https://as.example/.well-known/oauth-authorization-server/t": doc(metadata(tt.says, nil)),
			"https://as.example/.well-known/openid-configuration/t": doc(metadata(tt.asked, nil))}}
		s, err := oauth.FetchServer(t.Context(), w.client(), tt.asked, false)
		w.took(t, "GET https://as.example/.well-known/oauth-authorization-server/t")
		if tt.ok && (err != nil || s.Issuer != tt.asked) || !tt.ok && !errors.Is(err, oauth.ErrIssuer) && !errors.Is(err, weburl.ErrRefused) {
			t.Errorf("asked for %q, says %q: got %v, want ok=%v", tt.asked, tt.says, err, tt.ok)
		}
	}
}

// Metadata at a configured address has the configured issuer, or any (AUTH-26).
func TestConfiguredMetadata(t *testing.T) {
	const at = "https://meta.example/as.json"
	for _, tt := range []struct {
		asked, says string
		ok          bool
	}{
		{"https://as.example", "https://as.example", true},
		{"", "https://as.example", true},
		{"https://as.example", "https://as.example/", false},
		{"", "", false},
	} {
		w := &web{pages: map[string]http.HandlerFunc{at: doc(metadata(tt.says, map[string]any{"authorization_endpoint": nil, "token_endpoint": "https://as.example/t", "registration_endpoint": nil,
			"revocation_endpoint": nil, "device_authorization_endpoint": nil}))}}
		s, err := oauth.FetchServerAt(t.Context(), w.client(), at, tt.asked, false)
		w.took(t, "GET "+at)
		if tt.ok && (err != nil || s.Issuer != tt.says || s.From != at) || !tt.ok && !errors.Is(err, oauth.ErrIssuer) {
			t.Errorf("asked for %q, says %q: got %+v, %v, want ok=%v", tt.asked, tt.says, s, err, tt.ok)
		}
	}
	if _, err := oauth.FetchServerAt(t.Context(), new(web).client(), "http://meta.example/", "", false); !errors.Is(err, weburl.ErrRefused) {
		t.Errorf("without encryption: got %v, want ErrRefused", err)
	}
}

// Endpoints that lead elsewhere than https, or to this machine though the MCP server is not on
// it, make the metadata useless (SECA-15, SECA-16).
func TestEndpoints(t *testing.T) {
	for _, bad := range []string{"http://as.example/x", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https://u:p@as.example/", "/authorize", "https://127.0.0.1/x",
		"http://localhost/x", "https://[::1]/x", "https://2130706433/x", "https://as.example/x#y", "https://as.example/\n", "https://as.example\\@evil.example/", "$(touch x)", "-h"} {
		for _, name := range []string{"authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint", "device_authorization_endpoint", "jwks_uri"} {
			w := &web{pages: map[string]http.HandlerFunc{"https://as.example/.well-known/oauth-authorization-server": doc(metadata("https://as.example", map[string]any{name: bad}))}}
			if s, err := oauth.FetchServer(t.Context(), w.client(), "https://as.example", false); !errors.Is(err, weburl.ErrRefused) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s is %q: got %+v, %v, want ErrRefused", name, bad, s, err)
			}
		}
	}
	w := &web{pages: map[string]http.HandlerFunc{"https://as.example/.well-known/oauth-authorization-server": doc(metadata("https://as.example", map[string]any{"token_endpoint": nil}))}}
	if _, err := oauth.FetchServer(t.Context(), w.client(), "https://as.example", false); !errors.Is(err, oauth.ErrMalformed) {
		t.Errorf("no token_endpoint: got %v", err)
	}
}

// PKCE with S256 is in the metadata, or no authorization is asked for (AUTH-27, SECA-20).
func TestPKCEIsRequired(t *testing.T) {
	for name, methods := range map[string]any{"absent": nil, "empty": []string{}, "plain": []string{"plain"}} {
		c := &oauth.Client{Server: server(t, map[string]any{"code_challenge_methods_supported": methods}), ID: "c", Method: oauth.AuthNone}
		if _, err := c.Begin("http://127.0.0.1/callback", nil, nil); !errors.Is(err, oauth.ErrNoPKCE) {
			t.Errorf("%s: got %v, want ErrNoPKCE", name, err)
		}
	}
}

// A server of 2025-03-26 has its metadata at its origin, without path and query, or the default
// endpoints there; trouble is no reason to use these (AUTH-10, AUTH-11, AUTH-28).
func TestLegacyServer(t *testing.T) {
	const at, base = "https://api.example/.well-known/oauth-authorization-server", "https://api.example"
	tests := []struct {
		name, endpoint string // of tokens
		page           http.HandlerFunc
		want           error
	}{
		{"metadata", base + "/token", doc(metadata(base, map[string]any{"code_challenge_methods_supported": nil})), nil},
		{"a slash more", base + "/token", doc(metadata(base+"/", nil)), nil},
		{"endpoints elsewhere", base + "/oauth/token", doc(metadata(base, map[string]any{"token_endpoint": base + "/oauth/token"})), nil},
		{"no metadata", base + "/token", nil, nil},
		{"another issuer", "", doc(metadata("https://evil.example", nil)), oauth.ErrIssuer},
		{"in trouble", "", text(502, ""), errAny},
	}
	for _, tt := range tests {
		w := &web{pages: map[string]http.HandlerFunc{}}
		if tt.page != nil {
			w.pages[at] = func(rw http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("MCP-Protocol-Version"); got != "2025-03-26" {
					t.Errorf("MCP-Protocol-Version: got %q", got)
				}
				tt.page(rw, r)
			}
		}
		s, err := oauth.FetchLegacyServer(t.Context(), w.client(), mcpURL+"?tenant=7", "2025-03-26")
		w.took(t, "GET "+at)
		if tt.want != nil {
			if err == nil || tt.want != errAny && !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
			}
			continue
		}
		if err != nil || s.TokenEndpoint != tt.endpoint || !s.Legacy {
			t.Errorf("%s: got %+v, %v", tt.name, s, err)
			continue
		}
		if _, err := (&oauth.Client{Server: s, ID: "c", Method: oauth.AuthNone}).Begin("http://127.0.0.1/", nil, nil); err != nil {
			t.Errorf("%s: Begin: %v", tt.name, err)
		}
	}
	w := &web{}
	s, err := oauth.FetchLegacyServer(t.Context(), w.client(), mcpURL, "2025-03-26")
	if err != nil || s.AuthorizationEndpoint != base+"/authorize" || s.RegistrationEndpoint != base+"/register" || s.Issuer != base {
		t.Errorf("default endpoints: got %+v, %v", s, err)
	}
	w = &web{pages: map[string]http.HandlerFunc{at: doc(metadata(base, map[string]any{"code_challenge_methods_supported": []string{"plain"}}))}}
	if s, err = oauth.FetchLegacyServer(t.Context(), w.client(), mcpURL, "2025-03-26"); err != nil {
		t.Fatal(err)
	}
	if _, err := (&oauth.Client{Server: s, ID: "c", Method: oauth.AuthNone}).Begin("http://127.0.0.1/", nil, nil); !errors.Is(err, oauth.ErrNoPKCE) {
		t.Errorf("plain only: got %v, want ErrNoPKCE", err)
	}
}

// With the guard's client nothing inside is contacted, whichever document names it (SECA-16).
func TestFetchesAreGuarded(t *testing.T) {
	reached := 0
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer inside.Close()
	g, err := netguard.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	hc := g.Client(nil)
	for _, host := range []string{"10.0.0.1", "169.254.169.254", "192.168.1.1", "[fd00::1]", "[64:ff9b::7f00:1]"} {
		issuer := "https://" + host
		if _, err := oauth.FetchServer(t.Context(), hc, issuer, false); !errors.Is(err, netguard.ErrRefused) || oauth.Temporary(err) {
			t.Errorf("issuer %s: got %v, want ErrRefused", issuer, err)
		}
		if _, err := oauth.FetchMetadata(t.Context(), hc, issuer+"/client.json"); !errors.Is(err, netguard.ErrRefused) {
			t.Errorf("client id at %s: got %v, want ErrRefused", issuer, err)
		}
		if _, err := oauth.FetchResource(t.Context(), hc, issuer+"/mcp", ""); !errors.Is(err, netguard.ErrRefused) {
			t.Errorf("resource at %s: got %v, want ErrRefused", issuer, err)
		}
		c := &oauth.Client{Server: &oauth.Server{Issuer: issuer, TokenEndpoint: issuer + "/token"}, ID: "c", Method: oauth.AuthNone}
		if _, err := c.Token(t.Context(), hc, oauth.ClientGrant(nil), ""); !errors.Is(err, netguard.ErrRefused) {
			t.Errorf("token endpoint at %s: got %v, want ErrRefused", issuer, err)
		}
	}
	// What is on this machine is for MCP servers on it.
	if _, err := oauth.FetchServer(t.Context(), hc, inside.URL, true); !errors.Is(err, netguard.ErrRefused) || reached > 0 {
		t.Errorf("an issuer on this machine: got %v, and %d requests arrived", err, reached)
	}
}

// FuzzMetadata: metadata that passes has the issuer it was asked for and endpoints of https.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"issuer":"https://as.example","authorization_endpoint":"https://as.example/a","token_endpoint":"https://as.example/t","code_challenge_methods_supported":["S256"],"resource":"https://api.example/v1/mcp"}`))
	f.Add([]byte(`{"issuer":"https://as.example","token_endpoint":"https://x@as.example/t"}`))
	f.Add([]byte(`{"resource":"https://api.example/","authorization_servers":["https://as.example",""],"scopes_supported":["a b"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		page := text(http.StatusOK, string(body))
		w := &web{pages: map[string]http.HandlerFunc{"https://as.example/.well-known/oauth-authorization-server": page,
			"https://api.example/.well-known/oauth-protected-resource/v1/mcp": page, "https://api.example/client.json": page}}
		if s, err := oauth.FetchServer(t.Context(), w.client(), "https://as.example", false); err == nil {
			if s.Issuer != "https://as.example" {
				t.Errorf("issuer %q", s.Issuer)
			}
			for _, e := range []string{s.AuthorizationEndpoint, s.TokenEndpoint, s.RegistrationEndpoint, s.RevocationEndpoint, s.DeviceEndpoint, s.JWKS} {
				if e != "" && (!strings.HasPrefix(e, "https://") || strings.ContainsAny(e, " \x00\r\n#")) {
					t.Errorf("endpoint %q", e)
				}
			}
		}
		if r, err := oauth.FetchResource(t.Context(), w.client(), mcpURL, ""); err == nil && !strings.HasPrefix(strings.ToLower(r.URI), "https://api.example") {
			t.Errorf("resource %q", r.URI)
		}
		if m, err := oauth.FetchMetadata(t.Context(), w.client(), "https://api.example/client.json"); err == nil && m.ClientID != "https://api.example/client.json" {
			t.Errorf("client id %q", m.ClientID)
		}
	})
}
