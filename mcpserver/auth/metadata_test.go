package auth_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpserver/auth"
)

// AUTH-20, AUTH-21, AUTH-44, AUTH-45: each endpoint has a document at its own path, the only
// one at the root too, and our client finds and understands it.
func TestMetadata(t *testing.T) {
	p := newIDP(login)
	one := p.server(t, func(o *auth.Options) { o.Name = "The \"Server\"" })
	two := p.server(t, func(o *auth.Options) {
		o.Resource, o.Scopes.Supported = "https://api.example.com/other/mcp", []string{"a", "b"}
	})
	root := p.server(t, func(o *auth.Options) { o.Resource = "https://api.example.com" })
	get := func(h http.Handler, method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "https://api.example.com"+path, nil))
		return w
	}
	const well = "/.well-known/oauth-protected-resource"
	for _, tt := range []struct {
		of       []*auth.ResourceServer
		path     string
		resource string // "" for none
	}{
		{[]*auth.ResourceServer{one}, well + "/mcp", resource},
		{[]*auth.ResourceServer{one}, well, resource},
		{[]*auth.ResourceServer{one}, well + "/", ""},
		{[]*auth.ResourceServer{one}, well + "/mcp/", ""},
		{[]*auth.ResourceServer{one}, well + "/other", ""},
		{[]*auth.ResourceServer{one, two}, well + "/mcp", resource},
		{[]*auth.ResourceServer{one, two}, well + "/other/mcp", "https://api.example.com/other/mcp"},
		{[]*auth.ResourceServer{one, two}, well, ""},
		{[]*auth.ResourceServer{root, two}, well, "https://api.example.com"},
	} {
		got := get(auth.Metadata(tt.of...), http.MethodGet, tt.path)
		var d struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Methods  []string `json:"bearer_methods_supported"`
		}
		if tt.resource == "" {
			if got.Code != http.StatusNotFound {
				t.Errorf("%s of %d: got %d, want 404", tt.path, len(tt.of), got.Code)
			}
			continue
		}
		if err := json.Unmarshal(got.Body.Bytes(), &d); err != nil || got.Code != http.StatusOK || d.Resource != tt.resource ||
			!slices.Equal(d.Servers, []string{login}) || !slices.Equal(d.Methods, []string{"header"}) || got.Header().Get("Content-Type") != "application/json" ||
			got.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s of %d: got %d %s, %v", tt.path, len(tt.of), got.Code, got.Body, err)
		}
	}
	h := auth.Metadata(one)
	if got := get(h, http.MethodPost, well).Code; got != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d", got)
	}
	if got := get(h, http.MethodOptions, well).Code; got != http.StatusNoContent {
		t.Errorf("OPTIONS: got %d", got)
	}
	hc := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		resp := get(auth.Metadata(one, two), r.Method, r.URL.EscapedPath()).Result()
		resp.Request = r
		return resp, nil
	})}
	for _, challenged := range []string{"", metadata} {
		got, err := oauth.FetchResource(t.Context(), hc, resource, challenged)
		if err != nil || got.URI != resource || !slices.Equal(got.Scopes, []string{"mcp"}) || got.Name == "" {
			t.Errorf("our client: got %+v, %v", got, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
