package connect

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpserver/internal/visit"
)

// OIDCOptions describes the OpenID provider at which visitors log in: the one whose tokens MCP
// requests have, so that issuer and subject are the same.
type OIDCOptions struct {
	// Issuer is the provider's, byte by byte as in its metadata.
	Issuer string
	// ClientID and ClientSecret are of a client with the redirect address Options.Base +
	// "/login/callback". A public client has no secret.
	ClientID, ClientSecret string
	// PostSecret sends the secret in the body of requests, in place of the header.
	PostSecret bool
	// Session is how long a visitor stays logged in. Zero means an hour.
	Session time.Duration
}

// OIDC is a login at an OpenID provider, with pages of its own below Options.Base + "/login".
func OIDC(o OIDCOptions) Login { return &oidcLogin{opts: o} }

// oidcLogin sends visitors to the provider, and keeps who they are in a sealed cookie.
type oidcLogin struct {
	opts OIDCOptions
	at   *provider
	c    *Connector
	site *site
}

// Cookies of the login.
const (
	sessionCookie = "troupe-connect-login"
	loginCookie   = "troupe-connect-begun"
)

// visitor is the value of the session cookie.
type visitor struct {
	Issuer  string    `json:"iss"`
	Subject string    `json:"sub"`
	Until   time.Time `json:"until"`
}

// begun is the value of the cookie of a login under way.
type begun struct {
	State    string    `json:"state"`
	Verifier string    `json:"verifier"`
	Nonce    string    `json:"nonce"`
	Back     string    `json:"back"`
	Until    time.Time `json:"until"`
}

// join makes the login one of a connector.
func (l *oidcLogin) join(c *Connector, base *url.URL) error {
	if l.c != nil {
		return errors.New("connect: a connector has this login already")
	}
	l.c, l.site = c, c.site
	p, err := OAuth("login", OAuthConfig{
		Issuer: l.opts.Issuer, ClientID: l.opts.ClientID, ClientSecret: l.opts.ClientSecret, PostSecret: l.opts.PostSecret, API: []string{base.Scheme + "://" + base.Host},
	}).open(nil, oauth.OnLoopback(base.String()))
	if err != nil {
		return fmt.Errorf("connect: OIDC: %w", err)
	}
	l.at = p
	return nil
}

// Visitor implements [Login].
func (l *oidcLogin) Visitor(r *http.Request) (issuer, subject string, ok bool) {
	var v visitor
	if l.c == nil || !l.site.cookies.Read(r, sessionCookie, &v) || !time.Now().Before(v.Until) {
		return "", "", false
	}
	return v.Issuer, v.Subject, true
}

func (l *oidcLogin) enter(back string) string {
	return visit.WithQuery(l.site.path("login"), "return_to", back)
}

// serve is the pages of the login.
func (l *oidcLogin) serve(s *site, w http.ResponseWriter, r *http.Request, name string) {
	var err error
	switch {
	case r.Method != http.MethodGet:
		s.say(w, http.StatusMethodNotAllowed, "This page can be read only.")
	case name == "":
		err = l.begin(w, r)
	case name == "callback":
		err = l.finish(w, r)
	default:
		s.say(w, http.StatusNotFound, "There is no such page.")
	}
	if err != nil {
		l.c.log.Warn("a visitor is not logged in", "error", err)
		s.say(w, http.StatusBadGateway, "The login did not succeed. Open the page again to try once more.")
	}
}

// begin sends the browser to the provider. It changes nothing but a cookie.
func (l *oidcLogin) begin(w http.ResponseWriter, r *http.Request) error {
	back := r.URL.Query().Get("return_to")
	if !l.ours(back) {
		back = l.site.path()
	}
	client, err := l.at.client(r.Context())
	if err != nil {
		return err
	}
	nonce := visit.Random()
	a, err := client.Begin(l.site.address("login", "callback"), []string{"openid"}, map[string]string{"nonce": nonce})
	if err != nil {
		return err
	}
	state, verifier := a.Secrets()
	b := begun{State: state.Reveal(), Verifier: verifier.Reveal(), Nonce: nonce, Back: back, Until: time.Now().Add(flowLife)}
	if err := l.site.cookies.Write(w, loginCookie, &b, flowLife); err != nil {
		return err
	}
	w.Header().Set("Location", a.URL)
	w.WriteHeader(http.StatusFound)
	return nil
}

// ours reports whether an address is a path of our pages, which is no redirect to elsewhere.
func (l *oidcLogin) ours(back string) bool {
	u, err := url.Parse(back)
	return err == nil && u.Scheme == "" && u.Host == "" && !strings.HasPrefix(back, "//") && !strings.ContainsAny(back, "\\\r\n") &&
		(back == l.site.path() || strings.HasPrefix(back, l.site.path("start")+"/"))
}

// finish takes the answer of the provider.
func (l *oidcLogin) finish(w http.ResponseWriter, r *http.Request) error {
	var b begun
	if !l.site.cookies.Read(r, loginCookie, &b) || !time.Now().Before(b.Until) {
		return errors.New("no login was begun in this browser")
	}
	client, err := l.at.client(r.Context())
	if err != nil {
		return err
	}
	a := client.Resume(l.site.address("login", "callback"), []string{"openid"}, oauth.NewSecret(b.State), oauth.NewSecret(b.Verifier))
	code, err := a.Finish(r.URL.RawQuery)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	t, err := client.Token(ctx, l.at.http, oauth.CodeGrant(a, code), "")
	if err != nil {
		return err
	}
	subject, err := subjectOf(t.ID, client.Server.Issuer, l.opts.ClientID, b.Nonce)
	if err != nil {
		return err
	}
	life := l.opts.Session
	if life <= 0 {
		life = time.Hour
	}
	v := visitor{Issuer: client.Server.Issuer, Subject: subject, Until: time.Now().Add(life)}
	if err := l.site.cookies.Write(w, sessionCookie, &v, life); err != nil {
		return err
	}
	l.site.cookies.Set(w, loginCookie, "", -time.Second)
	http.Redirect(w, r, b.Back, http.StatusSeeOther)
	return nil
}

// subjectOf reads an ID token that came from the token endpoint itself, by TLS: its signature
// says no more than that (OpenID Connect Core section 3.1.3.7).
func subjectOf(token oauth.Secret, issuer, client, nonce string) (string, error) {
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 {
		return "", errors.New("the provider gave no ID token")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", errors.New("the ID token is malformed")
	}
	var claims struct {
		Issuer   string      `json:"iss"`
		Subject  string      `json:"sub"`
		Audience jsonx.Value `json:"aud"`
		Party    string      `json:"azp"`
		Expires  float64     `json:"exp"`
		Nonce    string      `json:"nonce"`
	}
	if jsonx.Unmarshal(raw, &claims) != nil {
		return "", errors.New("the ID token is malformed")
	}
	var audience []string
	if one, ok := jsonx.Text([]byte(claims.Audience)); ok {
		audience = []string{one}
	} else if jsonx.Unmarshal([]byte(claims.Audience), &audience) != nil {
		return "", errors.New("the ID token is malformed")
	}
	switch {
	case claims.Issuer != issuer:
		return "", fmt.Errorf("the ID token: %w", oauth.ErrIssuer)
	case !slices.Contains(audience, client), len(audience) > 1 && claims.Party != client:
		return "", errors.New("the ID token is for another client")
	case time.Unix(int64(claims.Expires), 0).Before(time.Now().Add(-time.Minute)):
		return "", errors.New("the ID token has expired")
	case nonce == "" || claims.Nonce != nonce:
		return "", errors.New("the ID token answers another login")
	case claims.Subject == "" || len(claims.Subject) > 255:
		return "", errors.New("the ID token has no subject")
	}
	return claims.Subject, nil
}
