package oauth_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
)

// fakeAS is an MCP server and its authorization server on this machine, as strict as they may
// be. It grants everything at once.
type fakeAS struct {
	t        *testing.T
	base     string
	client   string
	code     url.Values // the request behind the code
	refresh  string
	requests []string
}

func (f *fakeAS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.requests = append(f.requests, r.Method+" "+r.URL.Path)
	issuer, resource := f.base+"/tenant1", f.base+"/mcp"
	switch r.URL.Path {
	case "/mcp":
		w.Header().Add("WWW-Authenticate", `Basic realm="x"`)
		w.Header().Add("WWW-Authenticate", `Bearer scope="tools:read", resource_metadata="`+f.base+`/prm"`)
		w.WriteHeader(http.StatusUnauthorized)
	case "/prm":
		answerJSON(w, 200, map[string]any{"resource": resource, "authorization_servers": []string{issuer}})
	case "/tenant1/.well-known/openid-configuration":
		answerJSON(w, 200, map[string]any{"issuer": issuer, "authorization_endpoint": f.base + "/authorize", "token_endpoint": f.base + "/token", "registration_endpoint": f.base + "/register",
			"code_challenge_methods_supported": []string{"plain", "S256"}, "authorization_response_iss_parameter_supported": true, "token_endpoint_auth_methods_supported": []string{"none"}})
	case "/register":
		f.client = "client-1"
		answerJSON(w, 201, map[string]any{"client_id": f.client, "redirect_uris": []string{callback}, "token_endpoint_auth_method": "none"})
	case "/authorize":
		f.code = r.URL.Query()
		if f.code.Get("client_id") != f.client || f.code.Get("resource") != resource || f.code.Get("code_challenge_method") != "S256" || f.code.Get("redirect_uri") != callback {
			f.t.Errorf("got the authorization request %v", f.code)
		}
		back := url.Values{"code": {"the-code"}, "state": {f.code.Get("state")}, "iss": {issuer}}
		http.Redirect(w, r, callback+"?"+back.Encode(), http.StatusFound)
	case "/token":
		f.token(w, r, resource)
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeAS) token(w http.ResponseWriter, r *http.Request, resource string) {
	if err := r.ParseForm(); err != nil || r.PostForm.Get("resource") != resource || r.PostForm.Get("client_id") != f.client {
		f.t.Errorf("got the token request %v", r.PostForm)
	}
	good := false
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		good = r.PostForm.Get("code") == "the-code" && challengeOf(r.PostForm.Get("code_verifier")) == f.code.Get("code_challenge") && r.PostForm.Get("redirect_uri") == callback
	case "refresh_token":
		good = f.refresh != "" && r.PostForm.Get("refresh_token") == f.refresh
	}
	if !good {
		answerJSON(w, 400, map[string]string{"error": "invalid_grant"})
		return
	}
	f.refresh += "R"
	answerJSON(w, 200, map[string]any{"access_token": "AT" + f.refresh, "token_type": "Bearer", "expires_in": 5, "refresh_token": f.refresh})
}

// The whole way from a refusal to a token and to the next one, over a guarded client
// (AUTH-15, AUTH-21, AUTH-25, AUTH-40, AUTH-42).
func TestFlow(t *testing.T) {
	f := &fakeAS{t: t}
	web := httptest.NewServer(f)
	defer web.Close()
	f.base = web.URL
	mcp := f.base + "/mcp"
	g, err := netguard.New(&netguard.Options{Loopback: oauth.OnLoopback(mcp)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, hc := t.Context(), g.Client(nil)
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	get := func(at string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		check("the request", err)
		resp, err := hc.Do(req)
		check("GET "+at, err)
		resp.Body.Close()
		return resp
	}
	refused := oauth.ParseChallenges(get(mcp).Header.Values("WWW-Authenticate"))
	r, err := oauth.FetchResource(ctx, hc, mcp, refused.ResourceMetadata())
	check("FetchResource", err)
	s, err := oauth.FetchServer(ctx, hc, r.Servers[0], oauth.OnLoopback(mcp))
	check("FetchServer", err)
	reg, err := oauth.Register(ctx, hc, s, native(), oauth.Secret{})
	check("Register", err)
	c := &oauth.Client{Server: s, ID: reg.ID, Method: reg.Method, Secret: reg.Secret, Resource: r.URI}
	a, err := c.Begin(callback, refused.Scopes(), nil)
	check("Begin", err)
	code, err := a.Finish(get(a.URL).Header.Get("Location"))
	check("Finish", err)
	tok, err := c.Token(ctx, hc, oauth.CodeGrant(a, code), "")
	check("the code", err)
	next, err := c.Token(ctx, hc, oauth.RefreshGrant(tok.Refresh, nil), "")
	check("the refresh", err)
	if tok.Access.Reveal() != "ATR" || next.Access.Reveal() != "ATRR" || f.code.Get("scope") != "tools:read" {
		t.Errorf("got %q and %q, with the scope %q", tok.Access.Reveal(), next.Access.Reveal(), f.code.Get("scope"))
	}
	if _, err := c.Token(ctx, hc, oauth.RefreshGrant(tok.Refresh, nil), ""); oauth.CodeOf(err) != oauth.CodeInvalidGrant || oauth.Temporary(err) {
		t.Errorf("a refresh token used twice: got %v", err)
	}
	want := []string{"GET /mcp", "GET /prm", "GET /.well-known/oauth-authorization-server/tenant1", "GET /.well-known/openid-configuration/tenant1",
		"GET /tenant1/.well-known/openid-configuration", "POST /register", "GET /authorize", "POST /token", "POST /token", "POST /token"}
	if !slices.Equal(f.requests, want) {
		t.Errorf("got the requests %q, want %q", f.requests, want)
	}
}
