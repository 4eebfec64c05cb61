package auth

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Account is an authorization that is kept.
type Account struct {
	Server   string // address of the MCP server, without its query, as it is shown
	Issuer   string
	Resource string
	ClientID string
	Scopes   []string
	Expires  time.Time // of the access token; zero if the server did not say
	Renews   bool      // it is renewed without a person
	Updated  time.Time // of the list only

	at address
}

// At reports whether the account is for the MCP server at an address.
func (a *Account) At(url string) bool {
	at, err := addressOf(url)
	return err == nil && at == a.at
}

// Accounts lists the authorizations of the profile, by server. One that cannot be opened is
// part of the error; the others are listed all the same.
func (a *Authorizer) Accounts(ctx context.Context) (all []Account, err error) {
	prefix := keyOf(a.opts.Profile, "")
	for after := prefix; ; {
		list, failed := a.vault.AllSealed(ctx, kindPlace, after, 0)
		if failed != nil || len(list) == 0 {
			return all, errors.Join(err, failed)
		}
		for _, x := range list {
			after = x.Key
			key, ok := strings.CutPrefix(x.Key, prefix)
			if !ok {
				return all, err
			}
			var at address
			at.endpoint, at.query, _ = strings.Cut(key, "\n")
			var p place
			t := new(tokens)
			bad := a.vault.Unseal(&x, &p)
			if bad == nil {
				t.version, bad = a.vault.Get(ctx, kindToken, p.key(a.opts.Profile), t)
			}
			switch {
			case bad != nil:
				err = errors.Join(err, bad)
			case t.version != 0:
				t.of = p.credential
				account := accountOf(at, cmp.Or(p.Shown, at.endpoint), t)
				account.Updated = x.Updated
				all = append(all, *account)
			}
		}
	}
}

// Account returns the authorization for an MCP server as it is configured; nil if there is none.
// Wanted reports whether the server is known to want one.
func (a *Authorizer) Account(ctx context.Context, s *mcpclient.Server) (account *Account, wanted bool, err error) {
	c, err := a.kept(s)
	if err != nil {
		return nil, false, err
	}
	var p place
	if _, err := a.vault.Get(ctx, kindPlace, c.placeKey(), &p); err != nil {
		return nil, false, err
	}
	t, err := c.load(ctx)
	if err != nil || t == nil {
		return nil, p.Metadata || p.Issuer != "", err
	}
	return accountOf(c.address, c.shown(), t), true, nil
}

func accountOf(at address, shown string, t *tokens) *Account {
	return &Account{
		at: at, Server: shown, Issuer: t.of.Issuer, Resource: t.of.Resource, ClientID: t.of.ClientID,
		Scopes: t.Scopes, Expires: t.Expires, Renews: t.Refresh != "",
	}
}

// ClockAhead returns how far the clock of the authorization server of an account is ahead of
// this machine's, to the second.
func (a *Authorizer) ClockAhead(ctx context.Context, s *mcpclient.Server, of *Account) (time.Duration, error) {
	c, err := a.kept(s)
	if err != nil {
		return 0, err
	}
	return oauth.ClockAhead(ctx, c.http, of.Issuer, oauth.OnLoopback(c.server.URL))
}

// kept returns what is needed to read what is kept for a server, without a keeper.
func (a *Authorizer) kept(s *mcpclient.Server) (c *Credential, err error) {
	c = &Credential{a: a, server: *s}
	if c.address, err = addressOf(s.URL); err != nil {
		return nil, err
	}
	c.http, err = a.client(s.URL, &c.server.OAuth)
	return c, err
}

// Logout forgets the tokens for an MCP server, and has its authorization server revoke them
// where it can. It reports whether there were any. That the server knew resource metadata, and
// the registration of the client, are kept.
func (a *Authorizer) Logout(ctx context.Context, s *mcpclient.Server) (had bool, err error) {
	c, err := a.kept(s)
	if err != nil {
		return false, err
	}
	var p place
	if placed, err := a.vault.Get(ctx, kindPlace, c.placeKey(), &p); err != nil || placed == 0 {
		return false, err
	}
	t, err := c.read(ctx, &p)
	if err != nil || t == nil {
		return false, err
	}
	err = a.vault.DeleteSealed(ctx, kindToken, t.of.key(a.opts.Profile))
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	if err == nil {
		err = c.revoke(ctx, t)
	}
	return true, err
}

// revoke has the authorization server end the grant.
func (c *Credential) revoke(ctx context.Context, t *tokens) error {
	client, err := c.clientOf(ctx, &t.of)
	if err != nil || client.Server.RevocationEndpoint == "" {
		return err
	}
	client.DPoP = t.dpop
	if t.Refresh != "" {
		return client.Revoke(ctx, c.http, oauth.NewSecret(t.Refresh), "refresh_token")
	}
	return client.Revoke(ctx, c.http, oauth.NewSecret(t.Access), "access_token")
}
