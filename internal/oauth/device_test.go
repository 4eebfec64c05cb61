package oauth_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
)

// A device authorization is shown, waited for as the server wants, and ends with a token or for
// good (RFC 8628, AUTH-40).
func TestDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []string{oauth.CodeAuthorizationPending, oauth.CodeSlowDown, "500", oauth.CodeAuthorizationPending, ""}
		e := newEndpoint(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/device" {
				answerJSON(w, 200, map[string]any{"device_code": "DC-secret", "user_code": "WDJB-MJHT", "verification_uri": "https://as.example/d",
					"verification_uri_complete": "https://as.example/d?c=WDJB-MJHT", "expires_in": "600", "interval": 2})
				return
			}
			code := answers[0]
			answers = answers[1:]
			switch code {
			case "":
				answerJSON(w, 200, goodToken)
			case "500":
				w.WriteHeader(500)
			default:
				answerJSON(w, 400, map[string]string{"error": code})
			}
		})
		c := &oauth.Client{Server: &oauth.Server{Issuer: "https://as.example", TokenEndpoint: "https://as.example/token", DeviceEndpoint: "https://as.example/device"},
			ID: "c1", Method: oauth.AuthNone, Resource: mcpURL}
		d, err := c.StartDevice(t.Context(), e.client(), []string{"a"})
		if err != nil || d.UserCode != "WDJB-MJHT" || d.URL != "https://as.example/d" || d.FullURL != "https://as.example/d?c=WDJB-MJHT" || d.Interval != 2*time.Second || !d.Expires.Equal(time.Now().Add(10*time.Minute)) {
			t.Fatalf("got %+v, %v", d, err)
		}
		e.has(t, url.Values{"client_id": {"c1"}, "scope": {"a"}, "resource": {mcpURL}})
		var waits []time.Duration
		for {
			time.Sleep(d.Interval)
			waits = append(waits, d.Interval)
			tok, err := c.Token(t.Context(), e.client(), oauth.DeviceGrant(d), "")
			if err == nil {
				if tok.Access.Reveal() != "AT" {
					t.Errorf("got %+v", tok)
				}
				break
			}
			if !d.Again(err, time.Now()) {
				t.Fatalf("gave up after %v", err)
			}
		}
		if want := []time.Duration{2, 2, 7, 12, 12}; len(waits) != len(want) || waits[1] != 2*time.Second || waits[2] != 7*time.Second || waits[3] != 12*time.Second || waits[4] != 12*time.Second {
			t.Errorf("got the waits %v, want %v seconds", waits, want)
		}
		for _, code := range []string{oauth.CodeAccessDenied, oauth.CodeExpiredToken, oauth.CodeInvalidGrant} {
			if d.Again(&oauth.Error{Status: 400, Code: code}, time.Now()) {
				t.Errorf("%s: got that it is asked again", code)
			}
		}
		pending := &oauth.Error{Status: 400, Code: oauth.CodeAuthorizationPending}
		if d.Again(pending, d.Expires) {
			t.Error("after its end: got that it is asked again")
		}
		for range 1000 {
			d.Again(&oauth.Error{Status: 400, Code: oauth.CodeSlowDown}, time.Now())
		}
		if d.Interval != 5*time.Minute {
			t.Errorf("1,000 times slow_down: got an interval of %v", d.Interval)
		}
	})
}

// What a hostile server may say about a device (SECA-15, SECA-37).
func TestDeviceAnswers(t *testing.T) {
	c := &oauth.Client{Server: server(t, nil), ID: "c1", Method: oauth.AuthNone}
	const rest = `"device_code":"DC","user_code":"AB","verification_uri":"https://as.example/d"`
	for answer, ok := range map[string]bool{
		`{` + rest + `}`: true,
		`{` + rest + `,"interval":-1,"expires_in":1e300}`:                                                              true,
		`{` + rest + `,"interval":1e18}`:                                                                               true,
		`{` + rest + `,"interval":"often"}`:                                                                            false,
		`{` + rest + `,"user_code":"CD"}`:                                                                              false,
		`{"device_code":"DC","user_code":"A\u001b[31mB","verification_uri":"https://as.example/d"}`:                    false,
		`{"device_code":"DC","user_code":"A\u202eB","verification_uri":"https://as.example/d"}`:                        false,
		`{"device_code":"DC","user_code":"` + strings.Repeat("A", 99) + `","verification_uri":"https://as.example/d"}`: false,
		`{"device_code":"D\u0000","user_code":"AB","verification_uri":"https://as.example/d"}`:                         false,
		`{"device_code":"DC","user_code":"AB","verification_uri":"javascript:alert(1)"}`:                               false,
		`{"device_code":"DC","user_code":"AB","verification_uri":"http://127.0.0.1/"}`:                                 false,
		`{` + rest + `,"verification_uri_complete":"file:///etc/passwd"}`:                                              false,
		`{"user_code":"AB","verification_uri":"https://as.example/d"}`:                                                 false,
	} {
		e := newEndpoint(text(200, answer))
		d, err := c.StartDevice(t.Context(), e.client(), nil)
		if (err == nil) != ok || err == nil && (d.Interval < time.Second || d.Interval > 5*time.Minute || d.Expires.After(time.Now().Add(2*time.Hour))) {
			t.Errorf("%.120s: got %+v, %v, want ok=%v", answer, d, err, ok)
		}
	}
	c.Server = server(t, map[string]any{"device_authorization_endpoint": nil})
	if _, err := c.StartDevice(t.Context(), new(web).client(), nil); !errors.Is(err, oauth.ErrNotSupported) {
		t.Errorf("no endpoint: got %v", err)
	}
}

// Tokens are revoked at the server, with the client's authentication, and not shown (SECA-27).
func TestRevoke(t *testing.T) {
	e := newEndpoint(text(200, ""))
	c := &oauth.Client{Server: server(t, nil), ID: "c1", Method: oauth.AuthPost, Secret: secret("s")}
	if err := c.Revoke(t.Context(), e.client(), secret(planted), "refresh_token"); err != nil {
		t.Error(err)
	}
	e.has(t, url.Values{"token": {planted}, "token_type_hint": {"refresh_token"}, "client_id": {"c1"}, "client_secret": {"s"}})
	e = newEndpoint(text(503, `{"error":"temporarily_unavailable","error_description":"`+planted+`"}`))
	if err := c.Revoke(t.Context(), e.client(), secret(planted), ""); !oauth.Temporary(err) || strings.Contains(err.Error(), planted) {
		t.Errorf("in trouble: got %v", err)
	}
	c.Server = server(t, map[string]any{"revocation_endpoint": nil})
	if err := c.Revoke(t.Context(), e.client(), secret(planted), ""); !errors.Is(err, oauth.ErrNotSupported) {
		t.Errorf("no endpoint: got %v", err)
	}
}
