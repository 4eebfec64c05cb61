package oauth_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
)

// endpoint is a token endpoint at https://as.example that keeps the last request and answers
// as it is told.
type endpoint struct {
	web
	form   url.Values
	header http.Header
}

func newEndpoint(answer http.HandlerFunc) *endpoint {
	e := new(endpoint)
	keep := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.form, _ = url.ParseQuery(string(body))
		e.header = r.Header
		answer(w, r)
	}
	e.pages = map[string]http.HandlerFunc{"https://as.example/token": keep, "https://as.example/revoke": keep, "https://as.example/device": keep}
	return e
}

func (e *endpoint) has(t *testing.T, want url.Values) {
	t.Helper()
	if got := e.form.Encode(); got != want.Encode() {
		t.Errorf("got the request\n%s\nwant\n%s", got, want.Encode())
	}
}

func secret(text string) oauth.Secret { return oauth.NewSecret(text) }

var goodToken = map[string]any{"access_token": "AT", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "RT", "scope": "a b"}

// Each grant sends what its RFC wants, the resource in each, and the secrets only where they
// belong (AUTH-05, AUTH-40, AUTH-44, AUTH-80, AUTH-81).
func TestGrants(t *testing.T) {
	a, q := begin(t, server(t, nil))
	tests := []struct {
		name  string
		grant *oauth.Grant
		want  url.Values
	}{
		{"code", oauth.CodeGrant(a, secret("CODE")), url.Values{"grant_type": {"authorization_code"}, "code": {"CODE"}, "redirect_uri": {callback}}},
		{"refresh", oauth.RefreshGrant(secret("RT"), []string{"a", "b"}), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"RT"}, "scope": {"a b"}}},
		{"refresh, the same scopes", oauth.RefreshGrant(secret("RT"), nil), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"RT"}}},
		{"client", oauth.ClientGrant([]string{"a"}), url.Values{"grant_type": {"client_credentials"}, "scope": {"a"}}},
		{"assertion", oauth.AssertionGrant(secret("JWT"), nil), url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {"JWT"}}},
		{"device", oauth.DeviceGrant(&oauth.Device{Code: secret("DC")}), url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {"DC"}}},
	}
	for _, tt := range tests {
		e := newEndpoint(doc(goodToken))
		c := &oauth.Client{Server: server(t, nil), ID: "c1", Method: oauth.AuthNone, Resource: mcpURL}
		tok, err := c.Token(t.Context(), e.client(), tt.grant, "")
		if err != nil || tok.Access.Reveal() != "AT" || tok.Refresh.Reveal() != "RT" || tok.Type != "Bearer" || fmt.Sprint(tok.Scopes) != "[a b]" || tok.SameScopes {
			t.Errorf("%s: got %+v, %v", tt.name, tok, err)
		}
		tt.want.Set("client_id", "c1")
		tt.want.Set("resource", mcpURL)
		if tt.name == "code" {
			verifier := e.form.Get("code_verifier")
			if e.form.Del("code_verifier"); challengeOf(verifier) != q.Get("code_challenge") {
				t.Errorf("code_verifier does not match the challenge")
			}
		}
		e.has(t, tt.want)
		if e.header.Get("Content-Type") != "application/x-www-form-urlencoded" || e.header.Get("Accept") != "application/json" || e.header.Get("Authorization") != "" {
			t.Errorf("%s: got the header %v", tt.name, e.header)
		}
		c.Resource = ""
		if _, err := c.Token(t.Context(), e.client(), tt.grant, ""); err != nil || e.form.Has("resource") {
			t.Errorf("%s: without a resource: got %v, %v", tt.name, e.form, err)
		}
	}
}

// An ID-JAG is asked for by token exchange, and nothing else is taken for one (AUTH-81).
func TestExchange(t *testing.T) {
	x := &oauth.Exchange{Requested: oauth.TypeIDJAG, Subject: secret("IDT"), SubjectType: oauth.TypeIDToken, Audience: "https://mcp-as.example", Scopes: []string{"a"}}
	for _, tt := range []struct {
		name   string
		answer map[string]any
		ok     bool
	}{
		{"an ID-JAG", map[string]any{"access_token": "JAG", "issued_token_type": oauth.TypeIDJAG, "token_type": "N_A", "expires_in": 300}, true},
		{"an access token", map[string]any{"access_token": "AT", "issued_token_type": oauth.TypeAccessToken, "token_type": "Bearer"}, false},
		{"no type", map[string]any{"access_token": "AT", "token_type": "N_A"}, false},
	} {
		e := newEndpoint(doc(tt.answer))
		c := &oauth.Client{Server: server(t, nil), ID: "c1", Method: oauth.AuthBasic, Secret: secret("s"), Resource: mcpURL}
		tok, err := c.Token(t.Context(), e.client(), oauth.ExchangeGrant(x), "")
		if (err == nil) != tt.ok || err == nil && (tok.Type != "N_A" || tok.Access.Reveal() != "JAG") {
			t.Errorf("%s: got %+v, %v", tt.name, tok, err)
		}
		e.has(t, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "requested_token_type": {oauth.TypeIDJAG}, "subject_token": {"IDT"},
			"subject_token_type": {oauth.TypeIDToken}, "audience": {"https://mcp-as.example"}, "resource": {mcpURL}, "scope": {"a"}})
	}
}

// Clients authenticate in four ways; with Basic id and secret are encoded as in a form
// (AUTH-80).
func TestClientAuthentication(t *testing.T) {
	e := newEndpoint(doc(goodToken))
	c := &oauth.Client{Server: server(t, nil), ID: "c:1 ü", Secret: secret("s:/+ %"), Method: oauth.AuthBasic}
	if _, err := c.Token(t.Context(), e.client(), oauth.ClientGrant(nil), ""); err != nil {
		t.Fatal(err)
	}
	e.has(t, url.Values{"grant_type": {"client_credentials"}})
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("c%3A1+%C3%BC:s%3A%2F%2B+%25"))
	if got := e.header.Get("Authorization"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c.Method = oauth.AuthPost
	if _, err := c.Token(t.Context(), e.client(), oauth.ClientGrant(nil), ""); err != nil || e.header.Get("Authorization") != "" {
		t.Errorf("post: got %v, %v", err, e.header)
	}
	e.has(t, url.Values{"grant_type": {"client_credentials"}, "client_id": {"c:1 ü"}, "client_secret": {"s:/+ %"}})
	c.ID, c.Method = "", oauth.AuthNone
	if _, err := c.Token(t.Context(), e.client(), oauth.AssertionGrant(secret("J"), nil), ""); err != nil || e.form.Has("client_id") {
		t.Errorf("a workload without a client id: got %v, %v", err, e.form)
	}
	for _, bad := range []*oauth.Client{{Method: oauth.AuthBasic}, {Method: oauth.AuthPost}, {Method: oauth.AuthKey}, {Method: "tls_client_auth"}, {}} {
		bad.Server, bad.ID = server(t, nil), "c"
		w := &web{}
		if _, err := bad.Token(t.Context(), w.client(), oauth.ClientGrant(nil), ""); err == nil {
			t.Errorf("%q without what it needs: got no error", bad.Method)
		}
		w.took(t)
	}
}

// What a token answer must have, and which numbers of seconds are believed (AUTH-44).
func TestTokenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &oauth.Client{Server: &oauth.Server{Issuer: "https://as.example", TokenEndpoint: "https://as.example/token"}, ID: "c1", Method: oauth.AuthNone}
		tests := []struct {
			answer  string
			expires time.Duration // -1: no token
		}{
			{`{"access_token":"AT","token_type":"bearer"}`, 0},
			{`{"access_token":"AT","token_type":"BEARER","expires_in":3600}`, time.Hour},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":"3600","refresh_token":null,"scope":null}`, time.Hour},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":3599.5}`, 3599 * time.Second},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":null}`, 0},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":0}`, 0},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":-5}`, 0},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":1e300}`, 10 * 365 * 24 * time.Hour},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":"9223372036854775808"}`, 10 * 365 * 24 * time.Hour},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":"soon"}`, -1},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":"NaN"}`, -1},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":[1]}`, -1},
			{`{"access_token":"AT","token_type":"Bearer","expires_in":true}`, -1},
			{`{"access_token":"AT","token_type":"Bearer","access_token":"B"}`, -1},
			{`{"access_token":"AT"}`, -1},
			{`{"access_token":"AT","token_type":"mac"}`, -1},
			{`{"access_token":"AT","token_type":"DPoP"}`, -1},
			{`{"access_token":"AT","token_type":"N_A"}`, -1},
			{`{"access_token":"","token_type":"Bearer"}`, -1},
			{`{"token_type":"Bearer"}`, -1},
			{`{"access_token":1,"token_type":"Bearer"}`, -1},
			{`{"access_token":"A T","token_type":"Bearer"}`, -1},
			{`{"access_token":"A\r\nX: y","token_type":"Bearer"}`, -1},
			{`{"access_token":"é","token_type":"Bearer"}`, -1},
			{`{"access_token":"AT","token_type":"Bearer","refresh_token":"a\u0000"}`, -1},
			{`{"access_token":"` + strings.Repeat("x", 33<<10) + `","token_type":"Bearer"}`, -1},
			{`{"access_token":"` + strings.Repeat("x", 66<<10) + `","token_type":"Bearer"}`, -1},
			{`["access_token"]`, -1},
			{`access_token=AT&token_type=bearer`, -1},
			{``, -1},
		}
		for _, tt := range tests {
			e := newEndpoint(text(http.StatusOK, tt.answer))
			tok, err := c.Token(t.Context(), e.client(), oauth.ClientGrant(nil), "")
			var want time.Time
			if tt.expires > 0 {
				want = time.Now().Add(tt.expires)
			}
			switch {
			case tt.expires < 0 && (err == nil || !errors.Is(err, oauth.ErrMalformed) && !errors.Is(err, netguard.ErrTooLarge) || oauth.Temporary(err)):
				t.Errorf("%.100s: got %v, want ErrMalformed", tt.answer, err)
			case tt.expires >= 0 && (err != nil || !tok.Expires.Equal(want) || !tok.SameScopes || !tok.Refresh.IsZero()):
				t.Errorf("%.100s: got %+v, %v, want that it expires in %v", tt.answer, tok, err, tt.expires)
			}
		}
	})
}

// An error has the code and a clean description, says whether to try again, and is the same in
// whatever shape it came.
func TestTokenErrors(t *testing.T) {
	c := &oauth.Client{Server: server(t, nil), ID: "c1", Method: oauth.AuthNone}
	tests := []struct {
		status    int
		body      string
		want      string
		temporary bool
	}{
		{400, `{"error":"invalid_grant","error_description":"It has\n\u001b[31mexpired.\u202e"}`, "refreshing the token: the server answers 400 invalid_grant (It has expired.)", false},
		{401, `{"error":"invalid_client"}`, "refreshing the token: the server answers 401 invalid_client", false},
		{200, `{"error":"invalid_grant"}`, "refreshing the token: the server answers 200 invalid_grant", false},
		{400, `{"error":"bad code\n"}`, "refreshing the token: the server answers 400 no error code", false},
		{400, `{"error":"a","error":"b"}`, "refreshing the token: the server answers 400 no error code", false},
		{400, `<html>private body</html>`, "refreshing the token: the server answers 400 no error code", false},
		{302, ``, "refreshing the token: the server answers 302 no error code", false},
		{500, `private body`, "refreshing the token: the server answers 500 no error code", true},
		{503, `{"error":"temporarily_unavailable"}`, "refreshing the token: the server answers 503 temporarily_unavailable", true},
		{400, `{"error":"server_error"}`, "refreshing the token: the server answers 400 server_error", true},
		{429, `{"error":"too_many"}`, "refreshing the token: the server answers 429 too_many", true},
		{503, `{"error":"invalid_grant"}`, "refreshing the token: the server answers 503 invalid_grant", true},
	}
	for _, tt := range tests {
		e := newEndpoint(text(tt.status, tt.body))
		_, err := c.Token(t.Context(), e.client(), oauth.RefreshGrant(secret("RT-long-enough"), nil), "")
		if err == nil || err.Error() != tt.want || oauth.Temporary(err) != tt.temporary {
			t.Errorf("%d %s: got %q (temporary %v), want %q (%v)", tt.status, tt.body, err, oauth.Temporary(err), tt.want, tt.temporary)
		}
		e.took(t, "POST https://as.example/token")
	}
	long := newEndpoint(text(400, `{"error":"x","error_description":"`+strings.Repeat("y", 5000)+`"}`))
	if _, err := c.Token(t.Context(), long.client(), oauth.ClientGrant(nil), ""); len(err.Error()) > 500 {
		t.Errorf("a long description: got %d bytes", len(err.Error()))
	}
	later := newEndpoint(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "99999999")
		w.WriteHeader(429)
	})
	_, err := c.Token(t.Context(), later.client(), oauth.ClientGrant(nil), "")
	if e, ok := errors.AsType[*oauth.Error](err); !ok || e.RetryAfter != time.Hour {
		t.Errorf("Retry-After: got %v", err)
	}
	gone := &web{down: map[string]error{"as.example": errors.New("no route")}}
	if _, err := c.Token(t.Context(), gone.client(), oauth.ClientGrant(nil), ""); !oauth.Temporary(err) {
		t.Errorf("no network: got %v, want a temporary error", err)
	}
	c.Server = &oauth.Server{}
	if _, err := c.Token(t.Context(), gone.client(), oauth.ClientGrant(nil), ""); !errors.Is(err, oauth.ErrNotSupported) {
		t.Errorf("no endpoint: got %v", err)
	}
}

// No secret of a request comes back in an error, though the server repeats all that it got, in
// the error, the description, the address and the body (SECA-27).
func TestNoSecretInErrors(t *testing.T) {
	a, _ := begin(t, server(t, nil))
	key := signingKeys(t)["ES256"]
	grants := map[string]*oauth.Grant{
		"code": oauth.CodeGrant(a, secret(planted)), "refresh": oauth.RefreshGrant(secret(planted), nil), "assertion": oauth.AssertionGrant(secret(planted), nil),
		"device": oauth.DeviceGrant(&oauth.Device{Code: secret(planted)}), "client": oauth.ClientGrant(nil),
		"exchange": oauth.ExchangeGrant(&oauth.Exchange{Subject: secret(planted)}),
	}
	for name, g := range grants {
		for _, method := range []oauth.AuthMethod{oauth.AuthNone, oauth.AuthBasic, oauth.AuthPost, oauth.AuthKey} {
			c := &oauth.Client{Server: server(t, nil), ID: "c1", Method: method, Secret: secret(planted + "/&"), Key: key, Resource: mcpURL}
			for status := range map[int]bool{200: true, 400: true, 401: true, 500: true} {
				var e *endpoint
				e = newEndpoint(func(w http.ResponseWriter, _ *http.Request) {
					said := e.header.Get("Authorization")
					for _, v := range e.form {
						said += " " + v[0] + " " + url.QueryEscape(v[0])
					}
					answerJSON(w, status, map[string]string{"error": e.form.Get("client_secret") + e.form.Get("refresh_token") + "x", "error_description": said, "access_token": planted + "\n"})
				})
				_, err := c.Token(t.Context(), e.client(), g, "")
				if err == nil {
					t.Fatalf("%s with %s, %d: got no error", name, method, status)
				}
				basic := base64.StdEncoding.EncodeToString([]byte("c1:" + url.QueryEscape(planted+"/&")))
				for _, form := range []string{planted, basic, e.form.Get("client_assertion"), e.form.Get("code_verifier")} {
					if text := fmt.Sprintf("%v %+v %#v", err, err, err); form != "" && strings.Contains(text, form) {
						t.Errorf("%s with %s, %d: the error has the secret %s: %s", name, method, status, form, text)
					}
				}
			}
		}
	}
}

// FuzzToken: an answer that passes has a token that fits in a header, and an error has nothing
// of the body.
func FuzzToken(f *testing.F) {
	f.Add([]byte(`{"access_token":"AT","token_type":"Bearer","expires_in":"3600","scope":"a b","refresh_token":"RT"}`), 200)
	f.Add([]byte(`{"error":"invalid_grant","error_description":"\u001b[31m"}`), 400)
	f.Add([]byte(`{"access_token":"A T","token_type":1,"expires_in":{}}`), 200)
	s := &oauth.Server{Issuer: "https://as.example", TokenEndpoint: "https://as.example/token"}
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		if status < 200 || status > 599 {
			return
		}
		e := newEndpoint(text(status, string(body)))
		c := &oauth.Client{Server: s, ID: "c1", Method: oauth.AuthNone}
		tok, err := c.Token(t.Context(), e.client(), oauth.RefreshGrant(secret(planted), nil), "")
		switch {
		case err == nil:
			if at := tok.Access.Reveal(); at == "" || strings.ContainsAny(at+tok.Refresh.Reveal(), " \r\n\x00") || tok.Type != "Bearer" || tok.Expires.After(time.Now().AddDate(11, 0, 0)) {
				t.Errorf("got %q, %+v", at, tok)
			}
		case strings.ContainsAny(err.Error(), "\n\x1b\x00") || len(err.Error()) > 2000:
			t.Errorf("the error is not fit to be shown: %q", err)
		}
	})
}
