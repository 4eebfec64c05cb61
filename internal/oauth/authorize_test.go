package oauth_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/weburl"
)

const callback = "http://127.0.0.1:4711/callback"

// begin starts an authorization, and returns it with the parameters of its address.
func begin(t *testing.T, s *oauth.Server) (*oauth.Authorization, url.Values) {
	t.Helper()
	c := &oauth.Client{Server: s, ID: "client 1", Method: oauth.AuthNone, Resource: mcpURL}
	a, err := c.Begin(callback, []string{"a", "b"}, map[string]string{"prompt": "consent"})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	return a, u.Query()
}

// The request has PKCE with S256, a state of 32 bytes, the resource and the scopes; no two are
// alike (AUTH-05, AUTH-06, AUTH-27, AUTH-40, SECA-20).
func TestBegin(t *testing.T) {
	s := server(t, map[string]any{"authorization_endpoint": "https://as.example/authorize?tenant=7"})
	a, q := begin(t, s)
	for name, want := range map[string]string{"response_type": "code", "client_id": "client 1", "redirect_uri": callback, "scope": "a b",
		"resource": mcpURL, "code_challenge_method": "S256", "prompt": "consent", "tenant": "7"} {
		if got := q[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if len(q.Get("state")) != 43 || len(q.Get("code_challenge")) != 43 || q.Get("state") == q.Get("code_challenge") {
		t.Errorf("state %q and code_challenge %q: want 32 bytes each", q.Get("state"), q.Get("code_challenge"))
	}
	if !strings.HasPrefix(a.URL, "https://as.example/authorize?tenant=7&") {
		t.Errorf("got the address %s", a.URL)
	}
	_, other := begin(t, s)
	if other.Get("state") == q.Get("state") || other.Get("code_challenge") == q.Get("code_challenge") {
		t.Error("two requests share a state or a verifier")
	}
	bare := &oauth.Client{Server: s, ID: "c", Method: oauth.AuthNone}
	if a, err := bare.Begin(callback, nil, nil); err != nil || strings.Contains(a.URL, "resource=") || strings.Contains(a.URL, "scope=") {
		t.Errorf("without resource and scopes: got %+v, %v", a, err)
	}
	for _, name := range []string{"state", "redirect_uri", "resource", "code_challenge_method", "request_uri"} {
		if _, err := bare.Begin(callback, nil, map[string]string{name: "x"}); err == nil {
			t.Errorf("an extra parameter %s: got no error", name)
		}
	}
	for _, endpoint := range []string{"https://as.example/a?client_id=evil", "https://as.example/a?%63lient_id=evil", "https://as.example/a?x=1&state=", "https://as.example/a?x;y", "https://as.example/a?redirect_uri"} {
		bare.Server = server(t, map[string]any{"authorization_endpoint": endpoint})
		if _, err := bare.Begin(callback, nil, nil); !errors.Is(err, weburl.ErrRefused) {
			t.Errorf("endpoint %s: got %v, want ErrRefused", endpoint, err)
		}
	}
	bare.Server = server(t, map[string]any{"authorization_endpoint": nil})
	if _, err := bare.Begin(callback, nil, nil); !errors.Is(err, oauth.ErrNotSupported) {
		t.Errorf("no endpoint: got %v", err)
	}
}

// A redirect counts with our state and the right issuer only; from another issuer neither the
// code nor the error is used (AUTH-06, AUTH-42, AUTH-43, SECA-17, SECA-21).
func TestFinish(t *testing.T) {
	tests := []struct {
		name       string
		advertised bool
		query      string // STATE stands for the state
		want       error  // nil is success
		code       string // of an oauth.Error
	}{
		{"a code", false, "code=CODE&state=STATE", nil, ""},
		{"a code and the issuer", true, "code=CODE&state=STATE&iss=https%3A%2F%2Fas.example", nil, ""},
		{"the issuer, though not advertised", false, "code=CODE&state=STATE&iss=https://as.example", nil, ""},
		{"advertised and absent", true, "code=CODE&state=STATE", oauth.ErrIssuer, ""},
		{"advertised and empty", true, "code=CODE&state=STATE&iss=", oauth.ErrIssuer, ""},
		{"another issuer", true, "code=CODE&state=STATE&iss=https://evil.example", oauth.ErrIssuer, ""},
		{"another issuer, not advertised", false, "code=CODE&state=STATE&iss=https://evil.example", oauth.ErrIssuer, ""},
		{"a slash more", false, "code=CODE&state=STATE&iss=https://as.example/", oauth.ErrIssuer, ""},
		{"another case", true, "code=CODE&state=STATE&iss=https://AS.example", oauth.ErrIssuer, ""},
		{"a port more", true, "code=CODE&state=STATE&iss=https://as.example:443", oauth.ErrIssuer, ""},
		{"encoded twice", true, "code=CODE&state=STATE&iss=https%253A%252F%252Fas.example", oauth.ErrIssuer, ""},
		{"two issuers", true, "code=CODE&state=STATE&iss=https://as.example&iss=https://evil.example", oauth.ErrIssuer, ""},
		{"an error of another issuer", true, "error=access_denied&error_description=secretreason&state=STATE&iss=https://evil.example", oauth.ErrIssuer, ""},
		{"an error without the issuer", true, "error=access_denied&error_description=secretreason&state=STATE", oauth.ErrIssuer, ""},
		{"an error", true, "error=access_denied&error_description=No.&state=STATE&iss=https://as.example", errAny, oauth.CodeAccessDenied},
		{"an error and a code", false, "error=access_denied&code=CODE&state=STATE", errAny, oauth.CodeAccessDenied},
		{"an error that is none", false, "error=a%0Ab%1b&error_description=%1b[31m&state=STATE", errAny, ""},
		{"no code", false, "state=STATE", errAny, ""},
		{"two codes", false, "code=CODE&code=OTHER&state=STATE", errAny, ""},
		{"a long code", false, "code=" + strings.Repeat("x", 5000) + "&state=STATE", errAny, ""},
		{"no state", false, "code=CODE", oauth.ErrForeign, ""},
		{"an empty state", false, "code=CODE&state=", oauth.ErrForeign, ""},
		{"another state", false, "code=CODE&state=STATE0", oauth.ErrForeign, ""},
		{"two states", false, "code=CODE&state=STATE&state=x", oauth.ErrForeign, ""},
		{"an error with another state", false, "error=access_denied&error_description=secretreason&state=x", oauth.ErrForeign, ""},
		{"malformed", false, "code=CODE&state=STATE&x=%zz", oauth.ErrForeign, ""},
		{"huge", false, "code=CODE&state=STATE&x=" + strings.Repeat("x", 20_000), oauth.ErrForeign, ""},
		{"nothing", false, "", oauth.ErrForeign, ""},
	}
	for _, tt := range tests {
		a, q := begin(t, server(t, map[string]any{"authorization_response_iss_parameter_supported": tt.advertised}))
		query := strings.ReplaceAll(tt.query, "STATE", q.Get("state"))
		for _, redirect := range []string{query, callback + "?" + query, " " + callback + "?" + query + "#_=_\n"} {
			code, err := a.Finish(redirect)
			switch {
			case tt.want == nil && (err != nil || code.Reveal() != "CODE"):
				t.Errorf("%s: got %v, want the code", tt.name, err)
			case tt.want != nil && (err == nil || !code.IsZero() || tt.want != errAny && !errors.Is(err, tt.want) || oauth.CodeOf(err) != tt.code):
				t.Errorf("%s: got %v, want %v %s", tt.name, err, tt.want, tt.code)
			case err != nil && (strings.Contains(err.Error(), "secretreason") || strings.ContainsAny(err.Error(), "\n\x1b") || strings.Contains(err.Error(), "CODE") || strings.Contains(err.Error(), q.Get("state"))):
				t.Errorf("%s: the error shows what it must not: %q", tt.name, err)
			}
		}
	}
}

// FuzzFinish: a redirect gives a code only with the state and the right issuer.
func FuzzFinish(f *testing.F) {
	f.Add("code=x&state=STATE&iss=https://as.example")
	f.Add("http://127.0.0.1:4711/callback?code=x&state=STATE#f")
	f.Add("error=access_denied&error_description=a%1bb&state=STATE&iss=https%3A%2F%2Fas.example")
	s := &oauth.Server{Issuer: "https://as.example", AuthorizationEndpoint: "https://as.example/a", PKCEMethods: []string{"S256"}, IssInRedirect: true}
	f.Fuzz(func(t *testing.T, redirect string) {
		a, q := begin(t, s)
		code, err := a.Finish(strings.ReplaceAll(redirect, "STATE", q.Get("state")))
		if err == nil && (code.IsZero() || !strings.Contains(redirect, "STATE") || !strings.Contains(redirect, "iss=")) {
			t.Errorf("Finish(%q): got a code", redirect)
		}
		if err != nil && strings.Contains(err.Error(), q.Get("state")) {
			t.Errorf("Finish(%q): the error has the state: %v", redirect, err)
		}
	})
}
