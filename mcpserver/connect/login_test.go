package connect_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/connect"
)

// idp is an OpenID provider at which everyone who comes is the same person.
type idp struct {
	subject string
	codes   map[string]url.Values
	claims  map[string]any // in place of the right ones
}

func (p *idp) approve(authorize string) string {
	u, _ := url.Parse(authorize)
	code := fmt.Sprintf("code-%s-%d", planted, len(p.codes))
	p.codes[code] = u.Query()
	return u.Query().Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {u.Query().Get("state")}}.Encode()
}

func (p *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		fmt.Fprint(w, `{"issuer":"https://idp.example","authorization_endpoint":"https://idp.example/authorize","token_endpoint":"https://idp.example/token",
			"jwks_uri":"https://idp.example/keys","response_types_supported":["code"],"code_challenge_methods_supported":["S256"],"token_endpoint_auth_methods_supported":["none","client_secret_basic"]}`)
	case "/token":
		r.ParseForm()
		q, ok := p.codes[r.PostForm.Get("code")]
		delete(p.codes, r.PostForm.Get("code"))
		if !ok || challenge(r.PostForm.Get("code_verifier")) != q.Get("code_challenge") {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return
		}
		claims := map[string]any{"iss": "https://idp.example", "sub": p.subject, "aud": "web", "exp": time.Now().Add(time.Minute).Unix(), "nonce": q.Get("nonce")}
		for name, value := range p.claims {
			claims[name] = value
		}
		raw, _ := json.Marshal(claims)
		token := "e30." + base64.RawURLEncoding.EncodeToString(raw) + ".c2ln"
		fmt.Fprintf(w, `{"access_token":"access-%s","token_type":"Bearer","id_token":%q}`, planted, token)
	default:
		w.WriteHeader(404)
	}
}

func (w *world) withIDP(subject string) (*idp, *instance) {
	p := &idp{subject: subject, codes: map[string]url.Values{}}
	w.net["idp.example"] = p
	s := w.start("api.example.com", alice, func(o *connect.Options) {
		o.Login = connect.OIDC(connect.OIDCOptions{Issuer: "https://idp.example", ClientID: "web"})
	})
	return p, s
}

// login opens a page as a visitor who is not logged in, and comes back to it.
func (b *browser) login(p *idp, page string) {
	b.w.t.Helper()
	at := b.get(page)
	if b.code != http.StatusFound || at != "/connect/login?return_to="+url.QueryEscape(strings.TrimPrefix(page, ours)) {
		b.w.t.Fatalf("a visitor who is unknown is sent to %q (%d)", at, b.code)
	}
	at = b.get(ours + at)
	if !strings.HasPrefix(at, "https://idp.example/authorize?") {
		b.w.t.Fatalf("the login leads to %q (%d):\n%s", at, b.code, b.page)
	}
	if at = b.get(p.approve(at)); b.code == http.StatusSeeOther {
		b.get(ours + at)
	}
}

// URL-21: visitors log in at the provider whose tokens MCP requests have, and come back to
// their page; issuer and subject are compared.
func TestOIDC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p, s := w.withIDP("alice")
		c, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("")
		var all sync.WaitGroup
		for range 4 { // visitors come at once
			all.Go(func() {
				out := httptest.NewRecorder()
				s.cn.ServeHTTP(out, httptest.NewRequest(http.MethodGet, base+"/login", nil))
				if out.Code != http.StatusFound {
					t.Errorf("a login: got %d", out.Code)
				}
			})
		}
		all.Wait()
		page := c.ask(useHub)
		b.login(p, page)
		b.want("after the login", 200, `id="visitor">alice<`)
		b.connect(page)
		if got := c.answer(); got != "200 OK the data" {
			t.Errorf("got %q", got)
		}
		time.Sleep(2 * time.Hour)
		if at := b.get(base); !strings.HasPrefix(at, "/connect/login?") {
			t.Errorf("two hours later: sent to %q, want to the login", at)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p, s := w.withIDP("bob")
		c, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("")
		b.login(p, c.ask(useHub))
		b.want("Bob on Alice's page", 403, "not yours")
	})
}

// An ID token that is for another, or answers another login, logs in no visitor; nor does an
// answer in a browser in which no login began, or a second time.
func TestOIDCAttacks(t *testing.T) {
	for name, claims := range map[string]map[string]any{
		"another issuer":     {"iss": "https://evil.example"},
		"another client":     {"aud": "other"},
		"two clients":        {"aud": []string{"other", "web"}},
		"expired":            {"exp": 1},
		"another login":      {"nonce": "x"},
		"no subject":         {"sub": ""},
		"a list as audience": {"aud": []any{1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			p, s := w.withIDP("alice")
			p.claims = claims
			c, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("")
			b.login(p, c.ask(useHub))
			b.want(name, 502, "did not succeed")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p, _ := w.withIDP("alice")
		b, other := w.browser(""), w.browser("")
		for _, back := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "/connect/../x", "/connect/startx", ""} {
			at := p.approve(b.get(base + "/login?return_to=" + url.QueryEscape(back)))
			other.get(at)
			other.want("another browser", 502, "did not succeed")
			if to := b.get(at); to != "/connect" {
				t.Errorf("return_to %q leads to %q", back, to)
			}
			b.get(at)
			b.want("again", 502, "did not succeed")
		}
	})
}

// SECA-9: visitors who are unknown have an issuer that cannot be reached asked once in a while.
func TestOIDCUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withIDP("alice")
		up, asked := w.net["idp.example"], 0
		w.net["idp.example"] = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			asked++
			out.WriteHeader(http.StatusServiceUnavailable)
		})
		b := w.browser("")
		for range 20 {
			b.get(base + "/login")
			b.want("an issuer that is down", 502, "did not succeed")
		}
		if asked > 3 { // the places where metadata may be
			t.Errorf("the issuer was asked %d times", asked)
		}
		w.net["idp.example"] = up
		time.Sleep(6 * time.Second)
		if b.get(base + "/login"); b.code != http.StatusFound {
			t.Errorf("the issuer is up: got %d", b.code)
		}
	})
}

// LoginAt sends unknown visitors to a page of the program.
func TestLoginAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start("api.example.com", alice, func(o *connect.Options) { o.Login = connect.LoginAt("/login", byCookie) })
		page := w.dial(s.Server, mcp.V2026_07_28, withPages).ask(useHub)
		b := w.browser("")
		if at := b.get(page); at != "/login?return_to="+url.QueryEscape(strings.TrimPrefix(page, ours)) {
			t.Errorf("sent to %q", at)
		}
		b.post(page, "same-origin", nil)
		b.want("a form", 401, "Log in first")
	})
}
