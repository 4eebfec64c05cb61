package authserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcpserver/auth"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
	"github.com/troupe-dev/troupe/store/memstore"
)

// AUTH-10, AUTH-11, AUTH-25, AUTH-26, AUTH-46: the metadata is at each place where a client looks for
// it, and an issuer without a path has its endpoints where clients of 2025-03-26 expect them.
func TestMetadata(t *testing.T) {
	for base, places := range map[string][]string{
		issuer:              {"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"},
		issuer + "/tenant1": {"/.well-known/oauth-authorization-server/tenant1", "/.well-known/openid-configuration/tenant1", "/tenant1/.well-known/openid-configuration"},
	} {
		w := newWorld(t, func(o *authserver.Options) { o.Issuer = base })
		b := w.browser("")
		for _, place := range places {
			p := b.get(issuer + place)
			var d struct {
				Issuer    string   `json:"issuer"`
				Authorize string   `json:"authorization_endpoint"`
				Token     string   `json:"token_endpoint"`
				Register  string   `json:"registration_endpoint"`
				PKCE      []string `json:"code_challenge_methods_supported"`
				Iss       bool     `json:"authorization_response_iss_parameter_supported"`
				Documents bool     `json:"client_id_metadata_document_supported"`
			}
			if err := json.Unmarshal([]byte(p.body), &d); err != nil || p.status != http.StatusOK || p.header.Get("Content-Type") != "application/json" {
				t.Fatalf("%s: %d %v %s", place, p.status, err, p.body)
			}
			if d.Issuer != base || d.Authorize != base+"/authorize" || d.Token != base+"/token" || d.Register != base+"/register" || !slices.Equal(d.PKCE, []string{"S256"}) || !d.Iss || !d.Documents {
				t.Errorf("%s: got %+v", place, d)
			}
			if p := b.do(http.MethodOptions, issuer+place, nil); p.status != http.StatusNoContent || p.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s: OPTIONS: %d %v", place, p.status, p.header)
			}
		}
		for _, name := range []string{"token", "register", "revoke"} {
			if p := b.get(base + "/" + name); p.status != http.StatusMethodNotAllowed {
				t.Errorf("GET %s: %d", name, p.status)
			}
		}
	}
}

// AUTH-25, AUTH-50, SECA-1: a resource server in another process finds the keys by HTTP. On this
// machine the server answers to names of this machine only.
func TestAnotherProcess(t *testing.T) {
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	defer web.Close()
	as, err := authserver.New(t.Context(), authserver.Options{
		Issuer: web.URL, Resources: []string{resource}, Login: authserver.LoginFunc(byCookie), Store: memstore.New(nil), Keys: [][]byte{testKey},
		Clients: []authserver.Client{{ID: "app", RedirectURIs: []string{callback}, Secret: "the secret of app"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	as.Mount(mux)
	c := &http.Client{Jar: must(cookiejar.New(nil)), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.Jar.SetCookies(must(url.Parse(web.URL)), []*http.Cookie{{Name: "user", Value: "alice"}})
	send := func(r *http.Request) page {
		t.Helper()
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw := make([]byte, 64<<10)
		n, _ := resp.Body.Read(raw)
		return page{resp.StatusCode, resp.Header, string(raw[:n])}
	}
	post := func(path string, form url.Values) page {
		r := must(http.NewRequest(http.MethodPost, web.URL+path, strings.NewReader(form.Encode())))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if path == "/token" {
			r.SetBasicAuth("app", url.QueryEscape("the secret of app"))
		}
		return send(r)
	}
	p := send(must(http.NewRequest(http.MethodGet, strings.Replace(ask("app", nil), issuer, web.URL, 1), nil)))
	_, q := post("/authorize", url.Values{"token": {p.token()}, "do": {"allow"}}).location()
	form := redeem("", q.Get("code"), url.Values{"client_id": nil})
	p = post("/token", form)
	var answer struct {
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(p.body), &answer); err != nil || answer.Access == "" {
		t.Fatalf("%d %s", p.status, p.body)
	}
	rs := must(auth.New(auth.Options{Resource: resource, Issuers: []auth.Issuer{{URL: web.URL}}}))
	r := must(http.NewRequest(http.MethodPost, resource, nil))
	r.Header.Set("Authorization", "Bearer "+answer.Access)
	if who, err := rs.Authenticate(r); err != nil || who.Subject != "alice" || who.ClientID != "app" {
		t.Errorf("got %+v, %v", who, err)
	}
	r = must(http.NewRequest(http.MethodGet, web.URL+"/login", nil))
	r.Host = "evil.example"
	if p := send(r); p.status != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %d", p.status)
	}
}

// FuzzAuthorize: whatever the address is, the browser is sent to the client's own address or
// nowhere, and nothing fails.
func FuzzAuthorize(f *testing.F) {
	_, good, _ := strings.Cut(ask("app", nil), "?")
	for _, seed := range []string{"", good, good + "&state=y", strings.Replace(good, "127.0.0.1", "evil.example", 1), "client_id=app&redirect_uri=%00", good + "&%gh&&=&redirect_uri=x", "client_id=https://a.example/b"} {
		f.Add(seed)
	}
	as, err := authserver.New(f.Context(), authserver.Options{
		Issuer: issuer, Resources: []string{resource}, Scopes: []string{"mcp"}, Login: authserver.LoginFunc(byCookie), Store: memstore.New(nil), Keys: [][]byte{testKey}, NoDocuments: true,
		Clients: []authserver.Client{{ID: "app", RedirectURIs: []string{callback, "https://app.example/cb?x=1"}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, issuer+"/authorize", nil)
		r.URL.RawQuery = query
		r.AddCookie(&http.Cookie{Name: "user", Value: "alice"})
		w := httptest.NewRecorder()
		as.ServeHTTP(w, r)
		to := w.Header().Get("Location")
		u, err := url.Parse(to)
		if w.Code >= 500 || err != nil || to != "" && !strings.HasPrefix(to, "https://app.example/cb?x=1&") && (u.Hostname() != "127.0.0.1" || u.Path != "/callback" || u.Scheme != "http" || u.User != nil) {
			t.Errorf("%q: got %d and a redirect to %q", query, w.Code, to)
		}
		if to != "" && (u.Query().Get("iss") != issuer || u.Query().Has("code") || u.Query().Get("error") == "") {
			t.Errorf("%q: sent to %q", query, to)
		}
	})
}

// FuzzEndpoints: whatever a client sends, no endpoint fails, nor gives a token.
func FuzzEndpoints(f *testing.F) {
	for _, seed := range []string{"", "grant_type=authorization_code&client_id=app&code=x", "grant_type=refresh_token&client_id=app&refresh_token=AWK", `{"redirect_uris":["http://127.0.0.1/cb"]}`, `{"redirect_uris":["` + strings.Repeat("x", 2000) + `"]}`, "token=eyJhbGciOiJFUzI1NiJ9.e30.AA&client_id=app", "%gh"} {
		f.Add(seed)
	}
	as, err := authserver.New(f.Context(), authserver.Options{
		Issuer: issuer, Resources: []string{resource}, Login: authserver.LoginFunc(byCookie), Store: memstore.New(nil), Keys: [][]byte{testKey}, NoDocuments: true,
		Clients: []authserver.Client{{ID: "app", RedirectURIs: []string{callback}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, name := range []string{"token", "revoke", "register"} {
			r := httptest.NewRequest(http.MethodPost, issuer+"/"+name, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			as.ServeHTTP(w, r)
			if w.Code >= 500 || strings.Contains(w.Body.String(), "access_token") || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s %q: got %d %s", name, body, w.Code, w.Body)
			}
		}
	})
}
