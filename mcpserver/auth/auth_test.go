package auth_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
)

const (
	noToken  = `Bearer resource_metadata="` + metadata + `", scope="mcp"`
	badToken = `Bearer error="invalid_token", resource_metadata="` + metadata + `", scope="mcp"`
)

// AUTH-50, AUTH-04, AUTH-21, AUTH-45, SECA-21, SECA-23: what is good, and what is not. Each
// token is checked before anything of the request is used.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(login)
		s := p.server(t, nil)
		now := time.Now()
		header := func(more object) object {
			h := object{"alg": "ES256", "typ": "at+jwt", "kid": "ec"}
			for k, v := range more {
				h[k] = v
			}
			return h
		}
		der := must(x509.MarshalPKIXPublicKey(&rsaKey().PublicKey))
		rsaPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		own := object{"alg": "ES256", "typ": "at+jwt", "jwk": jwk("", &foreignKey().PublicKey)}
		for _, tt := range []struct {
			name, token string
			good        bool
		}{
			{"ES256", token(nil), true},
			{"RS256", sign(object{"alg": "RS256", "typ": "at+jwt", "kid": "rsa"}, claims(nil), rsaKey()), true},
			{"PS256", sign(object{"alg": "PS256", "typ": "at+jwt", "kid": "rsa"}, claims(nil), rsaKey()), true},
			{"EdDSA", sign(object{"alg": "EdDSA", "typ": "at+jwt", "kid": "ed"}, claims(nil), edKey()), true},
			{"no key id", sign(object{"alg": "ES256", "typ": "at+jwt"}, claims(nil), ecKey()), true},
			{"typ JWT", sign(header(object{"typ": "JWT"}), claims(nil), ecKey()), true},
			{"typ application/at+jwt", sign(header(object{"typ": "application/AT+JWT"}), claims(nil), ecKey()), true},
			{"Keycloak", sign(header(object{"typ": "JWT"}), claims(object{"typ": "Bearer", "nonce": "n", "client_id": nil, "azp": "app"}), ecKey()), true},
			{"a list of audiences", token(object{"aud": []string{"https://other.example", resource}}), true},
			{"within the leeway", token(object{"exp": now.Add(-29 * time.Second).Unix(), "nbf": now.Add(29 * time.Second).Unix()}), true},

			{"SECA-21: another audience", token(object{"aud": "https://other.example/mcp"}), false},
			{"a longer audience", token(object{"aud": resource + "/x"}), false},
			{"a shorter audience", token(object{"aud": "https://api.example.com"}), false},
			{"no audience", token(object{"aud": nil}), false},
			{"an odd audience", token(object{"aud": object{"x": resource}}), false},
			{"expired", token(object{"exp": now.Add(-31 * time.Second).Unix()}), false},
			{"no expiry", token(object{"exp": nil}), false},
			{"a text as expiry", token(object{"exp": "never"}), false},
			{"not yet", token(object{"nbf": now.Add(31 * time.Second).Unix()}), false},
			{"another issuer", token(object{"iss": "https://evil.example"}), false},
			{"almost the issuer", token(object{"iss": login + "/"}), false},
			{"no issuer", token(object{"iss": nil}), false},
			{"no subject and no client", token(object{"sub": nil, "client_id": nil}), false},
			{"a long subject", token(object{"sub": strings.Repeat("x", 256)}), false},
			{"bound to a certificate", token(object{"cnf": object{"x5t#S256": "x"}}), false},

			{"an ID token by its claims", sign(header(object{"typ": "JWT"}), claims(object{"nonce": "n", "at_hash": "h"}), ecKey()), false},
			{"an ID token of Keycloak", sign(header(object{"typ": "JWT"}), claims(object{"typ": "ID"}), ecKey()), false},
			{"an ID token of Cognito", sign(header(object{"typ": "JWT"}), claims(object{"token_use": "id"}), ecKey()), false},
			{"a logout token", sign(header(object{"typ": "logout+jwt"}), claims(nil), ecKey()), false},
			{"an ID-JAG", sign(header(object{"typ": "oauth-id-jag+jwt"}), claims(nil), ecKey()), false},
			{"a DPoP proof", sign(header(object{"typ": "dpop+jwt"}), claims(nil), ecKey()), false},
			{"no typ", sign(object{"alg": "ES256", "kid": "ec"}, claims(nil), ecKey()), false},

			{"alg none", sign(object{"alg": "none", "typ": "at+jwt", "kid": "ec"}, claims(nil), nil), false},
			{"alg None", sign(object{"alg": "None", "typ": "at+jwt", "kid": "ec"}, claims(nil), nil), false},
			{"no signature", strings.TrimRight(token(nil), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), false},
			{"HS256 with the RSA key as PEM", sign(object{"alg": "HS256", "typ": "at+jwt", "kid": "rsa"}, claims(nil), rsaPEM), false},
			{"HS256 with the RSA key as DER", sign(object{"alg": "HS256", "typ": "at+jwt", "kid": "rsa"}, claims(nil), der), false},
			{"HS256 with the modulus", sign(object{"alg": "HS256", "typ": "at+jwt", "kid": "rsa"}, claims(nil), rsaKey().N.Bytes()), false},
			{"the key of another algorithm", sign(object{"alg": "RS256", "typ": "at+jwt", "kid": "ec"}, claims(nil), rsaKey()), false},
			{"a foreign key", sign(header(nil), claims(nil), foreignKey()), false},
			{"a kid that is a path", sign(header(object{"kid": "../../../../dev/null"}), claims(nil), foreignKey()), false},
			{"a kid that is an address", sign(header(object{"kid": "https://evil.example/keys"}), claims(nil), foreignKey()), false},
			{"a kid with SQL", sign(header(object{"kid": "x' UNION SELECT 'key"}), claims(nil), []byte("key")), false},
			{"jwk", sign(own, claims(nil), foreignKey()), false},
			{"jku", sign(header(object{"jku": "https://evil.example/keys"}), claims(nil), ecKey()), false},
			{"x5u", sign(header(object{"x5u": "https://evil.example/cert"}), claims(nil), ecKey()), false},
			{"crit", sign(header(object{"crit": []string{"exp"}, "exp": 1}), claims(nil), ecKey()), false},
			{"b64", sign(header(object{"b64": false}), claims(nil), ecKey()), false},
			{"JWE", "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ.AAAA.AAAA.AAAA.AAAA", false},
			{"a duplicate claim", tampered(token(nil), `{"iss":"`+login+`","iss":"`+login+`"}`), false},
			{"changed claims", tampered(token(nil), string(must(json.Marshal(claims(object{"sub": "root"}))))), false},
			{"opaque", "s3cr3t-0paque", false},
			{"two dots", "..", false},
			{"huge", token(object{"x": strings.Repeat("x", 20<<10)}), false},
			{"a list", token(nil) + "," + token(nil), false},
		} {
			got, err := s.Authenticate(request(tt.token))
			status, challenge := refused(t, err)
			switch {
			case tt.good && (err != nil || got.Subject != "alice" || got.ClientID != "app"):
				t.Errorf("%s: got %+v, %v", tt.name, got, errors.Unwrap(err))
			case !tt.good && (status != http.StatusUnauthorized || challenge != badToken):
				t.Errorf("%s: got %+v, %d, %s; want 401 with\n%s", tt.name, got, status, challenge, badToken)
			case !tt.good && len(tt.token) > 20 && strings.Contains(err.Error(), tt.token[:20]):
				t.Errorf("%s: the error has the token in it: %v", tt.name, err)
			}
		}
		if _, err := s.Authenticate(request(sign(object{"alg": "RS256", "typ": "at+jwt", "kid": "weak"}, claims(nil), weakKey()))); err == nil {
			t.Error("a weak key is accepted")
		}
		if n := p.count("/keys"); n > 2 { // the first time, and for the first unknown id at most
			t.Errorf("the keys were fetched %d times", n)
		}
	})
}

// tampered returns a token with other claims under its signature.
func tampered(token, claims string) string {
	parts := strings.Split(token, ".")
	return parts[0] + "." + b64([]byte(claims)) + "." + parts[2]
}

// AUTH-03, AUTH-04, SECA-24: the token is in one header, never in the query.
func TestWhereTheTokenIs(t *testing.T) {
	s := newIDP(login).server(t, nil)
	good := token(nil)
	for _, tt := range []struct {
		name      string
		change    func(r *http.Request)
		status    int
		challenge string
	}{
		{"one header", func(*http.Request) {}, 0, ""},
		{"small letters", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+good) }, 0, ""},
		{"none", func(r *http.Request) { r.Header.Del("Authorization") }, 401, noToken},
		{"another scheme", func(r *http.Request) { r.Header.Set("Authorization", "Basic YTpi") }, 401, noToken},
		{"no token in it", func(r *http.Request) { r.Header.Set("Authorization", "Bearer") }, 401, badToken},
		{"two headers", func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+token(object{"sub": "bob"})) }, 400, "invalid_request"},
		{"the same twice", func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+good) }, 400, "invalid_request"},
		{"in the query", func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "access_token=" + good }, 400, "invalid_request"},
		{"in both", func(r *http.Request) { r.URL.RawQuery = "a=b&access_token=" + good }, 400, "invalid_request"},
		{"a query without it", func(r *http.Request) { r.URL.RawQuery = "q=access_token" }, 0, ""},
	} {
		r := request(good)
		tt.change(r)
		_, err := s.Authenticate(r)
		if status, challenge := refused(t, err); status != tt.status || !strings.Contains(challenge, tt.challenge) || tt.status == 401 && challenge != tt.challenge {
			t.Errorf("%s: got %d %s, want %d %s", tt.name, status, challenge, tt.status, tt.challenge)
		}
	}
}

// SECA-7: a principal is an issuer's subject: the same subject of another issuer is another,
// and no two are written alike. A client that acts for itself is no person.
func TestPrincipals(t *testing.T) {
	p := newIDP(login)
	const other = "https://login.example.org"
	s := p.server(t, func(o *auth.Options) {
		keys := must(json.Marshal(object{"keys": p.keys}))
		o.Issuers, o.ClientSubjects = []auth.Issuer{{URL: login, Keys: keys}, {URL: other, Keys: keys}}, true
	})
	ids := make(map[string]string)
	for name, more := range map[string]object{
		"alice":                    {},
		"alice, another issuer":    {"iss": other},
		"a subject with numbers":   {"sub": "5:alice"},
		"a client with her name":   {"sub": "alice", "client_id": "alice"},
		"a client without subject": {"sub": nil, "client_id": "alice2"},
	} {
		got, err := s.Authenticate(request(token(more)))
		if err != nil {
			t.Fatalf("%s: %v", name, errors.Unwrap(err))
		}
		if earlier := ids[got.ID]; earlier != "" {
			t.Errorf("%s and %s are both %q", name, earlier, got.ID)
		}
		ids[got.ID] = name
		if got.Machine != strings.Contains(name, "a client") {
			t.Errorf("%s: Machine is %v", name, got.Machine)
		}
	}
	got, err := s.Authenticate(request(token(object{"scope": "mcp files:read mcp", "scp": []string{"extra", "mcp"}})))
	if err != nil || !slices.Equal(got.Scopes, []string{"mcp", "files:read", "extra"}) || got.Issuer != login || time.Until(got.Expiry) < time.Hour {
		t.Errorf("got %+v, %v", got, err)
	}
	if n := p.count("/keys"); n != 0 {
		t.Errorf("keys that are given were fetched %d times", n)
	}
}

// AUTH-60, AUTH-52, SECA-26: a request needs the base scopes and its own; scopes that imply
// others count, through several steps, and in rings. The challenge has all that is needed.
func TestAuthorize(t *testing.T) {
	s := newIDP(login).server(t, func(o *auth.Options) {
		o.Scopes.Implies = map[string][]string{"admin": {"files:write"}, "files:write": {"files:read", "admin:ring"}, "admin:ring": {"admin"}}
	})
	for _, tt := range []struct {
		has    string
		needs  []string
		wanted string // in the challenge; "" if it is granted
	}{
		{"mcp", nil, ""},
		{"files:read", nil, "mcp"},
		{"", []string{"files:read"}, "mcp files:read"},
		{"mcp", []string{"files:read", "mail"}, "mcp files:read mail"},
		{"mcp files:write", []string{"files:read"}, ""},
		{"mcp admin", []string{"files:read", "files:write"}, ""},
		{"mcp files:read", []string{"files:write"}, "mcp files:write"},
		{"mcp admin:ring", []string{"files:read"}, ""},
	} {
		p := &mcpserver.Principal{Scopes: strings.Fields(tt.has)}
		status, challenge := refused(t, s.Authorize(p, tt.needs))
		want := `Bearer error="insufficient_scope", scope="` + tt.wanted + `", resource_metadata="` + metadata + `"`
		if tt.wanted == "" && status != 0 || tt.wanted != "" && (status != http.StatusForbidden || challenge != want) {
			t.Errorf("%q for %v: got %d %s, want %s", tt.has, tt.needs, status, challenge, tt.wanted)
		}
	}
	if status, challenge := refused(t, s.Authorize(nil, nil)); status != http.StatusUnauthorized || challenge != noToken {
		t.Errorf("an anonymous sender: got %d %s", status, challenge)
	}
	if _, err := s.Authenticate(request(token(object{"scope": "other"}))); err == nil {
		t.Error("a token without the base scope is accepted")
	} else if status, _ := refused(t, err); status != http.StatusForbidden {
		t.Errorf("a token without the base scope: got %d, want 403", status)
	}
}

// A verified token is recognised until it expires, and not beyond; tokens that are not good
// are not kept, and those that are do not fill the memory (SECA-9).
func TestRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(login)
		s := p.server(t, nil)
		good := token(object{"exp": time.Now().Add(time.Minute).Unix()})
		first, err := s.Authenticate(request(good))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Authenticate(request(good)); err != nil || again != first {
			t.Errorf("the second time: got %p, %v, want the same principal %p", again, err, first)
		}
		for i := range 100 {
			_, _ = s.Authenticate(request(sign(object{"alg": "ES256", "typ": "at+jwt", "kid": "ec"}, claims(object{"jti": i}), foreignKey())))
		}
		if n, _ := s.Remembered(); n != 1 {
			t.Errorf("%d tokens are kept, want 1", n)
		}
		time.Sleep(90*time.Second - time.Millisecond)
		if _, err := s.Authenticate(request(good)); err != nil {
			t.Errorf("within the leeway: %v", err)
		}
		time.Sleep(time.Millisecond)
		if _, err := s.Authenticate(request(good)); err == nil {
			t.Error("a token that was verified before is good for ever")
		}
	})
}

func TestOptions(t *testing.T) {
	good := auth.Options{Resource: resource, Issuers: []auth.Issuer{{URL: login}}}
	for name, change := range map[string]func(o *auth.Options){
		"no resource":             func(o *auth.Options) { o.Resource = "" },
		"a fragment":              func(o *auth.Options) { o.Resource += "#x" },
		"a query":                 func(o *auth.Options) { o.Resource += "?x" },
		"capitals":                func(o *auth.Options) { o.Resource = "https://API.example.com/mcp" },
		"http":                    func(o *auth.Options) { o.Resource = "http://api.example.com/mcp" },
		"no issuer":               func(o *auth.Options) { o.Issuers = nil },
		"an issuer twice":         func(o *auth.Options) { o.Issuers = append(o.Issuers, o.Issuers[0]) },
		"an issuer with a query":  func(o *auth.Options) { o.Issuers[0].URL += "?x" },
		"an issuer without https": func(o *auth.Options) { o.Issuers[0].URL = "http://login.example.com" },
		"no keys":                 func(o *auth.Options) { o.Issuers[0].Keys = []byte(`{"keys":[]}`) },
		"malformed keys":          func(o *auth.Options) { o.Issuers[0].Keys = []byte(`{"keys":[`) },
		"symmetric keys":          func(o *auth.Options) { o.Issuers[0].Keys = []byte(`{"keys":[{"kty":"oct","k":"AAAA"}]}`) },
		"keys and questions": func(o *auth.Options) {
			o.Issuers[0].KeysURL, o.Issuers[0].Introspect = login+"/keys", new(auth.Introspect)
		},
		"a scope with a space":     func(o *auth.Options) { o.Scopes.Base = []string{"a b"} },
		"a scope with a quote":     func(o *auth.Options) { o.Scopes.Implies = map[string][]string{"a": {`b"`}} },
		"AUTH-44: offline_access ": func(o *auth.Options) { o.Scopes.Supported = []string{"offline_access"} },
	} {
		o := good
		o.Issuers = slices.Clone(o.Issuers)
		change(&o)
		if _, err := auth.New(o); err == nil || !strings.HasPrefix(err.Error(), "auth: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := auth.New(good); err != nil {
		t.Error(err)
	}
}
