package authserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/store"
)

// Options says for whom and for what tokens are issued. Issuer, Resources, Login, Store and Keys
// are required.
type Options struct {
	// Issuer is the address of the authorization server: https, or http on this machine. Its
	// endpoints are below; clients of 2025-03-26 find them only if it has no path.
	Issuer string
	// Resources are the addresses of the MCP endpoints that tokens may be for.
	Resources []string
	// Scopes are what tokens may be for. Default are those of a client that asks for none; nil is
	// all.
	Scopes, Default []string
	// Login finds out who visits a page.
	Login Login
	// Active reports whether a person may still use what was granted. It is asked when a client
	// renews its tokens, and at most twice a minute by a resource server in this process. Nil
	// leaves it to the login.
	Active func(ctx context.Context, subject string) (bool, error)
	// Clients are known without registration.
	Clients []Client
	// NoRegistration refuses clients that register, NoDocuments those whose id is the address of a
	// document.
	NoRegistration, NoDocuments bool
	// RetryPublic gives a client without a secret the same tokens again, too, if it asks with the same refresh token within
	// ten seconds and has not used the new one: an answer may get lost. A thief of the token could do the
	// same. Clients with a secret have that always.
	RetryPublic bool
	// Store keeps grants, registrations and the signing key. Instances share it.
	Store Store
	// Keys seal what is kept: 32 random bytes each; the first seals, all open.
	Keys [][]byte
	// Name is what pages call the server. Empty is the host of Issuer.
	Name string
	// AccessLife is how long access tokens are good, and GrantLife after what time a person has to
	// log in again. Zero means 15 minutes and 30 days.
	AccessLife, GrantLife time.Duration
	// Address returns where a request comes from, for limits, such as by a header of your proxy.
	// Nil is the address of the connection.
	Address func(*http.Request) string
	// Logger takes structured logs: a line for each login, grant, refusal and revocation. Nil
	// discards them.
	Logger *slog.Logger
	// HTTP fetches the documents of clients. Nil is a client that contacts public addresses by
	// https.
	HTTP *http.Client
}

// Store is a part of store.Store.
type Store interface {
	store.Vault
	store.Records
}

// check checks the options, and completes them.
func (s *site) check() error {
	o := &s.opts
	o.AccessLife, o.GrantLife = cmp.Or(o.AccessLife, 15*time.Minute), cmp.Or(o.GrantLife, 30*24*time.Hour)
	switch {
	case o.Login == nil:
		return errors.New("authserver: Options.Login is missing: the server must know who visits its pages")
	case o.Store == nil:
		return errors.New("authserver: Options.Store is missing")
	case len(o.Keys) == 0:
		return errors.New("authserver: Options.Keys is empty: nothing is kept in clear")
	case len(o.Resources) == 0:
		return errors.New("authserver: Options.Resources is empty: tokens are for a resource")
	case o.AccessLife < time.Minute || o.AccessLife > maxAccessLife || o.GrantLife < o.AccessLife:
		return fmt.Errorf("authserver: AccessLife %v and GrantLife %v: want a minute to %v, and not less", o.AccessLife, o.GrantLife, maxAccessLife)
	}
	if err := s.address(); err != nil {
		return err
	}
	o.Name = cmp.Or(o.Name, s.base.Host)
	for _, r := range o.Resources {
		if canonical, err := oauth.CanonicalResource(r); err != nil || canonical != r {
			return fmt.Errorf("authserver: the resource %q: want the address of an endpoint in its canonical form %q (%w)", r, canonical, cmp.Or(err, errors.ErrUnsupported))
		}
	}
	if o.Default == nil {
		o.Default = o.Scopes
	}
	for _, scope := range slices.Concat(o.Scopes, o.Default) {
		if got := oauth.ParseScopes(scope); len(got) != 1 || got[0] != scope || scope == offline || !slices.Contains(o.Scopes, scope) {
			return fmt.Errorf("authserver: the scope %q is not in Scopes, has characters that scopes do not have, or is %s", scope, offline)
		}
	}
	return nil
}

// maxAccessLife bounds how long access tokens are good: their grant cannot end them everywhere.
const maxAccessLife = 24 * time.Hour

// offline is a scope that clients ask for to get a refresh token. They get one anyway.
const offline = "offline_access"
