package authserver_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

const (
	issuer   = "https://mcp.example.com"
	resource = issuer + "/mcp"
	callback = "http://127.0.0.1:7777/callback"
	verifier = "a-verifier-of-forty-three-characters-at-least"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func challenge(of string) string {
	sum := sha256.Sum256([]byte(of))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// internet is a network of handlers, by host. Requests are carried out where they are made.
type internet struct {
	mu    sync.Mutex // guards the fields below, of goroutines of requests
	hosts map[string]http.Handler
	count map[string]int
	from  string
}

func (n *internet) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	h := n.hosts[r.URL.Host]
	n.count[r.URL.String()]++
	from := n.from
	n.mu.Unlock()
	if h == nil {
		return nil, fmt.Errorf("no such host: %s", r.URL.Host)
	}
	in := r.Clone(r.Context())
	in.Host, in.RequestURI, in.RemoteAddr = r.URL.Host, r.URL.RequestURI(), from+":1"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, in)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func (n *internet) asked(at string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[at]
}

// logs is a writer that several goroutines use.
type logs struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is an authorization server with what is around it.
type world struct {
	*testing.T
	net   *internet
	store store.Store
	opts  authserver.Options
	as    *authserver.Server
	rs    *auth.ResourceServer
	log   *logs
}

var testKey = []byte("0123456789abcdef0123456789abcdef")

// byCookie is a login by the cookie "user".
func byCookie(r *http.Request) (string, bool) {
	c, err := r.Cookie("user")
	if err != nil {
		return "", false
	}
	return c.Value, true
}

func newWorld(t *testing.T, change func(*authserver.Options)) *world {
	t.Helper()
	w := &world{T: t, store: memstore.New(nil), log: new(logs), net: &internet{hosts: make(map[string]http.Handler), count: make(map[string]int), from: "192.0.2.1"}}
	w.opts = authserver.Options{
		Issuer: issuer, Resources: []string{resource}, Scopes: []string{"mcp", "files:write"}, Default: []string{"mcp"}, Login: authserver.LoginFunc(byCookie),
		Store: w.store, Keys: [][]byte{testKey}, HTTP: &http.Client{Transport: w.net, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&w.opts)
	}
	w.as = w.instance()
	w.rs = must(auth.New(auth.Options{Resource: resource, Issuers: []auth.Issuer{w.as.TokenIssuer()}, Scopes: auth.Scopes{Base: []string{"mcp"}}}))
	return w
}

// instance is a further one that shares the store. It takes the place at the host.
func (w *world) instance() *authserver.Server {
	w.Helper()
	as, err := authserver.New(w.Context(), w.opts)
	if err != nil {
		w.Fatal(err)
	}
	mux := http.NewServeMux()
	as.Mount(mux)
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.net.hosts["mcp.example.com"] = mux
	return as
}

// browser is one of a person; "" has not logged in.
type browser struct {
	*world
	jar http.CookieJar
}

func (w *world) browser(user string) *browser {
	b := &browser{w, must(cookiejar.New(nil))}
	if user != "" {
		b.jar.SetCookies(must(url.Parse(issuer)), []*http.Cookie{{Name: "user", Value: user, Path: "/", Secure: true}})
	}
	return b
}

// page is an answer.
type page struct {
	status int
	header http.Header
	body   string
}

func (b *browser) do(method, at string, form url.Values, header ...string) page {
	b.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := must(http.NewRequestWithContext(b.Context(), method, at, body))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	c := &http.Client{Transport: b.net, Jar: b.jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	return page{resp.StatusCode, resp.Header, string(must(io.ReadAll(resp.Body)))}
}

func (b *browser) get(at string) page { b.Helper(); return b.do(http.MethodGet, at, nil) }

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// token is the one of the form of a page.
func (p page) token() string {
	if m := tokenField.FindStringSubmatch(p.body); m != nil {
		return html.UnescapeString(m[1])
	}
	return ""
}

// location is where an answer sends the browser, with its parameters.
func (p page) location() (at string, q url.Values) {
	raw := p.header.Get("Location")
	u, err := url.Parse(raw)
	if err != nil {
		return raw, nil
	}
	q = u.Query()
	at, _, _ = strings.Cut(raw, "?")
	return at, q
}

// call sends a form, or JSON, to an endpoint, and reads the answer.
func (w *world) call(name string, body any) (status int, answer map[string]any) {
	w.Helper()
	kind, text := "application/json", ""
	switch v := body.(type) {
	case url.Values:
		kind, text = "application/x-www-form-urlencoded", v.Encode()
	case string:
		text = v
	default:
		text = string(must(json.Marshal(v)))
	}
	r := must(http.NewRequestWithContext(w.Context(), http.MethodPost, issuer+"/"+name, strings.NewReader(text)))
	r.Header.Set("Content-Type", kind)
	resp := must(w.net.RoundTrip(r))
	defer resp.Body.Close()
	raw := must(io.ReadAll(resp.Body))
	if got := resp.Header.Get("Cache-Control"); got != "no-store" {
		w.Errorf("%s: Cache-Control is %q", name, got)
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &answer); err != nil {
			w.Errorf("%s: %v in %s", name, err, raw)
		}
	}
	return resp.StatusCode, answer
}

type object = map[string]any

// register registers a client.
func (w *world) register(more object) (id string) {
	w.Helper()
	m := object{"client_name": "A test", "redirect_uris": []string{callback}, "token_endpoint_auth_method": "none", "application_type": "native"}
	for k, v := range more {
		m[k] = v
	}
	status, answer := w.call("register", m)
	if status != http.StatusCreated {
		w.Fatalf("register: %d %v", status, answer)
	}
	return answer["client_id"].(string)
}

// ask is the address that a client sends a person to.
func ask(client string, change url.Values) string {
	q := url.Values{"response_type": {"code"}, "client_id": {client}, "redirect_uri": {callback}, "state": {"the state"}, "code_challenge": {challenge(verifier)},
		"code_challenge_method": {"S256"}, "resource": {resource}}
	for k, v := range change {
		if q[k] = v; v == nil {
			delete(q, k)
		}
	}
	return issuer + "/authorize?" + q.Encode()
}

// consent visits the address, agrees, and returns the code.
func (b *browser) consent(at string) (code string) {
	b.Helper()
	p := b.get(at)
	if p.status != http.StatusOK || p.token() == "" {
		b.Fatalf("the page for consent: %d %s %s", p.status, p.header.Get("Location"), p.body)
	}
	p = b.do(http.MethodPost, issuer+"/authorize", url.Values{"token": {p.token()}, "do": {"allow"}})
	_, q := p.location()
	if p.status != http.StatusSeeOther || q.Get("code") == "" || q.Get("state") != "the state" || q.Get("iss") != issuer {
		b.Fatalf("consent: %d %v %s", p.status, p.header, p.body)
	}
	return q.Get("code")
}

// redeem is the form for a code.
func redeem(client, code string, change url.Values) url.Values {
	f := url.Values{"grant_type": {"authorization_code"}, "client_id": {client}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier}, "resource": {resource}}
	for k, v := range change {
		if f[k] = v; v == nil {
			delete(f, k)
		}
	}
	return f
}

// renew is the form for a refresh token.
func renew(client, refresh string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {refresh}, "resource": {resource}}
}

// tokens sends a form that must give tokens.
func (w *world) tokens(form url.Values) (access, refresh string) {
	w.Helper()
	status, answer := w.call("token", form)
	if status != http.StatusOK {
		w.Fatalf("token: %d %v", status, answer)
	}
	access, _ = answer["access_token"].(string)
	refresh, _ = answer["refresh_token"].(string)
	return access, refresh
}

// logIn makes a client and tokens for a person.
func (w *world) logIn(user string) (client, access, refresh string) {
	w.Helper()
	client = w.register(nil)
	access, refresh = w.tokens(redeem(client, w.browser(user).consent(ask(client, nil)), nil))
	return client, access, refresh
}

// uses sends a request with a token to the resource server.
func (w *world) uses(access string) (*mcpserver.Principal, error) {
	r := must(http.NewRequestWithContext(w.Context(), http.MethodPost, resource, nil))
	r.Header.Set("Authorization", "Bearer "+access)
	return w.rs.Authenticate(r)
}
