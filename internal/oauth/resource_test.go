package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
)

const mcpURL = "https://api.example/v1/mcp"

// The address of the challenge comes first, if it may be asked, then the path-inserted one,
// then the root (AUTH-21, SECA-15, SECA-16).
func TestResourceAddresses(t *testing.T) {
	const inserted, root = "https://api.example/.well-known/oauth-protected-resource/v1/mcp", "https://api.example/.well-known/oauth-protected-resource"
	tests := []struct {
		url, challenged string
		want            []string
	}{
		{mcpURL, "", []string{inserted, root}},
		{"https://API.example:443/v1/mcp?tenant=7", "", []string{inserted, root}},
		{"https://api.example", "", []string{root}},
		{"https://api.example/", "", []string{root}},
		{"https://api.example/mcp/", "", []string{root + "/mcp", root}},
		{mcpURL, "https://api.example/prm", []string{"https://api.example/prm", inserted, root}},
		{mcpURL, "https://meta.example/prm", []string{"https://meta.example/prm", inserted, root}},
		{mcpURL, inserted, []string{inserted, root}},
		{mcpURL, "http://api.example/prm", []string{inserted, root}},
		{mcpURL, "http://127.0.0.1/prm", []string{inserted, root}},
		{mcpURL, "https://localhost/prm", []string{inserted, root}},
		{mcpURL, "https://a.localhost./prm", []string{inserted, root}},
		{mcpURL, "https://[::1]/prm", []string{inserted, root}},
		{mcpURL, "https://user:pw@api.example/prm", []string{inserted, root}},
		{mcpURL, "javascript:alert(1)", []string{inserted, root}},
		{mcpURL, "file:///etc/passwd", []string{inserted, root}},
		{mcpURL, "/prm", []string{inserted, root}},
		{mcpURL, "https://api.example/p\x01rm", []string{inserted, root}},
		{mcpURL, "https://api.example/prm#x", []string{inserted, root}},
		{mcpURL, "https://" + strings.Repeat("a", 9000), []string{inserted, root}},
		{"http://localhost:3000/mcp", "http://127.0.0.1:4000/prm", []string{"http://127.0.0.1:4000/prm",
			"http://localhost:3000/.well-known/oauth-protected-resource/mcp", "http://localhost:3000/.well-known/oauth-protected-resource"}},
		{"http://localhost:3000/mcp", "http://api.example/prm", []string{
			"http://localhost:3000/.well-known/oauth-protected-resource/mcp", "http://localhost:3000/.well-known/oauth-protected-resource"}},
		{"http://api.example/mcp", "", nil},
		{"https://u@api.example/mcp", "", nil},
		{"https://api.example/a/../mcp", "", nil},
		{"ftp://api.example/mcp", "", nil},
	}
	for _, tt := range tests {
		got, err := oauth.ResourceAddresses(tt.url, tt.challenged)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("ResourceAddresses(%.60q, %.60q): got %q, %v, want %q", tt.url, tt.challenged, got, err, tt.want)
		}
	}
}

// A resource is the MCP server, or above it at the same origin; otherwise nothing goes on
// (AUTH-23, SECA-18).
func TestCovers(t *testing.T) {
	tests := []struct {
		resource, url string
		ok            bool
	}{
		{mcpURL, mcpURL, true},
		{"https://api.example/v1/mcp/", mcpURL, true},
		{"https://api.example/v1/", mcpURL, true},
		{"https://api.example/v1", mcpURL, true},
		{"https://api.example", mcpURL, true},
		{"https://api.example/", mcpURL, true},
		{"HTTPS://API.Example:443/v1/mcp", mcpURL, true},
		{mcpURL, mcpURL + "?tenant=7", true},
		{mcpURL + "?tenant=7", mcpURL + "?tenant=7", true},
		{"http://127.0.0.1:3000/mcp", "http://127.0.0.1:3000/mcp", true},
		{mcpURL + "?tenant=8", mcpURL + "?tenant=7", false},
		{mcpURL + "?tenant=7", mcpURL, false},
		{"https://api.example/v1/mc", mcpURL, false},
		{"https://api.example/v1/mcp/more", mcpURL, false},
		{"https://api.example/v2", mcpURL, false},
		{"https://api.example/V1/mcp", mcpURL, false},
		{"https://api.example/v1/mcp/..", mcpURL, false},
		{"https://api.example/v1/%2e%2e/v1/mcp", mcpURL, false},
		{"https://api.example:8443/v1/mcp", mcpURL, false},
		{"http://api.example/v1/mcp", mcpURL, false},
		{"https://evil.example/v1/mcp", mcpURL, false},
		{"https://api.example.evil.example/v1/mcp", mcpURL, false},
		{"https://api.example@evil.example/v1/mcp", mcpURL, false},
		{"https://user@api.example/v1/mcp", mcpURL, false},
		{mcpURL + "#x", mcpURL, false},
		{"urn:example:api", mcpURL, false},
		{"/v1/mcp", mcpURL, false},
		{"", mcpURL, false},
	}
	for _, tt := range tests {
		err := oauth.Covers(tt.resource, tt.url)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, oauth.ErrOtherResource) {
			t.Errorf("Covers(%q, %q): got %v, want ok=%v", tt.resource, tt.url, err, tt.ok)
		}
	}
}

// The resource that is sent is canonical (AUTH-40).
func TestCanonicalResource(t *testing.T) {
	for in, want := range map[string]string{
		"HTTPS://API.example:443/v1/Mcp#frag": "https://api.example/v1/Mcp",
		"https://api.example/":                "https://api.example",
		"https://api.example":                 "https://api.example",
		"https://api.example/mcp?a=b":         "https://api.example/mcp?a=b",
		"http://localhost:3000/mcp":           "http://localhost:3000/mcp",
	} {
		if got, err := oauth.CanonicalResource(in); got != want || err != nil {
			t.Errorf("CanonicalResource(%q): got %q, %v, want %q", in, got, err, want)
		}
	}
	if got, err := oauth.CanonicalResource("http://api.example/mcp"); err == nil {
		t.Errorf("without encryption: got %q, want an error", got)
	}
}

// Metadata is read from the first place that has it, is strict and bounded, and a place in
// trouble does not count as one without metadata, which would permit a downgrade (AUTH-20,
// AUTH-21, AUTH-28, SECA-4, SECA-18).
func TestFetchResource(t *testing.T) {
	const challenged = "https://api.example/prm"
	const inserted, root = "https://api.example/.well-known/oauth-protected-resource/v1/mcp", "https://api.example/.well-known/oauth-protected-resource"
	good := doc(map[string]any{"resource": mcpURL, "authorization_servers": []string{"https://as.example"}, "scopes_supported": []string{"a", "b\"", "a"},
		"resource_name": "A\x1b[31m name", "unknown": map[string]any{"deep": 1}})
	page := text(http.StatusOK, "<html>welcome</html>")
	type pages = map[string]http.HandlerFunc
	tests := []struct {
		name  string
		pages pages
		down  map[string]error
		asked []string
		want  error // nil is success; errAny any other than ErrNoMetadata
	}{
		{"of the challenge", pages{challenged: good}, nil, []string{challenged}, nil},
		{"path-inserted", pages{inserted: good}, nil, []string{challenged, inserted}, nil},
		{"at the root", pages{root: good}, nil, []string{challenged, inserted, root}, nil},
		{"a page for every address", pages{challenged: page, inserted: page, root: good}, nil, []string{challenged, inserted, root}, nil},
		{"nowhere", nil, nil, []string{challenged, inserted, root}, oauth.ErrNoMetadata},
		{"pages only", pages{challenged: page, inserted: page, root: page}, nil, []string{challenged, inserted, root}, oauth.ErrNoMetadata},
		{"a redirect is not followed", pages{challenged: http.RedirectHandler("http://169.254.169.254/", http.StatusFound).ServeHTTP}, nil, []string{challenged, inserted, root}, oauth.ErrNoMetadata},
		{"in trouble", pages{challenged: text(503, "")}, nil, []string{challenged, inserted, root}, errAny},
		{"in trouble, and found elsewhere", pages{challenged: text(503, ""), inserted: good}, nil, []string{challenged, inserted}, nil},
		{"out of reach", nil, map[string]error{"api.example": errors.New("no route")}, []string{challenged, inserted, root}, errAny},
		{"of another resource", pages{challenged: doc(map[string]any{"resource": "https://victim.example/mcp", "authorization_servers": []string{"https://as.example"}}), inserted: good},
			nil, []string{challenged}, oauth.ErrOtherResource},
		{"no resource", pages{challenged: doc(map[string]any{"authorization_servers": []string{"https://as.example"}})}, nil, []string{challenged}, oauth.ErrOtherResource},
		{"a member twice", pages{challenged: text(200, `{"resource":"`+mcpURL+`","resource":"https://evil.example"}`)}, nil, []string{challenged}, oauth.ErrMalformed},
		{"not UTF-8", pages{challenged: text(200, "{\"resource\":\"\xff\"}")}, nil, []string{challenged}, oauth.ErrMalformed},
		{"deep", pages{challenged: text(200, `{"x":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`}`)}, nil, []string{challenged}, oauth.ErrMalformed},
		{"of another type", pages{challenged: text(200, `{"resource":1}`)}, nil, []string{challenged}, oauth.ErrMalformed},
		{"more behind it", pages{challenged: text(200, `{"resource":"`+mcpURL+`"} {}`)}, nil, []string{challenged}, oauth.ErrMalformed},
		{"huge", pages{challenged: text(200, `{"x":"`+strings.Repeat("x", 70_000)+`"}`)}, nil, []string{challenged, inserted, root}, netguard.ErrTooLarge},
		{"10,000 servers", pages{challenged: text(200, `{"resource":"`+mcpURL+`","authorization_servers":[`+strings.Repeat(`"",`, 9999)+`""]}`)}, nil, []string{challenged}, oauth.ErrMalformed},
	}
	for _, tt := range tests {
		w := &web{pages: tt.pages, down: tt.down}
		r, err := oauth.FetchResource(t.Context(), w.client(), mcpURL, challenged)
		var asked []string
		for _, at := range tt.asked {
			asked = append(asked, "GET "+at)
		}
		w.took(t, asked...)
		switch {
		case tt.want == nil && err != nil, tt.want == errAny && (err == nil || errors.Is(err, oauth.ErrNoMetadata)),
			tt.want != nil && tt.want != errAny && !errors.Is(err, tt.want):
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		case err != nil && (len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\x1b\x00")):
			t.Errorf("%s: the error is not fit to be shown: %q", tt.name, err)
		case err == nil && (r.URI != mcpURL || !slices.Equal(r.Servers, []string{"https://as.example"}) || !slices.Equal(r.Scopes, []string{"a"}) || r.Name != "A name"):
			t.Errorf("%s: got %+v", tt.name, r)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &web{}
	if _, err := oauth.FetchResource(ctx, w.client(), mcpURL, challenged); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	w.took(t, "GET "+challenged)
}

// errAny stands for any error but ErrNoMetadata.
var errAny = errors.New("any error")
