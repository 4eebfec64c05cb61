package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/vault"
	"github.com/troupe-dev/troupe/store"
)

// Kinds of secrets in the vault.
const (
	kindPlace    = "oauth place"    // by profile and MCP endpoint: which credential is used there
	kindToken    = "oauth token"    // by credential
	kindClient   = "oauth client"   // by issuer and client id: a registration
	kindRedirect = "oauth redirect" // by issuer and where browsers are sent: the newest of these
)

// credential identifies tokens. Neither a name of a configuration nor a host alone does.
type credential struct {
	Issuer   string `json:"issuer"`
	Resource string `json:"resource"`
	ClientID string `json:"clientId"`
	Grant    string `json:"grant"`
	// From is the configured address of the metadata. What comes of it is used with it only:
	// it may name other endpoints than the issuer does.
	From string `json:"from,omitempty"`
}

func (c *credential) key(profile string) string {
	return keyOf(profile, issuerKey(c.Issuer, c.From), c.Resource, c.ClientID, c.Grant)
}

// issuerKey is part of the keys of all that belongs to an issuer.
func issuerKey(issuer, from string) string {
	if from == "" {
		return issuer
	}
	return keyOf(issuer, from)
}

// keyOf joins the parts of a key, unambiguously: none has a line feed.
func keyOf(parts ...string) string { return strings.Join(parts, "\n") }

// place is what is known of an MCP endpoint.
type place struct {
	credential
	Metadata bool `json:"metadata"` // it has published resource metadata: it is never taken for a server of 2025-03-26 again
	// Shown is its address where variables of a file stand in that; empty without.
	Shown string `json:"shown,omitempty"`
}

// tokens are what a server is shown.
type tokens struct {
	Access  string    `json:"access"`
	Type    string    `json:"type"`
	Refresh string    `json:"refresh,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Asked   []string  `json:"asked,omitempty"` // scopes that were asked for, and not given
	Expires time.Time `json:"expires,omitzero"`
	Key     string    `json:"key,omitempty"`  // to which the tokens are bound, a JSON Web Key
	Renew   time.Time `json:"renew,omitzero"` // when it is to be renewed, a little before that
	Got     time.Time `json:"got,omitzero"`   // when the server gave it

	dpop    *oauth.DPoPKey // the same; nil for bearer tokens
	version int64          // in the vault
	of      credential     // that they belong to
}

// expired reports whether the access token is, or soon will be, of no use.
func (t *tokens) expired(now time.Time) bool {
	return !t.Renew.IsZero() && !now.Before(t.Renew)
}

// cover reports whether they are for all these scopes.
func (t *tokens) cover(scopes []string) bool {
	return !slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(t.Scopes, s) })
}

// expiryMargin covers the way to the server, and clocks that differ a little. A token that
// lasts for seconds has a quarter of its time.
const expiryMargin = 10 * time.Second

// take puts what the token endpoint gave in the place of what was there. Asked are the scopes
// that were asked for.
func (t *tokens) take(got *oauth.Token, asked []string) {
	t.Access, t.Type, t.Expires, t.Renew, t.Got = got.Access.Reveal(), got.Type, got.Expires, got.Expires, time.Now()
	if !got.Expires.IsZero() {
		t.Renew = got.Expires.Add(-min(expiryMargin, time.Until(got.Expires)/4))
	}
	if r := got.Refresh.Reveal(); r != "" {
		t.Refresh = r
	}
	if t.Scopes = got.Scopes; got.SameScopes {
		t.Scopes = asked
	}
}

// registration is a client id that a server has given us.
type registration struct {
	ID      string           `json:"id"`
	Secret  string           `json:"secret,omitempty"`
	Method  oauth.AuthMethod `json:"method"`
	Expires time.Time        `json:"expires,omitzero"`
	// Redirect is where browsers are sent. Its port is taken again if it is free.
	Redirect string `json:"redirect"`
	Device   bool   `json:"device,omitzero"` // device codes were asked for
}

// lastClient names a registration.
type lastClient struct {
	ID string `json:"id"`
}

// load reads the tokens for the endpoint; nil if there are none, or if they are of another
// client, issuer, resource or grant than the configured ones.
func (c *Credential) load(ctx context.Context) (*tokens, error) {
	var p place
	placed, err := c.a.vault.Get(ctx, kindPlace, c.placeKey(), &p)
	if err != nil || placed == 0 || !c.configuredFor(&p.credential) {
		return nil, err
	}
	return c.read(ctx, &p)
}

// read returns the tokens of a place; nil if there are none.
func (c *Credential) read(ctx context.Context, p *place) (t *tokens, err error) {
	t = &tokens{of: p.credential}
	if t.version, err = c.a.vault.Get(ctx, kindToken, p.key(c.a.opts.Profile), t); err != nil || t.version == 0 {
		return nil, err
	}
	if t.Key != "" {
		t.dpop, err = oauth.ParseDPoPKey(oauth.NewSecret(t.Key))
	}
	return t, err
}

// grantName is the grant by which the configuration gets tokens.
func (c *Credential) grantName() string { return cmp.Or(string(c.server.OAuth.Grant), grantCode) }

// address is that of an MCP server, without secrets: those may be in its query.
type address struct {
	endpoint string // the canonical form without the query, fit to be shown
	query    string // the digest of the query; "" if there is none
}

func addressOf(url string) (address, error) {
	canonical, err := oauth.CanonicalResource(url)
	endpoint, query, ok := strings.Cut(canonical, "?")
	if ok {
		query = fmt.Sprintf("%x", sha256.Sum256([]byte(query)))
	}
	return address{endpoint, query}, err
}

// placeKey has the parts of the address, the second of which may be missing.
func (c *Credential) placeKey() string {
	key := keyOf(c.a.opts.Profile, c.endpoint)
	if c.query != "" {
		key = keyOf(key, c.query)
	}
	return key
}

// save keeps tokens before they are used: a refresh token that was replaced and lost cannot be
// had again.
func (c *Credential) save(ctx context.Context, t *tokens) (err error) {
	t.version, err = c.a.vault.Put(ctx, kindToken, t.of.key(c.a.opts.Profile), t.version, t)
	return err
}

// note changes what is kept of the endpoint.
func (l *login) note(ctx context.Context, change func(*place)) error {
	_, err := update(ctx, l.a.vault, kindPlace, l.placeKey(), func(p *place) {
		change(p)
		l.place = *p
	})
	return err
}

// maxUpdates bounds how often update begins again because another process was faster.
const maxUpdates = 20

// update changes an entry of the vault; change is called again if another process has changed
// the entry meanwhile.
func update[T any](ctx context.Context, v *vault.Vault, kind, key string, change func(*T)) (version int64, err error) {
	for range maxUpdates {
		value := new(T)
		if version, err = v.Get(ctx, kind, key, value); err != nil {
			return 0, err
		}
		change(value)
		if version, err = v.Put(ctx, kind, key, version, value); !errors.Is(err, store.ErrConflict) {
			return version, err
		}
	}
	return 0, err
}
