package authserver_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcpserver/authserver"
)

const provider = "https://login.example"

// planted is a part of every secret of the provider: it must be seen nowhere.
const planted = "pl4nted"

// upstream is an OpenID provider, with rotation of refresh tokens.
type upstream struct {
	mu        sync.Mutex // guards the fields below, of goroutines of requests
	n         int
	user      string
	codes     map[string]url.Values
	refresh   map[string]string // user by token
	renewed   int
	down      bool
	noRefresh bool
}

func (u *upstream) set(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_ = r.ParseForm()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	u.n++
	switch {
	case u.down:
		answer(503, object{})
	case r.URL.Path == "/.well-known/oauth-authorization-server":
		answer(200, object{"issuer": provider, "authorization_endpoint": provider + "/authorize", "token_endpoint": provider + "/token", "code_challenge_methods_supported": []string{"S256"},
			"scopes_supported": []string{"openid", "offline_access"}, "authorization_response_iss_parameter_supported": true})
	case r.URL.Path == "/authorize":
		code := fmt.Sprintf("code-%s-%d", planted, u.n)
		u.codes[code] = r.Form
		http.Redirect(w, r, r.Form.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {r.Form.Get("state")}, "iss": {provider}}.Encode(), http.StatusFound)
	case r.URL.Path == "/token":
		user, tokens := "", object{"access_token": fmt.Sprintf("access-%s-%d", planted, u.n), "token_type": "Bearer", "expires_in": 60}
		if id, secret, ok := r.BasicAuth(); !ok || id != "troupe" || secret != planted {
			answer(401, object{"error": "invalid_client"})
			return
		}
		if q := u.codes[r.Form.Get("code")]; q != nil && challenge(r.Form.Get("code_verifier")) == q.Get("code_challenge") {
			delete(u.codes, r.Form.Get("code"))
			user = u.user
			claims := must(json.Marshal(object{"iss": provider, "sub": user, "aud": "troupe", "exp": time.Now().Add(time.Minute).Unix(), "nonce": q.Get("nonce")}))
			tokens["id_token"] = "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".x"
		} else if user = u.refresh[r.Form.Get("refresh_token")]; user != "" {
			delete(u.refresh, r.Form.Get("refresh_token"))
			u.renewed++
		} else {
			answer(400, object{"error": "invalid_grant"})
			return
		}
		if !u.noRefresh {
			fresh := fmt.Sprintf("refresh-%s-%d", planted, u.n)
			u.refresh[fresh], tokens["refresh_token"] = user, fresh
		}
		answer(200, tokens)
	default:
		http.NotFound(w, r)
	}
}

func newUpstream(t *testing.T) (*world, *upstream) {
	u := &upstream{user: "alice", codes: make(map[string]url.Values), refresh: make(map[string]string)}
	w := newWorld(t, func(o *authserver.Options) {
		o.Login = authserver.OIDC(authserver.OIDCOptions{Issuer: provider, ClientID: "troupe", ClientSecret: planted, HTTP: o.HTTP})
	})
	w.net.hosts["login.example"] = u
	return w, u
}

// arrives follows a browser to the provider and back, and returns where it is then.
func (b *browser) arrives(at string) page {
	b.Helper()
	p := b.get(at)
	for range 6 {
		if p.status != http.StatusFound && p.status != http.StatusSeeOther {
			break
		}
		at = must(must(url.Parse(at)).Parse(p.header.Get("Location"))).String()
		p = b.get(at)
	}
	return p
}

// AUTH-14: a person logs in at a provider and consents here. What was granted is good as long as the
// provider renews the login, by one question in half a minute, however many requests come here.
func TestUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, u := newUpstream(t)
		client := w.register(nil)
		b := w.browser("")
		if p := b.arrives(ask(client, nil)); p.status != http.StatusOK || !strings.Contains(p.body, "alice") || p.token() == "" {
			t.Fatalf("after the login: %d %s", p.status, p.body)
		}
		access, refresh := w.tokens(redeem(client, b.consent(ask(client, nil)), nil))
		if p, err := w.uses(access); err != nil || p.Subject != "alice" || p.Issuer != issuer {
			t.Fatalf("got %+v, %v", p, err)
		}
		for range 5 {
			_, refresh = w.tokens(renew(client, refresh))
		}
		u.set(func() {
			if u.renewed != 1 {
				t.Errorf("the provider is asked %d times", u.renewed)
			}
		})
		w.opts.Login = authserver.OIDC(authserver.OIDCOptions{Issuer: provider, ClientID: "troupe", ClientSecret: planted, HTTP: w.opts.HTTP})
		w.instance()
		time.Sleep(31 * time.Second)
		access, refresh = w.tokens(renew(client, refresh))
		if _, err := w.uses(access); err != nil {
			t.Error(err)
		}
		// In trouble the provider lets nothing be renewed, and nothing is lost.
		u.set(func() { u.down = true })
		time.Sleep(31 * time.Second)
		if status, answer := w.call("token", renew(client, refresh)); status != 503 || answer["error"] != "temporarily_unavailable" {
			t.Errorf("while the provider is down: %d %v", status, answer)
		}
		u.set(func() { u.down = false })
		access, refresh = w.tokens(renew(client, refresh))
		// The provider ends the login.
		u.set(func() { clear(u.refresh) })
		time.Sleep(61 * time.Second)
		if _, err := w.uses(access); err == nil {
			t.Error("a minute after the provider has ended the login the token is good")
		}
		if status, answer := w.call("token", renew(client, refresh)); status != 400 || answer["error"] != "invalid_grant" {
			t.Errorf("after the end: %d %v", status, answer)
		}
		if strings.Contains(w.log.String(), planted) {
			t.Errorf("the log has a secret: %s", w.log)
		}
	})
}

// CVE-2026-27124, SECA-17, SECA-24: the answer of the provider counts in the browser that was sent
// there, once; what another browser has begun leads to no login and no consent.
func TestUpstreamIsOfItsBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, u := newUpstream(t)
		client := w.register(nil)
		mallory, victim := w.browser(""), w.browser("")
		p := mallory.get(ask(client, nil))
		p = mallory.get(issuer + p.header.Get("Location"))
		toProvider := p.header.Get("Location")
		back := victim.get(toProvider).header.Get("Location") // the victim is logged in there
		for name, b := range map[string]*browser{"the victim": victim, "another browser": w.browser("")} {
			if p := b.get(back); p.status != http.StatusBadGateway || p.header.Get("Location") != "" || slices.ContainsFunc(p.header.Values("Set-Cookie"), func(c string) bool { return strings.Contains(c, "troupe-auth-login") }) {
				t.Errorf("%s: got %d %v", name, p.status, p.header)
			}
		}
		for name, change := range map[string]string{"another state": strings.Replace(back, "state=", "state=x", 1), "another issuer": strings.Replace(back, "iss=", "iss=x", 1), "no issuer": strings.Replace(back, "&iss=", "&x=", 1)} {
			if p := mallory.get(change); p.status != http.StatusBadGateway {
				t.Errorf("%s: got %d", name, p.status)
			}
		}
		good := w.browser("")
		p = good.get(ask(client, nil))
		p = good.get(issuer + p.header.Get("Location"))
		back = good.get(p.header.Get("Location")).header.Get("Location")
		if p := good.get(back); p.status != http.StatusSeeOther {
			t.Errorf("the browser itself: %d", p.status)
		}
		if p := good.get(back); p.status != http.StatusBadGateway {
			t.Errorf("again: %d", p.status)
		}
		// A provider without refresh tokens cannot be asked; the login counts for its hour.
		u.set(func() { u.noRefresh, u.user = true, "bob" })
		b := w.browser("")
		b.arrives(ask(client, nil))
		_, refresh := w.tokens(redeem(client, b.consent(ask(client, nil)), nil))
		w.tokens(renew(client, refresh))
		time.Sleep(61 * time.Minute)
		if p := b.get(ask(client, nil)); p.status != http.StatusFound {
			t.Errorf("an hour later: %d", p.status)
		}
	})
}
