// Package hub is a service with accounts and repositories, like GitHub as far as an example needs
// it: OAuth with PKCE, an API, and everything in memory.
package hub

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/mcpserver/connect"
)

// The client that is registered here.
const (
	clientID     = "example"
	clientSecret = "example-secret"
)

// Provider describes the hub at an address. For GitHub itself it is connect.GitHub(id, secret).
func Provider(at string) connect.Provider {
	return connect.OAuth("hub", connect.OAuthConfig{
		Title: "Hub", ClientID: clientID, ClientSecret: clientSecret, Issuer: at,
		AuthorizeURL: at + "/authorize", TokenURL: at + "/token", RevokeURL: at + "/revoke",
		API: []string{at}, AccountURL: at + "/user", AccountField: "login",
	})
}

// Hub is the service. The zero value is ready.
type Hub struct {
	mu     sync.Mutex
	codes  map[string]code
	tokens map[string]string // the account of each token
}

// code is what a person has agreed to.
type code struct{ account, challenge, redirect string }

func random() string {
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

var agree = template.Must(template.New("").Parse(`<!doctype html><title>Hub</title><h1>Hub</h1>
<p>An application wants to use your account{{with .}} ({{.}}){{end}}.</p>
<form method="post"><label>You are <input name="account" value="octocat"></label>
<button name="do" value="agree">Agree</button> <button name="do" value="deny">Deny</button></form>`))

// ServeHTTP implements [http.Handler].
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/authorize":
		h.authorize(w, r)
	case "/token":
		h.token(w, r)
	case "/revoke":
		h.mu.Lock()
		delete(h.tokens, r.PostFormValue("token"))
		h.mu.Unlock()
	case "/user":
		h.api(w, r, func(account string) any { return map[string]string{"login": account} })
	case "/user/repos":
		h.api(w, r, func(account string) any { return []string{account + "/hello-world", account + "/dotfiles"} })
	default:
		http.NotFound(w, r)
	}
}

// authorize asks the person, and sends the browser back with a code.
func (h *Hub) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != clientID || back.Hostname() != "127.0.0.1" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "this application is not registered here", http.StatusBadRequest)
		return
	}
	if r.Method != http.MethodPost {
		_ = agree.Execute(w, q.Get("scope"))
		return
	}
	answer := url.Values{"state": {q.Get("state")}, "iss": {"http://" + r.Host}}
	if r.PostFormValue("do") == "agree" {
		c := random()
		h.mu.Lock()
		if h.codes == nil {
			h.codes, h.tokens = make(map[string]code), make(map[string]string)
		}
		h.codes[c] = code{r.PostFormValue("account"), q.Get("code_challenge"), q.Get("redirect_uri")}
		h.mu.Unlock()
		answer.Set("code", c)
	} else {
		answer.Set("error", "access_denied")
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}

// token gives a token for a code, once, to the client that asked for it.
func (h *Hub) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.codes[r.PostFormValue("code")]
	delete(h.codes, r.PostFormValue("code"))
	w.Header().Set("Content-Type", "application/json")
	if !ok || id != clientID || secret != clientSecret || c.redirect != r.PostFormValue("redirect_uri") || c.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant"})
		return
	}
	t := random()
	h.tokens[t] = c.account
	_ = json.NewEncoder(w).Encode(map[string]string{"access_token": t, "token_type": "Bearer"})
}

// api answers for the account of the token.
func (h *Hub) api(w http.ResponseWriter, r *http.Request, answer func(account string) any) {
	h.mu.Lock()
	account, ok := h.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	h.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer(account))
}
