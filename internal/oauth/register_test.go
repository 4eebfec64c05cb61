package oauth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
)

// native is the client that a command line registers.
func native() *oauth.Metadata {
	return &oauth.Metadata{Name: "Troupe", RedirectURIs: []string{callback}, GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		AuthMethod: oauth.AuthNone, ApplicationType: "native", Scope: "a b"}
}

// A registration sends the client's metadata with its application type, and its answer is
// checked (AUTH-12, AUTH-33, SECA-24).
func TestRegister(t *testing.T) {
	tests := []struct {
		name   string
		status int
		answer string
		want   string // of the client; or of an error, in part
		ok     bool
	}{
		{"public", 201, `{"client_id":"c1","redirect_uris":["` + callback + `"],"client_id_issued_at":1}`, "c1 none", true},
		{"200", 200, `{"client_id":"c1"}`, "c1 none", true},
		{"with a secret", 201, `{"client_id":"c1","client_secret":"` + planted + `","client_secret_expires_at":2000000000,"token_endpoint_auth_method":"client_secret_basic"}`, "c1 client_secret_basic", true},
		{"a secret for ever", 201, `{"client_id":"c1","client_secret":"` + planted + `","client_secret_expires_at":0,"token_endpoint_auth_method":"client_secret_post"}`, "c1 client_secret_post", true},
		{"no id", 201, `{}`, "client_id is missing", false},
		{"an id with control characters", 201, `{"client_id":"c\u0001"}`, "client_id is missing", false},
		{"a long id", 201, `{"client_id":"` + strings.Repeat("x", 3000) + `"}`, "client_id is missing", false},
		{"a secret with control characters", 201, `{"client_id":"c1","client_secret":"` + planted + `\n"}`, "client_secret", false},
		{"a method without its secret", 201, `{"client_id":"c1","token_endpoint_auth_method":"client_secret_basic"}`, "there is no client_secret", false},
		{"an unknown method", 201, `{"client_id":"c1","token_endpoint_auth_method":"\u001b[31m"}`, "none that the client knows", false},
		{"another redirect URI", 201, `{"client_id":"c1","redirect_uris":["https://evil.example/cb"]}`, "redirect_uris", false},
		{"a member twice", 201, `{"client_id":"c1","client_id":"c2"}`, "malformed", false},
		{"managed elsewhere", 201, `{"client_id":"c1","registration_client_uri":"http://127.0.0.1/"}`, "registration_client_uri", false},
		{"refused", 400, `{"error":"invalid_redirect_uri","error_description":"No ` + planted + `"}`, "400 invalid_redirect_uri (No ***)", false},
		{"refused without a code", 403, `<html>`, "403 no error code", false},
		{"redirected", 307, ``, "307 no error code", false},
	}
	for _, tt := range tests {
		var sent map[string]any
		w := &web{pages: map[string]http.HandlerFunc{"https://as.example/register": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &sent); err != nil || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "Bearer "+planted {
				t.Errorf("%s: got %s, %v", tt.name, body, r.Header)
			}
			text(tt.status, tt.answer)(w, r)
		}}}
		r, err := oauth.Register(t.Context(), w.client(), server(t, nil), native(), oauth.NewSecret(planted))
		if sent["application_type"] != "native" || sent["token_endpoint_auth_method"] != "none" || fmt.Sprint(sent["redirect_uris"]) != "["+callback+"]" || sent["client_id"] != nil {
			t.Errorf("%s: got the request %v", tt.name, sent)
		}
		switch {
		case tt.ok && (err != nil || r.ID+" "+string(r.Method) != tt.want):
			t.Errorf("%s: got %+v, %v, want %s", tt.name, r, err, tt.want)
		case !tt.ok && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), planted) || strings.Contains(err.Error(), "\x1b")):
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		case tt.name == "with a secret" && !r.SecretExpires.Equal(time.Unix(2_000_000_000, 0)), tt.name == "a secret for ever" && !r.SecretExpires.IsZero():
			t.Errorf("%s: it expires at %v", tt.name, r.SecretExpires)
		}
	}
	if _, err := oauth.Register(t.Context(), new(web).client(), server(t, map[string]any{"registration_endpoint": nil}), native(), oauth.Secret{}); !errors.Is(err, oauth.ErrNotSupported) {
		t.Errorf("no endpoint: got %v", err)
	}
}

// A client id that is an address, and the document there, which has it byte by byte (AUTH-31,
// AUTH-32).
func TestClientIDDocument(t *testing.T) {
	const id = "https://app.example/client.json"
	for bad, ok := range map[string]bool{id: true, "https://app.example/a?x=1": true, "https://app.example": false, "https://app.example/": false, "http://localhost/c": false,
		"https://App.example/c": false, "https://app.example:443/c": false, "https://app.example/c#f": false, "https://u@app.example/c": false, "https://app.example/a/../c": false, "c1": false, "": false} {
		if err := oauth.CheckClientID(bad); (err == nil) != ok {
			t.Errorf("CheckClientID(%q): got %v, want ok=%v", bad, err, ok)
		}
	}
	good := func(changes map[string]any) map[string]any {
		m := map[string]any{"client_id": id, "client_name": "App", "redirect_uris": []string{callback, "app.example:/cb"}, "token_endpoint_auth_method": "none", "logo_uri": "x"}
		for name, v := range changes {
			m[name] = v
		}
		return m
	}
	for name, tt := range map[string]struct {
		changes map[string]any
		ok      bool
	}{
		"good":                 {nil, true},
		"another id":           {map[string]any{"client_id": id + "?"}, false},
		"no name":              {map[string]any{"client_name": ""}, false},
		"no redirect":          {map[string]any{"redirect_uris": []string{}}, false},
		"a relative redirect":  {map[string]any{"redirect_uris": []string{"/cb"}}, false},
		"a fragment":           {map[string]any{"redirect_uris": []string{callback + "#x"}}, false},
		"a secret":             {map[string]any{"token_endpoint_auth_method": "client_secret_post"}, false},
		"members of one type":  {map[string]any{"redirect_uris": callback}, false},
		"a user in a redirect": {map[string]any{"redirect_uris": []string{"https://u@app.example/"}}, false},
	} {
		w := &web{pages: map[string]http.HandlerFunc{id: doc(good(tt.changes))}}
		if m, err := oauth.FetchMetadata(t.Context(), w.client(), id); (err == nil) != tt.ok {
			t.Errorf("%s: got %+v, %v", name, m, err)
		}
	}
	if _, err := oauth.FetchMetadata(t.Context(), new(web).client(), id); !errors.Is(err, oauth.ErrNoMetadata) {
		t.Errorf("no document: got %v", err)
	}
}
