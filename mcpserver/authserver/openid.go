package authserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/store"
)

// OIDCOptions describes the OpenID provider at which people log in: one whose own tokens do not
// fit, because it knows no resources or registers no clients.
type OIDCOptions struct {
	// Issuer is the provider's, byte by byte as in its metadata.
	Issuer string
	// ClientID and ClientSecret are of a client there, with the redirect address Options.Issuer +
	// "/login/callback". A public client has no secret.
	ClientID, ClientSecret string
	// PostSecret sends the secret in the body of requests, in place of the header.
	PostSecret bool
	// Scopes are asked for beside openid.
	Scopes []string
	// HTTP contacts the provider. Nil is a client that contacts the host of Issuer and public
	// addresses.
	HTTP *http.Client
}

// OIDC is a login at an OpenID provider. Subjects are those of the provider. Where it gives refresh
// tokens, what was granted here is good only as long as the provider renews the login: that is asked
// at most every 30 seconds, and a provider that cannot be reached lets no token be renewed.
func OIDC(o OIDCOptions) Login { return &openID{opts: o} }

type openID struct {
	opts     OIDCOptions
	pages    *pages
	records  *records
	at       visit.OpenID
	provider *visit.Provider
}

// upstream is the login of a person at the provider. It is a record of the person.
type upstream struct {
	Refresh string    `json:"refresh"`
	Checked time.Time `json:"checked,omitzero"`
}

const (
	kindUpstream = "authserver-upstream"
	openIDCookie = "troupe-auth-begun"

	upstreamLife = 2 * time.Hour    // of a login that no consent has followed
	checkedFor   = 30 * time.Second // with the 30 seconds of a resource server that is a minute
)

func (l *openID) join(v *pages, k *records) error {
	if l.pages != nil {
		return errors.New("a server has this login already")
	}
	o := &l.opts
	l.provider = &visit.Provider{Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret, PostSecret: o.PostSecret, HTTP: o.HTTP}
	if err := l.provider.Open(oauth.OnLoopback(v.opts.Issuer)); err != nil {
		return fmt.Errorf("OIDCOptions: %w", err)
	}
	l.pages, l.records = v, k
	l.at = visit.OpenID{Client: l.provider.Client, HTTP: l.provider.HTTP, Cookies: &v.cookies, Cookie: openIDCookie, Callback: v.at("login/callback")}
	return nil
}

func (l *openID) visitor(r *http.Request) (person, bool) { return l.pages.loggedIn(r) }

func (l *openID) enter(w http.ResponseWriter, _ *http.Request, back string) error {
	w.Header().Set("Location", visit.WithQuery(l.pages.path("login"), "return_to", back))
	w.WriteHeader(http.StatusFound)
	return nil
}

func (l *openID) serve(w http.ResponseWriter, r *http.Request, page string) error {
	var err error
	switch {
	case r.Method == http.MethodPost || page != "" && page != "callback":
		l.pages.say(w, http.StatusNotFound, "This page does not exist.")
	case page == "callback":
		err = l.finish(w, r)
	default:
		back := r.URL.Query().Get("return_to")
		if !visit.IsPath(back) {
			if who, ok := l.visitor(r); ok {
				l.pages.say(w, http.StatusOK, "You are logged in as "+who.Subject+".")
				return nil
			}
			back = l.pages.path("login")
		}
		err = l.begin(w, r, back)
	}
	if err != nil {
		l.pages.log.Warn("a visitor is not logged in", "error", err)
		l.pages.say(w, http.StatusBadGateway, "The login did not succeed. Begin again in the program that has sent you here.")
	}
	return nil
}

// begin sends the browser to the provider. With offline access the login can be asked about later.
func (l *openID) begin(w http.ResponseWriter, r *http.Request, back string) error {
	c, err := l.provider.Client(r.Context())
	if err != nil {
		return err
	}
	scopes, params := append([]string{"openid"}, l.opts.Scopes...), map[string]string(nil)
	if slices.Contains(c.Server.Scopes, offline) {
		scopes, params = append(scopes, offline), map[string]string{"prompt": "consent"} // OpenID Connect Core, section 11
	}
	return l.at.Begin(w, r, back, scopes, params)
}

// finish takes the answer of the provider, in the browser that was sent there (CVE-2026-27124).
func (l *openID) finish(w http.ResponseWriter, r *http.Request) error {
	a, err := l.at.Finish(w, r)
	if err != nil {
		return err
	}
	who := person{Subject: a.Subject}
	if !a.Refresh.IsZero() {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		who.Login = hex.EncodeToString(id[:])
		if err := l.keep(r.Context(), who, &upstream{Refresh: a.Refresh.Reveal()}, upstreamLife); err != nil {
			return err
		}
	}
	l.pages.log.Info("a user logs in", "subject", who.Subject, "address", l.pages.addressOf(r), "renewable", who.Login != "")
	if err := l.pages.logIn(w, who); err != nil {
		return err
	}
	w.Header().Set("Location", a.Back)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// keep writes a login at the provider.
func (l *openID) keep(ctx context.Context, who person, u *upstream, life time.Duration) error {
	if err := l.records.put(ctx, kindUpstream, l.records.ownerOf(who.Subject), who.Login, u, time.Now().Add(life)); err != nil {
		return fmt.Errorf("keeping a login: %w", err)
	}
	return nil
}

// active asks the provider whether it renews the login of a grant, unless that was asked a moment
// ago. One request asks, in all instances: a refresh token is of one use there, too.
func (l *openID) active(ctx context.Context, g *grant) (bool, error) {
	if g.Login == "" {
		return true, nil // the provider cannot be asked
	}
	owner, by := l.records.ownerOf(g.Subject), rand.Text()
	place := owner + "." + g.Login
	for wait := time.Duration(0); ; wait += 200 * time.Millisecond {
		var u upstream
		found, err := l.records.get(ctx, kindUpstream, owner, g.Login, &u)
		if err != nil || !found {
			return false, err
		}
		if time.Since(u.Checked) < checkedFor {
			return true, nil
		}
		err = l.pages.opts.Store.LeaseSealed(ctx, kindUpstream, place, by, 30*time.Second)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrLeased) || wait >= 10*time.Second {
			return false, fmt.Errorf("asking the provider about a login: %w", err)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second) // the token is of one use
	defer cancel()
	ok, err := l.renew(ctx, person{g.Subject, g.Login})
	return ok, cmp.Or(err, l.pages.opts.Store.ReleaseSealed(ctx, kindUpstream, place, by))
}

// renew renews a login at the provider. It is called by the holder of the lease.
func (l *openID) renew(ctx context.Context, who person) (bool, error) {
	var u upstream // once more: another request may have renewed it
	owner := l.records.ownerOf(who.Subject)
	found, err := l.records.get(ctx, kindUpstream, owner, who.Login, &u)
	if err != nil || !found || time.Since(u.Checked) < checkedFor {
		return found, err
	}
	c, err := l.provider.Client(ctx)
	if err != nil {
		return false, err
	}
	t, err := c.Token(ctx, l.at.HTTP, oauth.RefreshGrant(oauth.NewSecret(u.Refresh), nil), "")
	if oauth.CodeOf(err) == "invalid_grant" {
		l.pages.log.Warn("the provider does not renew a login: what it has granted ends", "subject", who.Subject)
		if err := l.records.store.DeleteRecord(ctx, kindUpstream, owner, who.Login); err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the provider about a login: %w", err)
	}
	if !t.Refresh.IsZero() {
		u.Refresh = t.Refresh.Reveal()
	}
	u.Checked = time.Now()
	return true, l.keep(ctx, who, &u, l.pages.opts.GrantLife+upstreamLife)
}
