package console_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// The hosts of these tests, and what is a part of every secret of the provider: it must be seen nowhere.
const (
	deskHost     = "https://console.example"
	providerHost = "https://login.example"
	planted      = "pl4nted"
)

type object = map[string]any

// provider is an OpenID provider.
type provider struct {
	mu     sync.Mutex // guards the fields below, of goroutines of requests
	n      int
	asked  url.Values // of the last authorization request
	codes  map[string]url.Values
	claims object                                   // beside, or in place of, those of a good ID token
	token  func(id string) string                   // makes the ID token another one
	answer func(w http.ResponseWriter) bool         // answers at the token endpoint, in place of it
	back   func(q url.Values)                       // changes what the browser brings back
	meta   func(http.ResponseWriter, *http.Request) // answers for the metadata, in place of it
}

func (p *provider) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	meta := p.meta
	p.mu.Unlock()
	if meta != nil && strings.HasPrefix(r.URL.Path, "/.well-known/") {
		meta(w, r) // it may wait
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = r.ParseForm()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	p.n++
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		answer(200, object{"issuer": providerHost, "authorization_endpoint": providerHost + "/authorize", "token_endpoint": providerHost + "/token",
			"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true})
	case "/authorize":
		code := fmt.Sprintf("code-%s-%d", planted, p.n)
		p.asked, p.codes[code] = r.Form, r.Form
		q := url.Values{"code": {code}, "state": {r.Form.Get("state")}, "iss": {providerHost}}
		if p.back != nil {
			p.back(q)
		}
		http.Redirect(w, r, r.Form.Get("redirect_uri")+"?"+q.Encode(), http.StatusFound)
	case "/token":
		q := p.codes[r.Form.Get("code")]
		delete(p.codes, r.Form.Get("code"))
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		id, secret, _ := r.BasicAuth()
		switch {
		case p.answer != nil && p.answer(w):
		case id != "troupe" || secret != planted:
			answer(401, object{"error": "invalid_client"})
		case q == nil || r.Form.Get("redirect_uri") != q.Get("redirect_uri") || q.Get("code_challenge_method") != "S256" ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge"):
			answer(400, object{"error": "invalid_grant"})
		default:
			claims := object{"iss": providerHost, "sub": "u-1", "aud": "troupe", "exp": time.Now().Add(time.Minute).Unix(), "nonce": q.Get("nonce"),
				"email": "alice@corp.example", "email_verified": true, "groups": []string{"admins"}}
			maps.Copy(claims, p.claims)
			token := idToken(`{"alg":"RS256"}`, claims)
			if p.token != nil {
				token = p.token(token)
			}
			answer(200, object{"access_token": "access-" + planted, "token_type": "Bearer", "id_token": token})
		}
	default:
		http.NotFound(w, r)
	}
}

func idToken(head string, claims object) string {
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(head)) + "." + encode(body) + "." + encode([]byte(planted))
}

// site is a console behind a proxy that serves https, with people of a provider; it needs no network.
type site struct {
	t        *testing.T
	store    *memstore.Store
	console  *console.Console
	provider *provider
	log      bytes.Buffer
}

// RoundTrip implements [http.RoundTripper].
func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1"
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out := httptest.NewRecorder()
	switch "https://" + in.Host {
	case deskHost:
		s.console.ServeHTTP(out, in)
	case providerHost:
		s.provider.ServeHTTP(out, in)
	default:
		s.t.Errorf("a request goes to %s", r.URL)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	res := out.Result()
	res.Request = r
	return res, nil
}

func newSite(t *testing.T, change func(*console.OIDCOptions)) *site {
	t.Helper()
	s := &site{t: t, store: memstore.New(nil), provider: &provider{codes: make(map[string]url.Values)}}
	o := console.OIDCOptions{Issuer: providerHost, ClientID: "troupe", ClientSecret: planted, Scopes: []string{"email"}, Address: deskHost,
		Roles: map[string]console.Role{"viewers": console.Viewer, "clerks": console.Answerer, "admins": console.Operator}, HTTP: &http.Client{Transport: s}}
	if change != nil {
		change(&o)
	}
	var err error
	if s.console, err = console.New(&console.Options{Store: s.store, Login: console.OIDC(o), HTTPS: true, Hosts: []string{"console.example"},
		Logger: slog.New(slog.NewTextHandler(&s.log, nil))}); err != nil {
		t.Fatal(err)
	}
	return s
}

// guest is a browser that follows no redirect by itself.
type guest struct {
	*site
	http *http.Client
}

func (s *site) guest() *guest {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &guest{s, &http.Client{Jar: jar, Transport: s, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// send makes a request, with a form for a POST, and returns where the answer leads to.
func (g *guest) send(at string, form url.Values) (status int, location, page string) {
	g.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(g.t.Context(), method, at, strings.NewReader(form.Encode()))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := g.http.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		g.t.Fatal(err)
	}
	if to, err := res.Location(); err == nil {
		location = to.String()
	}
	return res.StatusCode, location, body.String()
}

// begins begins a login, and returns where at the provider the browser is sent.
func (g *guest) begins() string {
	g.t.Helper()
	status, at, _ := g.send(deskHost+"/login?back=/runs", nil)
	if status != http.StatusFound || !strings.HasPrefix(at, providerHost+"/authorize?") {
		g.t.Fatalf("the begin of a login: %d to %q", status, at)
	}
	return at
}

// callback is the address by which the provider sends the browser back.
func (g *guest) callback() string {
	g.t.Helper()
	_, at, _ := g.send(g.begins(), nil)
	if !strings.HasPrefix(at, deskHost+"/login/callback?") {
		g.t.Fatalf("the provider sends the browser to %q", at)
	}
	return at
}

// isIn reports whether the browser is logged in.
func (g *guest) isIn() bool {
	g.t.Helper()
	status, _, _ := g.send(deskHost+"/runs", nil)
	return status == http.StatusOK
}

func (g *guest) session() string {
	at, err := url.Parse(deskHost)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, c := range g.http.Jar.Cookies(at) {
		if c.Name == "__Host-troupe-console-0" {
			return c.Value
		}
	}
	return ""
}

// keeps sets the session's cookie.
func (g *guest) keeps(session string) {
	at, err := url.Parse(deskHost)
	if err != nil {
		g.t.Fatal(err)
	}
	g.http.Jar.SetCookies(at, []*http.Cookie{{Name: "__Host-troupe-console-0", Value: session, Path: "/", Secure: true}})
}

// isRefused checks that a callback logs no browser in, and that the log says why.
func (g *guest) isRefused(name, callback, why string) {
	g.t.Helper()
	g.log.Reset()
	status, _, page := g.send(callback, nil)
	if status != http.StatusBadGateway || !strings.Contains(page, "The login did not succeed") || g.session() != "" || g.isIn() {
		g.t.Errorf("%s: got %d, with the session %q", name, status, g.session())
	}
	if log := g.log.String(); !strings.Contains(log, why) || strings.Contains(log, planted) || strings.Contains(page, planted) {
		g.t.Errorf("%s: the log does not say %q, or has a secret: %s", name, why, log)
	}
}

// TestOIDC: a person logs in at a provider, by PKCE with S256, a state and a nonce. The session is a new one, answers are
// recorded by the verified address, and logging out ends it.
func TestOIDC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil)
		if s.console.LoginPath() != "/login" {
			t.Errorf("the login link is %q", s.console.LoginPath())
		}
		g := s.guest()
		g.keeps(planted)
		status, at, _ := g.send(deskHost+"/runs?state=failed", nil)
		if status != http.StatusSeeOther || at != deskHost+"/login?back=%2Fruns%3Fstate%3Dfailed" {
			t.Fatalf("a stranger: %d to %q", status, at)
		}
		_, at, _ = g.send(at, nil)
		_, at, _ = g.send(at, nil)
		s.provider.set(func() {
			q := s.provider.asked
			for name, want := range map[string]string{"response_type": "code", "client_id": "troupe", "redirect_uri": deskHost + "/login/callback", "code_challenge_method": "S256", "scope": "openid email"} {
				if q.Get(name) != want {
					t.Errorf("%s is %q, want %q", name, q.Get(name), want)
				}
			}
			for _, name := range []string{"state", "nonce", "code_challenge"} {
				if len(q.Get(name)) < 40 {
					t.Errorf("%s is %q, want a secret", name, q.Get(name))
				}
			}
		})
		status, to, _ := g.send(at, nil)
		if status != http.StatusSeeOther || to != deskHost+"/runs?state=failed" || !g.isIn() {
			t.Fatalf("after the login: %d to %q\n%s", status, to, &s.log)
		}
		first := g.session()
		if first == planted {
			t.Error("the session is the one that was planted")
		}
		d := &desk{t: t, store: s.store}
		d.newRun("r")
		d.openCall("a")
		_, _, page := g.send(deskHost+"/inbox/a", nil)
		if status, _, _ := g.send(deskHost+"/inbox/a", url.Values{"hash": {hash(t, page)}, "do": {"accept"}}); status != http.StatusSeeOther {
			t.Errorf("an answer: %d", status)
		}
		if a, err := s.store.Ask(t.Context(), "a"); err != nil || a.Status != store.AskAccepted || a.By != "console:alice@corp.example" {
			t.Errorf("got %s by %q, %v", a.Status, a.By, err)
		}
		// The same callback again.
		if status, _, _ := g.send(at, nil); status != http.StatusBadGateway || g.session() != first || !strings.Contains(s.log.String(), "no login was begun in this browser") {
			t.Errorf("a callback that was used: %d\n%s", status, &s.log)
		}
		// Another login of this browser ends its first session, and logging out the second one.
		if g.send(g.callback(), nil); g.session() == first || !g.isIn() {
			t.Error("another login has no session of its own")
		}
		second := g.session()
		if status, _, _ := g.send(deskHost+"/logout", url.Values{}); status != http.StatusOK || g.session() != "" || g.isIn() {
			t.Errorf("logging out: %d", status)
		}
		for name, session := range map[string]string{"planted": planted, "before another login": first, "before logging out": second} {
			if g.keeps(session); g.isIn() {
				t.Errorf("the session %s counts", name)
			}
		}
		// A session has its end.
		g.send(g.callback(), nil)
		time.Sleep(12*time.Hour - time.Second)
		if !g.isIn() {
			t.Error("a session ends before its time")
		}
		if time.Sleep(time.Second); g.isIn() {
			t.Error("a session does not end")
		}
		if strings.Contains(s.log.String(), planted) {
			t.Errorf("the log has a secret: %s", &s.log)
		}
	})
}

// SECA-17, SECA-24: a callback counts in the browser that has begun the login, once, for ten minutes, and as it is.
func TestOIDCIsOfItsBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil)
		mallory := s.guest()
		back := mallory.callback()
		s.guest().isRefused("a browser that has begun nothing", back, "no login was begun in this browser")
		victim := s.guest()
		victim.begins()
		victim.isRefused("a browser that has begun its own", back, "does not belong to this authorization")
		state := func(value string) string {
			u, err := url.Parse(back)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			q["state"] = []string{value}
			u.RawQuery = q.Encode()
			return u.String()
		}
		for _, tt := range []struct{ name, back, why string }{
			{"another state", state("x"), "does not belong"},
			{"no state", state(""), "does not belong"},
			{"two states", back + "&state=x", "does not belong"},
			{"another issuer (RFC 9207)", strings.Replace(back, "iss=", "iss=x", 1), "x" + providerHost},
			{"no issuer", strings.Replace(back, "iss=", "x=", 1), "does not say of which"},
			{"no code", strings.Replace(back, "code=", "x=", 1), "neither a code nor an error"},
			{"another code", strings.Replace(back, "code=", "code=x", 1), "invalid_grant"},
			{"a code without end", strings.Replace(back, "code=", "code="+strings.Repeat("x", 5000), 1), "the code has more than"},
			{"nothing", deskHost + "/login/callback", "does not belong"},
		} {
			mallory.isRefused(tt.name, tt.back, tt.why)
		}
		if status, _, _ := mallory.send(back, nil); status != http.StatusSeeOther || !mallory.isIn() {
			t.Errorf("the browser itself: %d", status)
		}
		late := s.guest()
		back = late.callback()
		at, err := url.Parse(deskHost)
		if err != nil {
			t.Fatal(err)
		}
		kept := late.http.Jar.Cookies(at)
		time.Sleep(10 * time.Minute)
		for _, c := range kept { // by a browser that does not forget them
			c.Path, c.Secure = "/", true
		}
		late.http.Jar.SetCookies(at, kept)
		late.isRefused("after ten minutes", back, "no login was begun")
		if status, _, _ := s.guest().send(s.guest().callback(), url.Values{}); status != http.StatusNotFound {
			t.Errorf("a POST to the callback: %d", status)
		}
		if status, _, _ := s.guest().send(deskHost+"/login", url.Values{"user": {"a"}, "password": {"b"}}); status != http.StatusNotFound {
			t.Errorf("a POST of a password: %d", status)
		}
	})
}

// SECA-17: an ID token counts as it has to be (OpenID Connect Core section 3.1.3.7), and what a provider answers else logs
// no browser in. A login that is refused can be begun again.
func TestOIDCRefused(t *testing.T) {
	respond := func(status int, body string) func(p *provider) {
		return func(p *provider) {
			p.answer = func(w http.ResponseWriter) bool {
				w.WriteHeader(status)
				_, err := w.Write([]byte(body))
				return err == nil
			}
		}
	}
	claim := func(name string, value any) func(p *provider) {
		return func(p *provider) { p.claims = object{name: value} }
	}
	token := func(f func(parts []string) []string) func(p *provider) {
		return func(p *provider) {
			p.token = func(id string) string { return strings.Join(f(strings.Split(id, ".")), ".") }
		}
	}
	head := func(text string) func(p *provider) {
		return token(func(parts []string) []string {
			return []string{base64.RawURLEncoding.EncodeToString([]byte(text)), parts[1], parts[2]}
		})
	}
	denied := func(p *provider) {
		p.back = func(q url.Values) {
			q.Del("code")
			q["error"], q["error_description"] = []string{"access_denied"}, []string{"You\x1b[2J may not"}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*provider)
		why    string
	}{
		{"another nonce", claim("nonce", "x"), "answers another login"},
		{"no nonce", claim("nonce", nil), "answers another login"},
		{"another audience", claim("aud", "another"), "for another client"},
		{"no audience", claim("aud", []string{}), "for another client"},
		{"an audience that is a number", claim("aud", 1), "malformed"},
		{"two audiences", claim("aud", []string{"troupe", "another"}), "for another client"},
		{"another issuer", claim("iss", "https://evil.example"), "the ID token: "},
		{"an issuer with a slash more", claim("iss", providerHost+"/"), "the ID token: "},
		{"expired", claim("exp", 946684800-61), "has expired"},
		{"expired long ago", claim("exp", -1e300), "has expired"},
		{"no end", claim("exp", nil), "has expired"},
		{"an end that is none", claim("exp", "soon"), "malformed"},
		{"no subject", claim("sub", ""), "no subject"},
		{"a subject without end", claim("sub", strings.Repeat("x", 256)), "no subject"},
		{"a subject that shows something else", func(p *provider) { p.claims = object{"sub": "a\u202eb", "email": nil} }, "cannot be shown"},
		{"an address of two lines", claim("email", "a\nb"), "cannot be shown"},
		{"a claim that is a number", claim("groups", 1), "neither a text nor a list"},
		{"alg none", head(`{"alg":"none"}`), "is not signed"},
		{"alg NONE", head(`{"alg":"NONE"}`), "is not signed"},
		{"a header that is none", head(`x`), "malformed"},
		{"no signature", token(func(parts []string) []string { return []string{parts[0], parts[1], ""} }), "is not signed"},
		{"two parts", token(func(parts []string) []string { return parts[:2] }), "no ID token"},
		{"a body that is none", token(func(parts []string) []string { return []string{parts[0], "%", parts[2]} }), "malformed"},
		{"a body that is a list", token(func(parts []string) []string { return []string{parts[0], "W10", parts[2]} }), "malformed"},
		{"no ID token", func(p *provider) { p.token = func(string) string { return "" } }, "no ID token"},
		{"an ID token without end", func(p *provider) { p.token = func(id string) string { return id + strings.Repeat("x", 40<<10) } }, "id_token is too long"},
		{"the person declines", denied, "access_denied"},
		{"garbage", respond(200, "<html>"), "it is not one JSON object"},
		{"nothing", respond(200, ""), "it is not one JSON object"},
		{"too much", respond(200, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`), "reading the answer of login.example"},
		{"no token", respond(200, `{"token_type":"Bearer"}`), "no access_token"},
		{"a token of another type", respond(200, `{"access_token":"x","token_type":"mac"}`), "token_type"},
		{"an error with 200", respond(200, `{"error":"invalid_grant"}`), "invalid_grant"},
		{"trouble", respond(503, "down"), "503"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil)
				tt.change(s.provider)
				g := s.guest()
				g.isRefused(tt.name, g.callback(), tt.why)
				if strings.ContainsAny(s.log.String(), "\x1b\u202e") {
					t.Errorf("the log moves the cursor: %s", &s.log)
				}
				s.provider.set(func() { s.provider.claims, s.provider.token, s.provider.answer, s.provider.back = nil, nil, nil, nil })
				if status, _, _ := g.send(g.callback(), nil); status != http.StatusSeeOther || !g.isIn() {
					t.Errorf("another login: %d", status)
				}
			})
		})
	}
}

// TestOIDCDown: of a provider that does not answer, or not with its metadata, a browser learns within half a minute;
// an hour later at the latest it is asked again.
func TestOIDCDown(t *testing.T) {
	plain := func(status int, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	document := func(issuer, authorize, challenge string) func(http.ResponseWriter, *http.Request) {
		return plain(200, fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"code_challenge_methods_supported":[%q]}`, issuer, authorize, providerHost+"/token", challenge))
	}
	for name, meta := range map[string]func(http.ResponseWriter, *http.Request){
		"trouble":         plain(503, ""),
		"no metadata":     plain(404, ""),
		"garbage":         plain(200, "{"),
		"too much":        plain(200, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`),
		"no answer":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"another issuer":  document("https://evil.example", providerHost+"/authorize", "S256"),
		"no PKCE":         document(providerHost, providerHost+"/authorize", "plain"),
		"a script":        document(providerHost, "javascript:alert(1)", "S256"),
		"of this machine": document(providerHost, "http://127.0.0.1/authorize", "S256"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil)
				s.provider.meta = meta
				g := s.guest()
				begun := time.Now()
				status, _, page := g.send(deskHost+"/login", nil)
				if status != http.StatusBadGateway || !strings.Contains(page, "The login did not succeed") || !strings.Contains(s.log.String(), "login.example") && !strings.Contains(s.log.String(), "S256") {
					t.Errorf("got %d\n%s", status, &s.log)
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("the browser waits %v", took)
				}
				s.provider.set(func() { s.provider.meta = nil })
				if name == "no PKCE" { // which its metadata says
					time.Sleep(time.Hour)
				}
				if status, _, _ := g.send(g.callback(), nil); status != http.StatusSeeOther || !g.isIn() {
					t.Errorf("when the provider is up again: %d", status)
				}
			})
		})
	}
}

// TestOIDCRoles: the claim says what a person may do; the highest value counts, and without any the person is not let in.
func TestOIDCRoles(t *testing.T) {
	all := func(o *console.OIDCOptions) { o.Roles["*"] = console.Viewer }
	for _, tt := range []struct {
		name   string
		change func(*console.OIDCOptions)
		claims object
		want   console.Role
		who    string
	}{
		{"a list", nil, object{"groups": []string{"staff", "clerks", "viewers"}}, console.Answerer, "alice@corp.example"},
		{"a text", nil, object{"groups": "viewers"}, console.Viewer, "alice@corp.example"},
		{"no value that is known", nil, object{"groups": []string{"staff", "Admins", "admins ", ""}}, console.Stranger, "alice@corp.example"},
		{"no claim", nil, object{"groups": nil}, console.Stranger, "alice@corp.example"},
		{"the value of all is not known", nil, object{"groups": []string{"*"}}, console.Stranger, "alice@corp.example"},
		{"all", all, object{"groups": nil}, console.Viewer, "alice@corp.example"},
		{"all, and a group", all, object{"groups": "admins"}, console.Operator, "alice@corp.example"},
		{"another claim", func(o *console.OIDCOptions) { o.Claim = "roles" }, object{"roles": "clerks"}, console.Answerer, "alice@corp.example"},
		{"an address that is not verified", nil, object{"email_verified": false}, console.Operator, "u-1"},
		{"an address that is verified by a text", nil, object{"email_verified": "true"}, console.Operator, "u-1"},
		{"two audiences for this client", nil, object{"aud": []string{"another", "troupe"}, "azp": "troupe"}, console.Operator, "alice@corp.example"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, tt.change)
				s.provider.claims = tt.claims
				g := s.guest()
				status, _, page := g.send(g.callback(), nil)
				if want := map[bool]int{true: http.StatusForbidden, false: http.StatusSeeOther}[tt.want == console.Stranger]; status != want || want == http.StatusForbidden && !strings.Contains(page, tt.who) {
					t.Errorf("the login: got %d, want %d\n%s", status, want, page)
				}
				if !strings.Contains(s.log.String(), "name="+tt.who+" ") {
					t.Errorf("the log does not say %q: %s", tt.who, &s.log)
				}
				d := &desk{t: t, store: s.store}
				d.newRun("r")
				d.openCall("a")
				got := console.Stranger
				for role, may := range []func() int{
					func() int { status, _, _ := g.send(deskHost+"/inbox/a", nil); return status },
					func() int { status, _, _ := g.send(deskHost+"/inbox/a", url.Values{"hash": {"x"}}); return status },
					func() int { status, _, _ := g.send(deskHost+"/jobs", url.Values{}); return status },
				} {
					if status := may(); !slices.Contains([]int{http.StatusSeeOther, http.StatusUnauthorized, http.StatusForbidden}, status) {
						got = console.Role(role + 1)
					}
				}
				if got != tt.want {
					t.Errorf("got the role %d, want %d", got, tt.want)
				}
			})
		})
	}
}

// TestOIDCOptions: what would let in people who are not meant, or sends them elsewhere, is refused before it is served.
func TestOIDCOptions(t *testing.T) {
	for name, change := range map[string]func(*console.OIDCOptions){
		"no client":                   func(o *console.OIDCOptions) { o.ClientID = "" },
		"no roles":                    func(o *console.OIDCOptions) { o.Roles = nil },
		"no address":                  func(o *console.OIDCOptions) { o.Address = "" },
		"an address without https":    func(o *console.OIDCOptions) { o.Address = "http://console.example" },
		"no issuer":                   func(o *console.OIDCOptions) { o.Issuer = "" },
		"an issuer without https":     func(o *console.OIDCOptions) { o.Issuer = "http://login.example" },
		"an issuer with a query":      func(o *console.OIDCOptions) { o.Issuer = providerHost + "/?x" },
		"an issuer of this machine":   func(o *console.OIDCOptions) { o.Issuer = "http://127.0.0.1:9" },
		"an address that is a script": func(o *console.OIDCOptions) { o.Address = "javascript:alert(1)" },
	} {
		o := console.OIDCOptions{Issuer: providerHost, ClientID: "troupe", Address: deskHost, Roles: map[string]console.Role{"admins": console.Operator}}
		change(&o)
		if _, err := console.New(&console.Options{Store: memstore.New(nil), Login: console.OIDC(o)}); err == nil || !strings.Contains(err.Error(), "OIDCOptions") {
			t.Errorf("%s: got %v, want an error of OIDCOptions", name, err)
		}
	}
}
