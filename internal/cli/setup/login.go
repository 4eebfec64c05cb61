package setup

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store"
)

// The states of a login.
const (
	LoginKept    = "logged in"
	LoginNeeded  = "login needed"
	LoginMachine = "no person needed" // the program is authorized by itself
	LoginFixed   = "fixed token"      // in a header, or from a helper
	LoginOff     = "off"
	LoginUnknown = "unknown" // no request has been refused yet, or the tokens cannot be read
)

// Login is how it stands with the login at a server.
type Login struct {
	State string `json:"state"`
	// Until is when a login ends that is not renewed by itself.
	Until  time.Time `json:"until,omitzero"`
	Issuer string    `json:"issuer,omitempty"`
	Scopes []string  `json:"scopes,omitempty"`

	Account *auth.Account `json:"-"` // nil without one
}

// String is for a table.
func (l *Login) String() string {
	switch {
	case l == nil || l.State == LoginUnknown:
		return "-"
	case l.State == LoginKept && !l.Until.IsZero():
		return l.State + " until " + l.Until.Local().Format(time.DateTime)
	}
	return l.State
}

// Logins tells how it stands with logins, from what the store has; nothing is contacted.
type Logins struct {
	a *auth.Authorizer // nil where no server may want a login
}

// OpenLogins reads the logins of the store at servers. Close them.
func OpenLogins(e *env.Env, s store.Store, servers []mcpclient.Server) (Logins, error) {
	a, err := OpenAuthorizer(e, s, servers, AuthorizerOptions{})
	return Logins{a}, err
}

// Close ends the use of the logins.
func (l Logins) Close() error {
	if l.a == nil {
		return nil
	}
	return l.a.Close()
}

// At returns the login at a server; nil for one that is not at a URL.
func (l Logins) At(ctx context.Context, def *mcpclient.Server) (*Login, error) {
	switch {
	case def.URL == "":
		return nil, nil
	case def.OAuth.Off:
		return &Login{State: LoginOff}, nil
	case def.Err == nil && !MayLogIn(def):
		return &Login{State: LoginFixed}, nil
	case l.a == nil || def.Err != nil:
		return &Login{State: LoginUnknown}, nil
	}
	account, wanted, err := l.a.Account(ctx, def)
	switch {
	case err != nil:
		return &Login{State: LoginUnknown}, err
	case def.OAuth.Grant != mcpclient.GrantPerson:
		return &Login{State: LoginMachine, Account: account}, nil
	case account == nil && !wanted:
		return &Login{State: LoginUnknown}, nil
	case account == nil:
		return &Login{State: LoginNeeded}, nil
	}
	login := &Login{State: LoginKept, Issuer: account.Issuer, Scopes: account.Scopes, Account: account}
	if !account.Renews {
		if login.Until = account.Expires; !login.Until.IsZero() && !time.Now().Before(login.Until) {
			login.State = LoginNeeded
		}
	}
	return login, nil
}

// ClockAhead returns how far the clock of the authorization server of a login is ahead.
func (l Logins) ClockAhead(ctx context.Context, def *mcpclient.Server, login *Login) (time.Duration, error) {
	if l.a == nil || login.Account == nil {
		return 0, errors.New("there is no login")
	}
	return l.a.ClockAhead(ctx, def, login.Account)
}
