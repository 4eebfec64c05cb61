package authserver_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/troupe-dev/troupe/mcpserver/auth"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
	"github.com/troupe-dev/troupe/store"
)

// AUTH-05, AUTH-08, AUTH-31, AUTH-32: a browser is sent to an address that the client has
// registered, byte by byte, but for the port on its own machine.
func TestRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *authserver.Options) {
			o.Clients = []authserver.Client{{ID: "app", Name: "App", RedirectURIs: []string{
				"https://app.example/cb", "https://app.example/cb?x=1", "http://127.0.0.1/cb", "http://[::1]:1/cb", "http://localhost:3000/cb", "com.example.app:/cb"}}}
		})
		b := w.browser("alice")
		for to, good := range map[string]bool{
			"https://app.example/cb": true, "https://app.example/cb?x=1": true, "com.example.app:/cb": true,
			"http://127.0.0.1/cb": true, "http://127.0.0.1:9/cb": true, "http://127.0.0.1:65535/cb": true, "http://[::1]/cb": true, "http://[::1]:9/cb": true, "http://localhost:9/cb": true,

			"https://app.example/cb/": false, "https://app.example/cb?x=2": false, "https://app.example/cb?x=1&y": false, "https://app.example/cb#f": false, "https://app.example/CB": false,
			"https://APP.example/cb": false, "https://app.example:443/cb": false, "https://app.example.evil.example/cb": false, "https://app.example@evil.example/cb": false,
			"https://evil.example/cb": false, "https://app.example/x/../cb": false, "https://app.example/%63b": false, "http://app.example/cb": false, "https://app.example\\@evil.example/cb": false,
			"https://u@app.example/cb": false, "//app.example/cb": false, "javascript:alert(1)": false, "data:text/html,x": false, "": false, "https://app.example/cb\r\nX: y": false,
			"http://127.0.0.1:0/cb": false, "http://127.0.0.1:99999/cb": false, "http://127.0.0.1:x/cb": false, "http://127.0.0.1:9@evil.example/cb": false, "http://127.0.0.1:9/cb/../x": false,
			"http://127.0.0.2:9/cb": false, "http://localhost.evil.example:9/cb": false, "http://127.0.0.1.evil.example/cb": false, "http://localhost:9/cb?x": false, "http://LOCALHOST:9/cb": false,
			"http://2130706433/cb": false, "https://127.0.0.1/cb": false, "http://[::1]:9/": false, "com.example.app:/other": false,
		} {
			p := b.get(ask("app", url.Values{"redirect_uri": {to}}))
			if got := p.status == http.StatusOK; got != good || p.header.Get("Location") != "" {
				t.Errorf("%q: got %d and a redirect to %q, want it accepted: %t", to, p.status, p.header.Get("Location"), good)
			}
			if !good { // nor with an error
				if p := b.get(ask("app", url.Values{"redirect_uri": {to}, "response_type": {"token"}})); p.header.Get("Location") != "" {
					t.Errorf("%q: an error is sent to %q", to, p.header.Get("Location"))
				}
			}
		}
		if p := b.get(ask("app", nil) + "&redirect_uri=https://app.example/cb"); p.status != http.StatusBadRequest {
			t.Errorf("two redirect addresses: %d", p.status)
		}
	})
}

// AUTH-05, AUTH-33, SECA-50: what clients register.
func TestRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, to := range []string{"http://evil.example/cb", "javascript:alert(1)", "data:text/html,x", "cursor://x", "https://a.example/#f", "https://u:p@a.example/", "not a url", "", "http://127.0.0.1:0/",
			"http://169.254.169.254/", "https://a.example/" + strings.Repeat("x", 1000), "http://localhost.evil.example/"} {
			if status, answer := w.call("register", object{"redirect_uris": []string{to}}); status != 400 || answer["error"] != "invalid_redirect_uri" {
				t.Errorf("%.60q: got %d %v", to, status, answer)
			}
		}
		for name, body := range map[string]any{"no JSON": "x", "a list": "[]", "a number": `{"redirect_uris": 7}`, "twice": `{"redirect_uris":["https://a.example/"],"redirect_uris":["https://b.example/"]}`,
			"an odd method": object{"redirect_uris": []string{callback}, "token_endpoint_auth_method": "tls_client_auth"}, "too large": `{"redirect_uris":["` + strings.Repeat("x", 70<<10) + `"]}`,
			"deep": strings.Repeat("[", 20000)} {
			if status, answer := w.call("register", body); status != 400 || answer["error"] != "invalid_client_metadata" {
				t.Errorf("%s: got %d %v", name, status, answer)
			}
		}
		if status, answer := w.call("register", object{"redirect_uris": slices.Repeat([]string{callback}, 11)}); status != 400 {
			t.Errorf("many: got %d %v", status, answer)
		}
		status, answer := w.call("register", object{"redirect_uris": []string{callback}, "token_endpoint_auth_method": "client_secret_post", "grant_types": []string{"authorization_code"}, "contacts": []string{"x"}, "logo_uri": 7})
		id, _ := answer["client_id"].(string)
		secret, _ := answer["client_secret"].(string)
		if status != http.StatusCreated || id == "" || secret == "" || answer["client_secret_expires_at"] != 0.0 {
			t.Fatalf("a client with a secret: got %d %v", status, answer)
		}
		b := w.browser("alice")
		code := b.consent(ask(id, nil))
		for _, wrong := range []url.Values{nil, {"client_secret": {"x"}}} {
			if status, answer := w.call("token", redeem(id, code, wrong)); status != 401 || answer["error"] != "invalid_client" {
				t.Errorf("with the secret %v: got %d %v", wrong, status, answer)
			}
		}
		if _, refresh := w.tokens(redeem(id, code, url.Values{"client_secret": {secret}})); refresh != "" {
			t.Error("a client that wants no refresh token gets one")
		}
	})
}

// SECA-33: a flood of registrations fills a pool that is bounded, displaces only what no person has
// used, and is slowed down for each address.
func TestRegistrationFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		inUse, _, refresh := w.logIn("alice")
		refused := 0
		for range 80 {
			if status, _ := w.call("register", object{"redirect_uris": []string{callback}}); status == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused != 21 { // 60 at once, of which one was taken by the login
			t.Errorf("%d of 80 are refused", refused)
		}
		made := 0
		for i := range 1500 {
			w.net.from = fmt.Sprintf("198.51.%d.%d", i/250, i%250)
			if i == 1000 {
				time.Sleep(16 * time.Minute)
			}
			if status, _ := w.call("register", object{"redirect_uris": []string{callback}}); status == http.StatusCreated {
				made++
			}
		}
		if made < 500 || made > 1000 {
			t.Errorf("%d were made", made)
		}
		w.tokens(renew(inUse, refresh))
		time.Sleep(25 * time.Hour)
		if p := w.browser("alice").get(ask(inUse, nil)); p.status != http.StatusOK {
			t.Errorf("the client in use: %d", p.status)
		}
	})
}

// SECA-33: a full pool of registrations displaces the oldest of the address that registers, or else of the
// address that has most; an IPv6 address counts as its /64.
func TestFullPoolOfRegistrations(t *testing.T) {
	tests := []struct {
		name         string
		flood, other func(i int) string // addresses
	}{
		{"IPv4", func(int) string { return "198.51.100.1" }, func(i int) string { return fmt.Sprintf("203.0.%d.1", i) }},
		{"IPv6", func(i int) string { return fmt.Sprintf("[2001:db8::%x]", i) }, func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]", i+1) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				register := func(from string) (id string, status int) {
					t.Helper()
					w.net.mu.Lock()
					w.net.from = from
					w.net.mu.Unlock()
					status, answer := w.call("register", object{"redirect_uris": []string{callback}})
					id, _ = answer["client_id"].(string)
					return id, status
				}
				known := func(id string) bool { return w.browser("alice").get(ask(id, nil)).status == http.StatusOK }
				var others, flood []string
				for i := range 480 {
					id, _ := register(tt.other(i))
					others = append(others, id)
				}
				refused := 0
				for i := range 200 { // 20 fill the pool
					time.Sleep(time.Second)
					switch id, status := register(tt.flood(i)); status {
					case http.StatusCreated:
						flood = append(flood, id)
					case http.StatusTooManyRequests:
						refused++
					}
				}
				if len(flood) < 60 || len(flood) > 64 || refused != 200-len(flood) {
					t.Errorf("of the flood %d were made and %d refused, want 60 and one more a minute", len(flood), refused)
				}
				for i, id := range others {
					if i%40 == 0 && !known(id) {
						t.Fatalf("the registration %d of another address was displaced", i)
					}
				}
				for i, id := range flood {
					if has := known(id); has != (i >= len(flood)-20) {
						t.Fatalf("registration %d of the flood: known %v", i, has)
					}
				}
				late, status := register(tt.other(1000)) // of an address that has none
				if status != http.StatusCreated || !known(late) || known(flood[len(flood)-20]) || !known(others[0]) {
					t.Errorf("another address: got %d; it displaces the flood's oldest", status)
				}
			})
		})
	}
}

// AUTH-31, AUTH-32, SECA-16, SECA-33: documents of clients: what is fetched, how often, and what is
// believed.
func TestDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		var mu sync.Mutex // guards documents
		documents := map[string]any{}
		w.net.hosts["app.example"] = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			switch d := documents[r.URL.Path].(type) {
			case nil:
				http.NotFound(out, r)
			case string:
				if strings.HasPrefix(d, "https://") {
					http.Redirect(out, r, d, http.StatusFound)
					return
				}
				fmt.Fprint(out, d)
			default:
				_ = json.NewEncoder(out).Encode(d)
			}
		})
		put := func(path string, more object) string {
			id := "https://app.example" + path
			d := object{"client_id": id, "client_name": "App", "redirect_uris": []string{callback, "https://app.example/cb"}, "token_endpoint_auth_method": "none"}
			for k, v := range more {
				d[k] = v
			}
			mu.Lock()
			defer mu.Unlock()
			documents[path] = d
			return id
		}
		b := w.browser("alice")
		good := put("/good", nil)
		p := b.get(ask(good, nil))
		for _, want := range []string{"App", "app.example, which describes it", "Any program on this machine"} {
			if !strings.Contains(p.body, want) {
				t.Errorf("the page lacks %q: %s", want, p.body)
			}
		}
		access, _ := w.tokens(redeem(good, b.consent(ask(good, nil)), nil))
		if p, err := w.uses(access); err != nil || p.ClientID != good {
			t.Errorf("got %+v, %v", p, err)
		}
		if n := w.net.asked(good); n != 1 {
			t.Errorf("the document is fetched %d times", n)
		}
		time.Sleep(6 * time.Minute)
		b.get(ask(good, nil))
		if n := w.net.asked(good); n != 2 {
			t.Errorf("later the document is fetched %d times", n)
		}
		put("/other-id", object{"client_id": "https://app.example/good"})
		put("/no-name", object{"client_name": ""})
		put("/no-redirect", object{"redirect_uris": nil})
		put("/bad-redirect", object{"redirect_uris": []string{"javascript:alert(1)"}})
		put("/secret", object{"token_endpoint_auth_method": "client_secret_basic"})
		put("/key", object{"token_endpoint_auth_method": "private_key_jwt"})
		documents["/html"], documents["/elsewhere"], documents["/list"] = "<html>", "https://app.example/good", "[]"
		for _, id := range []string{"/other-id", "/no-name", "/no-redirect", "/bad-redirect", "/secret", "/key", "/html", "/elsewhere", "/list", "/missing", "", "/", "/a/../good", "/good#x", "/good?"} {
			for range 3 {
				if p := b.get(ask("https://app.example"+id, nil)); p.status != http.StatusBadRequest || p.header.Get("Location") != "" {
					t.Errorf("%s: got %d", id, p.status)
				}
			}
			if n := w.net.asked("https://app.example" + id); n > 1 {
				t.Errorf("%s: fetched %d times", id, n)
			}
		}
		for _, id := range []string{"http://app.example/good", "https://user@app.example/good", "https://APP.example/good"} {
			if p := b.get(ask(id, nil)); p.status != http.StatusBadRequest {
				t.Errorf("%s: got %d", id, p.status)
			}
		}
		// One address cannot make the server fetch without end.
		before := w.net.asked("x")
		tooMany := 0
		for i := range 200 {
			if p := b.get(ask(fmt.Sprintf("https://victim.example/%d", i), nil)); p.status == http.StatusTooManyRequests {
				tooMany++
			}
		}
		if tooMany < 130 {
			t.Errorf("%d of 200 are refused (%d)", tooMany, before)
		}
	})
}

// SECA-16: without a client of the program's the guard decides what is fetched: no address of this
// machine or network.
func TestDocumentsAreGuarded(t *testing.T) {
	w := newWorld(t, func(o *authserver.Options) { o.HTTP = nil })
	b := w.browser("alice")
	for _, id := range []string{"https://127.0.0.1/x", "https://localhost/x", "https://169.254.169.254/latest", "https://[::1]/x", "https://10.0.0.1/x", "https://[::ffff:10.0.0.1]/x", "https://[64:ff9b::a00:1]/x"} {
		if p := b.get(ask(id, nil)); p.status != http.StatusBadRequest {
			t.Errorf("%s: got %d", id, p.status)
		}
	}
}

// AUTH-05, AUTH-27, AUTH-40, AUTH-46, SECA-20: what a request must have. Each refusal goes back with state
// and issuer, and never with a code.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b, client := w.browser("alice"), w.register(nil)
		for name, tt := range map[string]struct {
			change url.Values
			want   string
		}{
			"no PKCE":            {url.Values{"code_challenge": nil, "code_challenge_method": nil}, "invalid_request"},
			"plain":              {url.Values{"code_challenge": {verifier}, "code_challenge_method": {"plain"}}, "invalid_request"},
			"plain by omission":  {url.Values{"code_challenge_method": nil}, "invalid_request"},
			"a short challenge":  {url.Values{"code_challenge": {"abc"}}, "invalid_request"},
			"implicit":           {url.Values{"response_type": {"token"}}, "unsupported_response_type"},
			"hybrid":             {url.Values{"response_type": {"code token"}}, "unsupported_response_type"},
			"a fragment":         {url.Values{"response_mode": {"fragment"}}, "invalid_request"},
			"a request object":   {url.Values{"request": {"x.y.z"}}, "request_not_supported"},
			"a request address":  {url.Values{"request_uri": {"https://evil.example/"}}, "request_not_supported"},
			"another resource":   {url.Values{"resource": {"https://other.example/mcp"}}, "invalid_target"},
			"a longer resource":  {url.Values{"resource": {resource + "/x"}}, "invalid_target"},
			"a resource with #":  {url.Values{"resource": {resource + "#x"}}, "invalid_target"},
			"two resources":      {url.Values{"resource": {resource, "https://other.example/mcp"}}, "invalid_request"},
			"scopes there is no": {url.Values{"scope": {"admin root"}}, "invalid_scope"},
			"two scopes":         {url.Values{"scope": {"mcp", "files:write"}}, "invalid_request"},
			"prompt none":        {url.Values{"prompt": {"none"}}, "consent_required"},
		} {
			p := b.get(ask(client, tt.change))
			at, q := p.location()
			if p.status != http.StatusSeeOther || at != callback || q.Get("error") != tt.want || q.Get("state") != "the state" || q.Get("iss") != issuer || q.Has("code") {
				t.Errorf("%s: got %d %s %v, want %s", name, p.status, at, q, tt.want)
			}
		}
		for name, change := range map[string]url.Values{
			"2025-03-26 names no resource": {"resource": nil}, "an upper case resource": {"resource": {"HTTPS://MCP.example.com/mcp"}}, "offline access": {"scope": {"offline_access"}},
			"more than there is": {"scope": {"mcp openid offline_access"}}, "no state": {"state": nil},
		} {
			if p := b.get(ask(client, change)); p.status != http.StatusOK || !strings.Contains(p.body, ">mcp<br>") {
				t.Errorf("%s: got %d %s", name, p.status, p.body)
			}
		}
		if p := b.get(ask("unknown", nil)); p.status != http.StatusBadRequest || p.header.Get("Location") != "" {
			t.Errorf("an unknown client: %d", p.status)
		}
		if p := b.get(ask(client, url.Values{"state": {strings.Repeat("x", 9<<10)}})); p.status != http.StatusRequestURITooLong {
			t.Errorf("a long address: %d", p.status)
		}
		// AUTH-08: a client that has registered itself does not make the server send browsers away.
		far := w.register(object{"redirect_uris": []string{"https://evil.example/cb"}})
		p := b.get(ask(far, url.Values{"redirect_uri": {"https://evil.example/cb"}, "response_type": {"token"}}))
		if p.status != http.StatusBadRequest || p.header.Get("Location") != "" || !strings.Contains(p.body, "evil.example") {
			t.Errorf("an open redirect: %d %s", p.status, p.header.Get("Location"))
		}
	})
}

// SEC-12, SECA-24, CVE-2026-27124: consent counts from the browser that has shown the page, of the
// person who was logged in there, within its time, and from this site.
func TestConsentIsOfItsBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		client := w.register(nil)
		mallory, victim, other := w.browser("mallory"), w.browser("alice"), w.browser("mallory")
		p := mallory.get(ask(client, nil))
		form := url.Values{"token": {p.token()}, "do": {"allow"}}
		victim.get(ask(client, nil)) // has a cookie of its own
		other.get(ask(client, nil))
		forbidden := func(name string, p page) {
			t.Helper()
			if p.status != http.StatusForbidden || p.header.Get("Location") != "" {
				t.Errorf("%s: got %d, sent to %q", name, p.status, p.header.Get("Location"))
			}
		}
		post := func(b *browser, form url.Values, header ...string) page {
			return b.do(http.MethodPost, issuer+"/authorize", form, header...)
		}
		forbidden("mallory's page in the browser of alice", post(victim, form))
		forbidden("in another browser of mallory", post(other, form))
		forbidden("in a browser without cookies", post(w.browser("mallory"), form))
		forbidden("from another site", post(mallory, form, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"))
		forbidden("without the token", post(mallory, url.Values{"do": {"allow"}}))
		letter := "A"
		if p.token()[40] == 'A' {
			letter = "B"
		}
		forbidden("with a token that is changed", post(mallory, url.Values{"do": {"allow"}, "token": {p.token()[:40] + letter + p.token()[41:]}}))
		mallory.jar.SetCookies(must(url.Parse(issuer)), []*http.Cookie{{Name: "user", Value: "alice", Path: "/", Secure: true}})
		forbidden("after the person has changed", post(mallory, form))
		mallory.jar.SetCookies(must(url.Parse(issuer)), []*http.Cookie{{Name: "user", Value: "mallory", Path: "/", Secure: true}})
		time.Sleep(16 * time.Minute)
		forbidden("too late", post(mallory, form))
		mallory.consent(ask(client, nil))                   // anew it is good
		for _, first := range []string{"allow", "refuse"} { // a page counts once, in any instance
			p := mallory.get(ask(client, nil))
			if refuse, allow := strings.Index(p.body, `value="refuse"`), strings.Index(p.body, `value="allow"`); refuse < 0 || allow < refuse {
				t.Errorf("the button that Enter presses does not refuse:\n%s", p.body)
			}
			if got := post(mallory, url.Values{"token": {p.token()}, "do": {first}}); got.status != http.StatusSeeOther {
				t.Errorf("%s: got %d", first, got.status)
			}
			w.instance()
			for _, then := range []string{"allow", "refuse"} {
				forbidden(then+" after "+first, post(mallory, url.Values{"token": {p.token()}, "do": {then}}))
			}
		}
		// A page is not asked for with another method, nor a GET with an answer in it heeded.
		if p := mallory.get(ask(client, url.Values{"do": {"allow"}, "token": {p.token()}})); p.status != http.StatusOK || p.header.Get("Location") != "" {
			t.Errorf("a GET with the form: %d", p.status)
		}
		if p := mallory.do(http.MethodPut, ask(client, nil), url.Values{}); p.status != http.StatusMethodNotAllowed {
			t.Errorf("PUT: %d", p.status)
		}
	})
}

// SECA-20, SECA-25, AUTH-05: a code is good once, for a minute, for its client, redirect address, verifier and
// resource.
func TestCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		client, stranger := w.register(nil), w.register(nil)
		b := w.browser("alice")
		bad := func(name string, form url.Values, want string) {
			t.Helper()
			if status, answer := w.call("token", form); status != 400 || answer["error"] != want || answer["access_token"] != nil {
				t.Errorf("%s: got %d %v, want %s", name, status, answer, want)
			}
		}
		code := b.consent(ask(client, nil))
		other := "A"
		if code[20] == 'A' {
			other = "B"
		}
		for name, change := range map[string]url.Values{
			"another client": {"client_id": {stranger}}, "another redirect": {"redirect_uri": {"http://127.0.0.1:7778/callback"}}, "no redirect": {"redirect_uri": nil},
			"another verifier": {"code_verifier": {verifier + "x"}}, "no verifier": {"code_verifier": nil}, "the challenge": {"code_verifier": {challenge(verifier)}},
			"an empty code": {"code": {""}}, "a changed code": {"code": {code[:20] + other + code[21:]}}, "a code with more": {"code": {code + "A"}},
		} {
			bad(name, redeem(client, code, change), "invalid_grant")
		}
		bad("another resource", redeem(client, code, url.Values{"resource": {"https://other.example/mcp"}}), "invalid_target")
		bad("the code twice in one form", redeem(client, code, url.Values{"code": {code, code}}), "invalid_request")
		bad("another grant type", redeem(client, code, url.Values{"grant_type": {"password"}}), "unsupported_grant_type")
		access, refresh := w.tokens(redeem(client, code, nil))
		if _, err := w.uses(access); err != nil {
			t.Fatal(err)
		}
		bad("the code as refresh token", renew(client, code), "invalid_grant")
		bad("the refresh token as code", redeem(client, refresh, nil), "invalid_grant")

		bad("again", redeem(client, code, nil), "invalid_grant") // revokes what it gave
		bad("its refresh token after the replay", renew(client, refresh), "invalid_grant")
		time.Sleep(31 * time.Second)
		if _, err := w.uses(access); err == nil {
			t.Error("its access token is good after the replay")
		}
		code = b.consent(ask(client, nil))
		time.Sleep(61 * time.Second)
		bad("late", redeem(client, code, nil), "invalid_grant")
		// The stranger cannot spoil the code, and its owner still gets tokens.
		code = b.consent(ask(client, nil))
		bad("a stranger's attempt", redeem(stranger, code, nil), "invalid_grant")
		_, refresh = w.tokens(redeem(client, code, nil))
		_, renewed := w.tokens(renew(client, refresh))
		bad("a replay after a renewal", redeem(client, code, nil), "invalid_grant")
		bad("what was renewed before the replay", renew(client, renewed), "invalid_grant")
	})
}

// AUTH-05, SECA-25: of requests that use one code, or one refresh token, at once, in two instances,
// one at most gets tokens, and those end.
func TestRaces(t *testing.T) {
	w := newWorld(t, nil)
	client := w.register(nil)
	for round := range 20 {
		code := w.browser("alice").consent(ask(client, nil))
		if round%2 == 0 {
			w.instance()
		}
		var mu sync.Mutex // guards refreshes
		var refreshes []string
		var wg sync.WaitGroup
		try := func(form url.Values) {
			wg.Go(func() {
				if status, answer := w.call("token", form); status == http.StatusOK {
					mu.Lock()
					defer mu.Unlock()
					refreshes = append(refreshes, answer["refresh_token"].(string))
				}
			})
		}
		for range 4 {
			try(redeem(client, code, nil))
		}
		wg.Wait()
		if len(refreshes) > 1 {
			t.Fatalf("one code has given tokens %d times", len(refreshes))
		}
		for _, refresh := range refreshes {
			if status, _ := w.call("token", renew(client, refresh)); status == http.StatusOK {
				t.Fatal("what a code has given that was used twice is still good")
			}
		}
		_, refresh := w.tokens(redeem(client, w.browser("alice").consent(ask(client, nil)), nil))
		refreshes = nil
		for range 4 {
			try(renew(client, refresh))
		}
		wg.Wait()
		if len(refreshes) > 1 {
			t.Fatalf("one refresh token has given tokens %d times", len(refreshes))
		}
	}
}

// AUTH-05, AUTH-44, SECA-25: refresh tokens rotate; an old one ends the grant, in any instance; they are of
// their client, and give no more than was consented to.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		client := w.register(nil)
		stranger := w.register(nil)
		_, first := w.tokens(redeem(client, w.browser("alice").consent(ask(client, url.Values{"scope": {"mcp files:write"}})), nil))
		bad := func(name string, form url.Values, want string) {
			t.Helper()
			if status, answer := w.call("token", form); status != 400 || answer["error"] != want {
				t.Errorf("%s: got %d %v, want %s", name, status, answer, want)
			}
		}
		with := func(form url.Values, name, value string) url.Values { form.Set(name, value); return form }
		bad("a stranger", renew(stranger, first), "invalid_grant")
		bad("another resource", with(renew(client, first), "resource", "https://other.example"), "invalid_target")
		bad("more scopes", with(renew(client, first), "scope", "mcp admin"), "invalid_scope")
		w.instance()
		access, second := w.tokens(with(renew(client, first), "scope", "mcp"))
		if p, err := w.uses(access); err != nil || !slices.Equal(p.Scopes, []string{"mcp"}) {
			t.Errorf("fewer scopes: got %+v, %v", p, err)
		}
		access, third := w.tokens(renew(client, second)) // all that was consented to
		if p, err := w.uses(access); err != nil || len(p.Scopes) != 2 {
			t.Errorf("all scopes: got %+v, %v", p, err)
		}
		w.instance()
		bad("an old one", renew(client, first), "invalid_grant")
		bad("the newest after that", renew(client, third), "invalid_grant")
		time.Sleep(31 * time.Second)
		if _, err := w.uses(access); err == nil {
			t.Error("the access token after that is good")
		}
		if !strings.Contains(w.log.String(), "used twice") {
			t.Error("the log does not say it")
		}
		client, _, refresh := w.logIn("alice")
		time.Sleep(31 * 24 * time.Hour)
		bad("after the life of the grant", renew(client, refresh), "invalid_grant")
	})
}

// RFC 7009: either token ends the grant, for its client only; what is not known is no error.
func TestRevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, which := range []string{"access", "refresh"} {
			client, access, refresh := w.logIn("alice")
			stranger, _, _ := w.logIn("mallory")
			token := map[string]string{"access": access, "refresh": refresh}[which]
			for _, form := range []url.Values{{"client_id": {stranger}, "token": {token}}, {"client_id": {client}, "token": {"x"}}, {"client_id": {client}, "token": {"eyJ.x.y"}}} {
				if status, answer := w.call("revoke", form); status != http.StatusOK {
					t.Errorf("%v: got %d %v", form, status, answer)
				}
			}
			_, refresh = w.tokens(renew(client, refresh)) // it is not ended
			if which == "refresh" {
				token = refresh
			}
			if status, answer := w.call("revoke", url.Values{"client_id": {client}, "token": {token}, "token_type_hint": {"nonsense"}}); status != http.StatusOK {
				t.Errorf("got %d %v", status, answer)
			}
			if status, answer := w.call("token", renew(client, refresh)); status != 400 || answer["error"] != "invalid_grant" {
				t.Errorf("a renewal after revoking the %s token: %d %v", which, status, answer)
			}
			if _, err := w.uses(access); err == nil {
				t.Errorf("the access token after revoking the %s token is good", which)
			}
		}
		if status, answer := w.call("revoke", url.Values{"client_id": {"x"}, "token": {"y"}}); status != 401 || answer["error"] != "invalid_client" {
			t.Errorf("an unknown client: %d %v", status, answer)
		}
	})
}

// SECA-23, AUTH-50: a token is for one resource, and a code or a refresh token is none.
func TestAudience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const second = "https://other.example.com/mcp"
		w := newWorld(t, func(o *authserver.Options) { o.Resources = append(o.Resources, second) })
		client := w.register(nil)
		b := w.browser("alice")
		_, q := b.get(ask(client, url.Values{"resource": nil})).location()
		if q.Get("error") != "invalid_target" {
			t.Errorf("no resource where there are two: %v", q)
		}
		code := b.consent(ask(client, url.Values{"resource": {second}}))
		if status, answer := w.call("token", redeem(client, code, nil)); status != 400 || answer["error"] != "invalid_target" {
			t.Errorf("the first for a code of the second: %d %v", status, answer)
		}
		access, refresh := w.tokens(redeem(client, code, url.Values{"resource": {second}}))
		for name, token := range map[string]string{"of the other resource": access, "for renewal": refresh} {
			if _, err := w.uses(token); err == nil {
				t.Errorf("a token %s is good", name)
			}
		}
		other := must(auth.New(auth.Options{Resource: second, Issuers: []auth.Issuer{w.as.TokenIssuer()}}))
		r := must(http.NewRequest(http.MethodPost, second, nil))
		r.Header.Set("Authorization", "Bearer "+access)
		if p, err := other.Authenticate(r); err != nil || p.Subject != "alice" {
			t.Errorf("at the other resource: %+v, %v", p, err)
		}
	})
}

// AUTH-25, AUTH-26, AUTH-27, SECA-36: a resource server in another process finds the keys by the
// metadata. The key is replaced; old tokens are good until they expire, and no key is in clear in the
// store.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		keys := func() (ids []string) {
			var set struct {
				Keys []struct{ Kid, D, Alg, Use string }
			}
			p := w.browser("").get(issuer + "/jwks")
			if err := json.Unmarshal([]byte(p.body), &set); err != nil {
				t.Fatal(err)
			}
			for _, k := range set.Keys {
				if k.D != "" || k.Alg != "ES256" || k.Use != "sig" {
					t.Errorf("got %+v", k)
				}
				ids = append(ids, k.Kid)
			}
			return ids
		}
		_, _, _ = w.logIn("alice")
		first := keys()
		time.Sleep(30*24*time.Hour - 5*time.Minute)
		_, old, _ := w.logIn("alice")
		time.Sleep(6 * time.Minute)
		_, access, _ := w.logIn("alice")
		if both := keys(); len(first) != 1 || len(both) != 2 || both[0] != first[0] {
			t.Errorf("the keys are %q and then %q", first, both)
		}
		for name, token := range map[string]string{"old": old, "new": access} {
			if _, err := w.uses(token); err != nil {
				t.Errorf("the token of the %s key: %v", name, err)
			}
		}
		w.instance() // reads what is there
		if both := keys(); len(both) != 2 {
			t.Errorf("another instance has the keys %q", both)
		}
		time.Sleep(26 * time.Minute)
		if now := keys(); len(now) != 1 || now[0] == first[0] {
			t.Errorf("later the keys are %q", now)
		}
		sealed := must(w.store.AllSealed(t.Context(), "authserver-key", "", 0))
		if len(sealed) != 1 || strings.Contains(string(sealed[0].Value), first[0]) {
			t.Errorf("the store has %d entries, or the key in clear", len(sealed))
		}
		w.opts.Keys = [][]byte{[]byte("another key of 32 bytes in all..")}
		if _, err := authserver.New(t.Context(), w.opts); err == nil || !strings.Contains(err.Error(), "give the key back") {
			t.Errorf("with another key: %v", err)
		}
		moved := sealed[0]
		w.opts.Keys, w.opts.Issuer, moved.Key = [][]byte{testKey}, "https://evil.example.com", "https://evil.example.com"
		if err := w.store.PutSealed(context.WithoutCancel(t.Context()), moved, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := authserver.New(t.Context(), w.opts); err == nil {
			t.Error("a key that was moved to another issuer is used")
		}
	})
}

// SECA-27: no code, token or secret is in the log or in clear in the store.
func TestNothingInClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		public := w.register(nil)
		code := w.browser("alice").consent(ask(public, nil))
		access, refresh := w.tokens(redeem(public, code, nil))
		w.call("token", redeem(public, code, nil))
		w.call("token", renew(public, refresh))
		for _, secret := range []string{code, access, refresh, verifier, "the state"} {
			if strings.Contains(w.log.String(), secret) {
				t.Errorf("the log has %q", secret)
			}
		}
		sum := sha256.Sum256([]byte(issuer))
		owner := "as-" + hex.EncodeToString(sum[:])[:16] + "-used"
		list := must(w.store.Records(t.Context(), store.RecordQuery{Kind: "authserver-client", Owner: owner}))
		if len(list) != 1 || strings.Contains(string(list[0].Value), "callback") {
			t.Errorf("the registrations are %v", list)
		}
	})
}

// A person has a bounded number of grants: the oldest makes room. Another person's stay.
func TestGrantsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		client, _, bobs := w.logIn("bob")
		mine := w.register(nil)
		var refreshes []string
		b := w.browser("alice")
		for range 55 {
			time.Sleep(time.Second)
			_, refresh := w.tokens(redeem(mine, b.consent(ask(mine, nil)), nil))
			refreshes = append(refreshes, refresh)
		}
		for i, want := range map[int]int{0: 400, 4: 400, 5: 200, 54: 200} {
			if status, answer := w.call("token", renew(mine, refreshes[i])); status != want {
				t.Errorf("grant %d: got %d %v, want %d", i, status, answer, want)
			}
		}
		w.tokens(renew(client, bobs))
	})
}
