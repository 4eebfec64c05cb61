package connect

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/visit"
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
	way  visit.OpenID
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
	l.way = visit.OpenID{Client: p.client, Cookies: &l.site.cookies, Cookie: loginCookie, Callback: l.site.address("login", "callback")}
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
	return l.way.Begin(w, r, back, []string{"openid"}, nil)
}

// ours reports whether an address is a path of our pages, which is no redirect to elsewhere.
func (l *oidcLogin) ours(back string) bool {
	u, err := url.Parse(back)
	return err == nil && u.Scheme == "" && u.Host == "" && !strings.HasPrefix(back, "//") && !strings.ContainsAny(back, "\\\r\n") &&
		(back == l.site.path() || strings.HasPrefix(back, l.site.path("start")+"/"))
}

// finish takes the answer of the provider.
func (l *oidcLogin) finish(w http.ResponseWriter, r *http.Request) error {
	a, err := l.way.Finish(w, r)
	if err != nil {
		return err
	}
	life := l.opts.Session
	if life <= 0 {
		life = time.Hour
	}
	v := visitor{Issuer: a.Issuer, Subject: a.Subject, Until: time.Now().Add(life)}
	if err := l.site.cookies.Write(w, sessionCookie, &v, life); err != nil {
		return err
	}
	http.Redirect(w, r, a.Back, http.StatusSeeOther)
	return nil
}
