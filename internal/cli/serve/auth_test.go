package serve

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/mcpserver"
)

const tokenA, tokenB = "0123456789abcdef", "fedcba9876543210"

// SECA-7: each named token is a principal of its own.
func TestNamedTokens(t *testing.T) {
	f := authFlags{tokens: []string{"alice=" + tokenA, "bob=" + tokenB}}
	if err := f.settle(&config.Auth{}, true); err != nil || f.open() {
		t.Fatal(err)
	}
	var o mcpserver.HTTPOptions
	if metadata, err := f.apply(&o, slog.New(slog.DiscardHandler), nil); err != nil || metadata != nil {
		t.Fatal(metadata, err)
	}
	for header, want := range map[string]string{"Bearer " + tokenA: "token alice", "Bearer " + tokenB: "token bob", "Bearer " + tokenA + "x": "", "": ""} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", header)
		p, err := o.Authenticate(r)
		if want == "" && (err == nil || p != nil) || want != "" && (err != nil || p.ID != want) {
			t.Errorf("%q: got %+v, %v, want %q", header, p, err, want)
		}
	}
}

// AUTH-20: with an issuer the metadata is served, requests without a token are sent there, and
// the host of the resource is let in.
func TestAuthIssuer(t *testing.T) {
	f := authFlags{issuer: "https://login.example", resource: "https://mcp.example/mcp", scopes: []string{"mcp"}, tools: []string{"files__*=files:read,files:write"}}
	if err := f.settle(&config.Auth{}, true); err != nil || f.open() {
		t.Fatal(err)
	}
	var o mcpserver.HTTPOptions
	metadata, err := f.apply(&o, slog.New(slog.DiscardHandler), nil)
	if err != nil || !slices.Contains(o.AllowedHosts, "mcp.example") || len(o.ScopeRules) != 1 || len(o.ScopeRules[0].Scopes) != 2 {
		t.Fatalf("got %+v, %v", o, err)
	}
	w := httptest.NewRecorder()
	metadata.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/oauth-protected-resource/mcp", nil))
	if !strings.Contains(w.Body.String(), `"https://login.example"`) {
		t.Errorf("the metadata is %d %s", w.Code, w.Body)
	}
	_, err = o.Authenticate(httptest.NewRequest(http.MethodPost, "/mcp", nil))
	if e, ok := errors.AsType[*mcpserver.AuthError](err); !ok || e.Status != http.StatusUnauthorized || !strings.Contains(e.Challenge, "https://mcp.example/.well-known/oauth-protected-resource/mcp") {
		t.Errorf("without a token: got %v", err)
	}
}

// The configuration says what flags do not. What it has for its issuer goes to no other.
func TestAuthConfigured(t *testing.T) {
	c := config.Auth{
		Type: "oauth", Issuer: "https://login.example", Resource: "https://mcp.example/mcp", Scopes: []string{"mcp"},
		Tools: map[string][]string{"b*": {"b"}, "a*": {"a"}}, ClientID: "troupe", ClientSecret: config.NewKey("a secret"),
	}
	for _, tt := range []struct {
		name  string
		flags authFlags
		want  authFlags
	}{
		{"no flags", authFlags{}, authFlags{issuer: c.Issuer, resource: c.Resource, scopes: c.Scopes, introspect: "troupe", secret: "a secret",
			rules: []mcpserver.ScopeRule{{Name: "a*", Scopes: []string{"a"}}, {Name: "b*", Scopes: []string{"b"}}}}},
		{"some flags", authFlags{resource: "https://other.example/mcp", tools: []string{"c=c,d"}}, authFlags{issuer: c.Issuer, resource: "https://other.example/mcp",
			tools: []string{"c=c,d"}, scopes: c.Scopes, introspect: "troupe", secret: "a secret", rules: []mcpserver.ScopeRule{{Name: "c", Scopes: []string{"c", "d"}}}}},
		{"another issuer", authFlags{issuer: "https://other.example", tools: []string{"c=c"}, scopes: []string{}}, authFlags{issuer: "https://other.example", resource: c.Resource,
			tools: []string{"c=c"}, scopes: []string{}, rules: []mcpserver.ScopeRule{{Name: "c", Scopes: []string{"c"}}}}},
		{"another client", authFlags{introspect: "other", tools: []string{"c=c"}}, authFlags{issuer: c.Issuer, resource: c.Resource, scopes: c.Scopes, introspect: "other",
			tools: []string{"c=c"}, rules: []mcpserver.ScopeRule{{Name: "c", Scopes: []string{"c"}}}}},
	} {
		if err := tt.flags.settle(&c, true); err != nil || !reflect.DeepEqual(tt.flags, tt.want) {
			t.Errorf("%s: got %+v, %v, want %+v", tt.name, tt.flags, err, tt.want)
		}
	}
	c.MaxLife, c.ClientSubjects, c.RetryPublic = time.Hour, new(true), new(true)
	same, other := authFlags{}, authFlags{issuer: "https://other.example", maxLife: time.Minute}
	if err := errors.Join(same.settle(&c, true), other.settle(&c, true)); err != nil || same.maxLife != time.Hour || !same.subjects || other.maxLife != time.Minute || other.subjects {
		t.Errorf("lives and subjects: got %+v and %+v, %v", same, other, err)
	}
	c = config.Auth{Type: "oauth", Users: "users.txt", Scopes: []string{"mcp"}, RetryPublic: new(true)}
	embedded, flags := authFlags{}, authFlags{issuer: "https://login.example", resource: "https://mcp.example/mcp"}
	if err := embedded.settle(&c, true); err != nil || !embedded.embedded || embedded.users != "users.txt" || !slices.Equal(embedded.scopes, c.Scopes) || !embedded.retryPublic {
		t.Errorf("with users: got %+v, %v", embedded, err)
	}
	if err := flags.settle(&c, true); err != nil || flags.embedded || flags.users != "" {
		t.Errorf("with users, and an issuer by flag: got %+v, %v", flags, err)
	}
	provider := authFlags{embeddedFlags: embeddedFlags{embedded: true, login: "https://login.example", client: "troupe"}}
	if err := provider.settle(&c, true); err != nil || provider.users != "" {
		t.Errorf("with users, and a provider by flag: got %+v, %v", provider, err)
	}
	tokens := authFlags{tokens: []string{tokenA}}
	if err := tokens.settle(&c, true); err != nil || tokens.issuer != "" || tokens.named.Empty() {
		t.Errorf("with --token: got %+v, %v", tokens, err)
	}
}

func TestAuthFlags(t *testing.T) {
	for _, tt := range []struct {
		f    authFlags
		want string
	}{
		{authFlags{issuer: "https://login.example"}, "belong together"},
		{authFlags{resource: "https://mcp.example/mcp"}, "belong together"},
		{authFlags{scopes: []string{"mcp"}}, "need --auth-issuer"},
		{authFlags{subjects: true}, "need --auth-issuer"},
		{authFlags{maxLife: time.Hour}, "need --auth-issuer"},
		{authFlags{maxLife: -time.Hour}, "--auth-max-life"},
		{authFlags{embeddedFlags: embeddedFlags{retryPublic: true}}, "need --auth-embedded"},
		{authFlags{issuer: "https://login.example", resource: "https://mcp.example/mcp", tokens: []string{tokenA}}, "exclude each other"},
		{authFlags{issuer: "ftp://login.example", resource: "https://mcp.example/mcp"}, "--auth-issuer"},
		{authFlags{issuer: "https://login.example", resource: "https://mcp.example/mcp", tools: []string{"x"}}, "--auth-tool"},
		{authFlags{tokens: []string{"alice=" + tokenA, "alice=" + tokenB}}, "two tokens"},
		{authFlags{tokens: []string{"short"}}, "a token has"},
	} {
		err := tt.f.settle(&config.Auth{}, true)
		if err == nil {
			_, err = tt.f.apply(new(mcpserver.HTTPOptions), slog.New(slog.DiscardHandler), nil)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || env.ExitCode(err) != env.ExitUsage {
			t.Errorf("%+v: got %v, want a usage error with %q", tt.f, err, tt.want)
		}
	}
}

// SECA-33: limits are for the address that a proxy near this machine saw, if the operator has said that
// there is one; no client chooses another. What is not believed is logged once.
func TestAddressOf(t *testing.T) {
	var log strings.Builder
	alone := (&webServer{}).addressOf(slog.New(slog.NewTextHandler(&log, nil)))
	proxied := (&webServer{proxied: true}).addressOf(slog.New(slog.DiscardHandler))
	for _, tt := range []struct{ from, forwarded, want string }{
		{"127.0.0.1:1", "198.51.100.7", "198.51.100.7"},
		{"10.0.0.2:1", "6.6.6.6, 198.51.100.7", "198.51.100.7"},
		{"[::1]:1", "2001:db8::7", "2001:db8::7"},
		{"203.0.113.5:1", "198.51.100.7", "203.0.113.5"},
		{"127.0.0.1:1", "nonsense", "127.0.0.1"},
		{"127.0.0.1:1", "", "127.0.0.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tt.from
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if got := proxied(r); got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
		if got, _, _ := net.SplitHostPort(tt.from); alone(r) != got {
			t.Errorf("%+v without a proxy: got %q", tt, alone(r))
		}
	}
	if strings.Count(log.String(), "--behind-proxy") != 1 {
		t.Errorf("the log: %s", log.String())
	}
}
