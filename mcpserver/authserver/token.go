package authserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
)

// tokenAnswer is the answer of the token endpoint (RFC 6749, section 5.1).
type tokenAnswer struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int64  `json:"expires_in"`
	Refresh   string `json:"refresh_token,omitzero"`
	Scope     string `json:"scope,omitzero"`
}

// tokens is the endpoints for tokens, which clients call.
type tokens struct {
	*site
	keys    *keyRing
	clients *clients
	grants  *grants
}

// token is the token endpoint.
func (t *tokens) token(w http.ResponseWriter, r *http.Request) error {
	form, err := readForm(r, "resource")
	if err != nil {
		return err
	}
	kind := form.Get("grant_type")
	if kind != grantCode && kind != grantRefresh {
		return refuse("unsupported_grant_type", "want "+grantCode+" or "+grantRefresh)
	}
	c, err := t.clients.authenticate(r, form)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context()) // what is used up is answered
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	var answer *tokenAnswer
	if kind == grantCode {
		answer, err = t.redeem(ctx, c, form)
	} else {
		answer, err = t.refresh(ctx, c, form)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Pragma", "no-cache")
	t.answer(w, http.StatusOK, answer)
	return nil
}

// sameResource checks the resource of a request against that of its grant. A client of 2025-03-26
// names none.
func sameResource(form url.Values, g *grant) error {
	if all := form["resource"]; len(all) > 1 || len(all) == 1 && canonical(all[0]) != g.Resource {
		return refuse("invalid_target", "the token is asked for another resource than the person has consented to")
	}
	return nil
}

// redeem exchanges a code (SECA-20, SECA-25).
func (t *tokens) redeem(ctx context.Context, c *client, form url.Values) (*tokenAnswer, error) {
	bad := refuse("invalid_grant", "the code is not good: it is unknown, expired, used, or of another request")
	h, ok := t.grants.open(form.Get("code"), useCode)
	if !ok {
		return nil, bad
	}
	g := new(grant)
	found, err := t.grants.get(ctx, kindCode, t.grants.owner(h), h.grant(), g)
	if err != nil {
		return nil, err
	}
	if !found {
		if ended, err := t.grants.end(ctx, h); err != nil || ended {
			t.log.Warn("a code was used twice: its grant is ended", "client", c.ID, "grant", h.grant(), "error", err)
		}
		return nil, bad
	}
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	switch {
	case g.Client != c.ID, g.Redirect != form.Get("redirect_uri"):
		return nil, bad
	case !isVerifier(form.Get("code_verifier")) || !oauth.NewSecret(base64.RawURLEncoding.EncodeToString(sum[:])).Equal(oauth.NewSecret(g.Challenge)):
		return nil, refuse("invalid_grant", "code_verifier does not belong to the code")
	}
	if err := sameResource(form, g); err != nil {
		return nil, err
	}
	if err := t.honour(ctx, c, h, g); err != nil {
		return nil, err
	}
	if err := t.grants.makeRoomFor(ctx, h); err != nil {
		return nil, err
	}
	g.Redirect, g.Challenge, g.Created, g.Expires = "", "", time.Now(), time.Now().Add(t.opts.GrantLife)
	next, first, err := t.grants.step(ctx, h, kindCode, h.grant(), g)
	if err != nil {
		return nil, err
	}
	if !first {
		if _, err := t.grants.end(ctx, h); err != nil {
			return nil, err
		}
		t.log.Warn("a code was used twice: its grant is ended", "client", c.ID, "grant", h.grant())
		return nil, bad
	}
	t.clients.used(ctx, c)
	t.log.Info("a grant is made", "client", c.ID, "subject", g.Subject, "resource", g.Resource, "scopes", g.Scopes, "grant", h.grant())
	return t.issue(ctx, c, next, g)
}

// isVerifier reports the form of a verifier (RFC 7636, section 4.1).
func isVerifier(v string) bool {
	return len(v) >= 43 && len(v) <= 128 && !strings.ContainsFunc(v, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~", c)
	})
}

// honour refuses a grant whose person may not use it any more, and ends it.
func (t *tokens) honour(ctx context.Context, c *client, h handle, g *grant) error {
	ok, err := t.mayUse(ctx, g)
	if err != nil || ok {
		return err
	}
	t.log.Warn("a person may not use a grant any more: it is ended", "client", c.ID, "subject", g.Subject, "grant", h.grant())
	if _, err := t.grants.end(ctx, h); err != nil {
		return err
	}
	return refuse("invalid_grant", "the person may not use this any more")
}

// refresh renews tokens. A client that proves who it is, and others by Options.RetryPublic, may ask again
// whose answer was lost.
func (t *tokens) refresh(ctx context.Context, c *client, form url.Values) (*tokenAnswer, error) {
	bad := refuse("invalid_grant", "the refresh token is not good: it is unknown, expired, used, revoked, or of another client")
	h, ok := t.grants.open(form.Get("refresh_token"), useRefresh)
	if !ok {
		return nil, bad
	}
	retries := c.SecretHash != "" || t.opts.RetryPublic
	if retries { // a second request finds the answer of the first one
		done, err := t.grants.alone(ctx, t.opts.Store, h)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	asked := url.Values{"scope": form["scope"], "resource": form["resource"]}.Encode()
	again := func() (*tokenAnswer, error) {
		if retries {
			answer, g, err := t.grants.lost(ctx, h, asked)
			if err == nil && answer != nil && g.Client == c.ID {
				if err = t.honour(ctx, c, h, g); err == nil {
					t.log.Info("a client asks again for an answer that it has lost", "client", c.ID, "grant", h.grant())
					return answer, nil
				}
			}
			if err != nil {
				return nil, err
			}
		}
		if was, err := t.grants.end(ctx, h); err != nil || was {
			t.log.Warn("a refresh token was used twice: its grant is ended", "client", c.ID, "grant", h.grant(), "error", err)
		}
		return nil, bad
	}
	g, err := t.grants.find(ctx, h)
	switch {
	case err != nil:
		return nil, err
	case g == nil:
		return again()
	case g.Client != c.ID:
		return nil, bad
	}
	if err := sameResource(form, g); err != nil {
		return nil, err
	}
	narrow := g.Scopes
	if form.Has("scope") {
		narrow = nil
		for _, scope := range oauth.ParseScopes(form.Get("scope")) {
			switch {
			case slices.Contains(g.Scopes, scope):
				narrow = append(narrow, scope)
			case scope != offline:
				return nil, refuse("invalid_scope", "the person has not consented to all of it")
			}
		}
	}
	if err := t.honour(ctx, c, h, g); err != nil {
		return nil, err
	}
	next, first, err := t.grants.step(ctx, h, kindGrant, h.key(), g)
	if err != nil {
		return nil, err
	}
	if !first {
		return again()
	}
	g.Scopes = narrow // of this token, and not of the grant
	answer, err := t.issue(ctx, c, next, g)
	if err == nil && retries {
		err = t.grants.keep(ctx, h, asked, answer)
	}
	return answer, err
}

// accessClaims are those of an access token (RFC 9068).
type accessClaims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Client   string `json:"client_id"`
	Scope    string `json:"scope,omitzero"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	ID       string `json:"jti"`
	Grant    string `json:"sid"`
}

// issue makes tokens.
func (t *tokens) issue(ctx context.Context, c *client, h handle, g *grant) (*tokenAnswer, error) {
	signer, err := t.keys.signer(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	until := now.Add(t.opts.AccessLife)
	if g.Expires.Before(until) {
		until = g.Expires
	}
	scope := strings.Join(g.Scopes, " ")
	claims, err := jsonx.Marshal(&accessClaims{
		Issuer: t.opts.Issuer, Subject: g.Subject, Audience: g.Resource, Client: g.Client, Scope: scope, Issued: now.Unix(), Expires: until.Unix(), ID: rand.Text(), Grant: h.grant(),
	})
	if err != nil {
		return nil, err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return nil, err
	}
	access, err := signed.CompactSerialize()
	if err != nil {
		return nil, err
	}
	answer := &tokenAnswer{Access: access, Type: "Bearer", ExpiresIn: until.Unix() - now.Unix(), Scope: scope}
	if !c.NoRefresh {
		answer.Refresh = t.grants.seal(h, useRefresh)
	}
	return answer, nil
}

// revoke ends the grant of a token, be it for access or for refreshing (RFC 7009). A token that is
// not known is no error.
func (t *tokens) revoke(w http.ResponseWriter, r *http.Request) error {
	form, err := readForm(r)
	if err != nil {
		return err
	}
	c, err := t.clients.authenticate(r, form)
	if err != nil {
		return err
	}
	token := form.Get("token")
	if token == "" {
		return refuse("invalid_request", "token is missing")
	}
	ctx := context.WithoutCancel(r.Context())
	h, ok := t.grants.open(token, useRefresh)
	if !ok {
		if h, ok, err = t.ofAccess(ctx, token); err != nil {
			return err
		}
	}
	if ok {
		list, err := t.grants.list(ctx, t.grants.owner(h), h.grant())
		if err != nil {
			return err
		}
		var g grant
		if len(list) > 0 && t.grants.openRecord(&list[0], &g) == nil && g.Client == c.ID {
			if _, err := t.grants.end(ctx, h); err != nil {
				return err
			}
			t.log.Info("a grant is revoked", "client", c.ID, "subject", g.Subject, "grant", h.grant())
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// ofAccess returns the grant of an access token of ours.
func (t *tokens) ofAccess(ctx context.Context, token string) (h handle, ok bool, err error) {
	jwt, err := oauth.ParseJWT(token)
	if err != nil {
		return h, false, nil
	}
	set, err := t.keys.public(ctx)
	if err != nil {
		return h, false, err
	}
	keys, err := oauth.ParseKeySet(set)
	if err != nil {
		return h, false, err
	}
	var claims accessClaims
	if err := errors.Join(jwt.Verify(keys), jwt.Claims(&claims)); err != nil || claims.Issuer != t.opts.Issuer {
		return h, false, nil
	}
	h, ok = handleOf(claims.Subject, claims.Grant)
	return h, ok, nil
}
