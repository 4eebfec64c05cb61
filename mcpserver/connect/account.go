package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
	"github.com/troupe-dev/troupe/store"
)

// kindAccount is the kind of accounts in the vault. Their key is owner and provider, to which
// the value is bound, as it is to its version.
const kindAccount = "account"

// account is one that is connected, as it is kept.
type account struct {
	Name      string    `json:"name,omitzero"`
	Scopes    []string  `json:"scopes,omitzero"`
	Access    string    `json:"access"` // the token, or the key
	Refresh   string    `json:"refresh,omitzero"`
	Expires   time.Time `json:"expires,omitzero"`
	Connected time.Time `json:"connected"`
	Used      time.Time `json:"used,omitzero"`
	Dead      bool      `json:"dead,omitzero"`   // the provider accepts it no more
	Untold    bool      `json:"untold,omitzero"` // no result of a tool has told its owner of it
}

func accountKey(who owner, p *provider) string { return who.id() + "/" + p.name }

// account returns that of an owner with its version, nil and 0 for none.
func (c *Connector) account(ctx context.Context, who owner, p *provider) (*account, int64, error) {
	a := new(account)
	version, err := c.vault.Get(ctx, kindAccount, accountKey(who, p), a)
	if version == 0 || err != nil {
		return nil, 0, err
	}
	return a, version, nil
}

// has reports whether an account of a provider can be used with these scopes.
func (a *account) has(p *provider, scopes []string) bool {
	return a != nil && !a.Dead && !slices.ContainsFunc(scopes, func(s string) bool {
		return !slices.ContainsFunc(a.Scopes, func(had string) bool { return had == s || slices.Contains(p.Implies[had], s) })
	})
}

// save keeps an account in the place of the one that is there.
func (c *Connector) save(ctx context.Context, who owner, p *provider, a *account) error {
	for tries := 0; ; tries++ {
		x, err := c.store.Sealed(ctx, kindAccount, accountKey(who, p)) // it need not open
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		_, err = c.vault.Put(ctx, kindAccount, accountKey(who, p), x.Version, a)
		if !errors.Is(err, store.ErrConflict) || tries == 3 {
			return err
		}
	}
}

// usedEvery is how exactly the last use of an account is known.
const usedEvery = time.Hour

// used notes that an account is used.
func (c *Connector) used(ctx context.Context, who owner, p *provider, a *account) {
	if time.Since(a.Used) < usedEvery {
		return
	}
	now, version, err := c.account(ctx, who, p)
	if err != nil || now == nil {
		return
	}
	now.Used = time.Now()
	if _, err := c.vault.Put(ctx, kindAccount, accountKey(who, p), version, now); err != nil && !errors.Is(err, store.ErrConflict) {
		c.log.Warn("the use of an account is not noted", "provider", p.name, "error", err)
	}
}

// tell adds to the result of a tool that an account has been connected, once: an owner who has
// not done that learns of it.
func (c *Connector) tell(req Requester, who owner, needs []*need) {
	for _, n := range needs {
		if !n.untold {
			continue
		}
		if h, err := asking.Of(req); err == nil {
			h.Remark(func() string { return c.told(who, n.provider) })
		}
	}
}

// told returns what there is to tell of an account, to one of those that ask.
func (c *Connector) told(who owner, p *provider) string {
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	a, version, err := c.account(ctx, who, p)
	if err != nil || a == nil || !a.Untold {
		return ""
	}
	a.Untold = false
	if _, err := c.vault.Put(ctx, kindAccount, accountKey(who, p), version, a); err != nil {
		return "" // another tells it, or the next result does
	}
	text := "Note for the user: the " + p.title + " account"
	if a.Name != "" {
		text += fmt.Sprintf(" %q", a.Name)
	}
	text += fmt.Sprintf(" was connected with %s on %s.", c.opts.Name, a.Connected.UTC().Format("2006-01-02 at 15:04 UTC"))
	if !who.local {
		text += " If that was not you, disconnect it at " + c.site.address() + "."
	}
	return text
}

// tellTime bounds the wait of a result for the store.
const tellTime = 5 * time.Second

// Bounds on refreshing.
const (
	refreshTime  = 40 * time.Second // with the wait for another
	refreshLease = 30 * time.Second
	leasePause   = 100 * time.Millisecond
	refreshEarly = 30 * time.Second // before a token ends
)

// token returns an account whose token is good, and was not refused.
func (c *Connector) token(ctx context.Context, who owner, p *provider, refused string) (*account, error) {
	a, _, err := c.account(ctx, who, p)
	switch {
	case err != nil:
		return nil, err
	case a == nil, a.Dead:
		return nil, disconnected(p)
	case a.Access != refused && (a.Expires.IsZero() || time.Until(a.Expires) > refreshEarly):
		return a, nil
	}
	next, err := c.refresh(ctx, who, p, a.Access, refused != "")
	if err != nil && !errors.Is(err, ErrDisconnected) && refused == "" && time.Now().Before(a.Expires) {
		return a, nil // it is still good, and the provider in trouble
	}
	return next, err
}

func disconnected(p *provider) error {
	return fmt.Errorf("%s: %w: call again", p.title, ErrDisconnected)
}

// lease waits until no other has the lease, here or in another process. Release gives it up.
func (c *Connector) lease(ctx context.Context, kind, key string, ttl time.Duration) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, ttl+10*time.Second)
	defer cancel()
	me := uuid.NewString()
	for {
		err := c.vault.LeaseSealed(ctx, kind, key, me, ttl)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrLeased) {
			return nil, err
		}
		if err := pause.For(ctx, leasePause); err != nil {
			return nil, err
		}
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.vault.ReleaseSealed(ctx, kind, key, me) // else it ends with its time
	}, nil
}

// refresh renews a token: once, however many requests and processes want it, and saved before it
// is used.
func (c *Connector) refresh(ctx context.Context, who owner, p *provider, before string, refused bool) (*account, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	release, err := c.lease(ctx, kindAccount, accountKey(who, p), refreshLease)
	if err != nil {
		return nil, err
	}
	defer release()
	a, version, err := c.account(ctx, who, p)
	switch {
	case err != nil:
		return nil, err
	case a == nil, a.Dead:
		return nil, disconnected(p)
	case a.Access != before:
		return a, nil // another was faster
	}
	if a.Refresh != "" {
		client, err := p.client(ctx)
		if err != nil {
			return nil, err
		}
		// A rotated token is lost if its answer is not kept: the request does not end with its caller.
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshLease)
		defer cancel()
		t, err := client.Token(detached, p.http, oauth.RefreshGrant(oauth.NewSecret(a.Refresh), nil), "")
		if err == nil {
			a.take(t, p, a.Scopes)
			return c.replace(detached, who, p, version, a)
		}
		if oauth.Temporary(err) {
			return nil, fmt.Errorf("refreshing the token of the %s account: %w", p.title, err)
		}
		c.log.Info("an account cannot be refreshed", "provider", p.name, "error", err)
	} else if !refused && time.Now().Before(a.Expires) {
		return a, nil
	}
	return nil, c.kill(ctx, who, p, version, a)
}

// replace keeps an account, or returns the one that has taken its place meanwhile.
func (c *Connector) replace(ctx context.Context, who owner, p *provider, version int64, a *account) (*account, error) {
	_, err := c.vault.Put(ctx, kindAccount, accountKey(who, p), version, a)
	if !errors.Is(err, store.ErrConflict) {
		return a, err
	}
	now, _, err := c.account(ctx, who, p)
	if err == nil && (now == nil || now.Dead) {
		err = disconnected(p)
	}
	return now, err
}

// kill notes that the provider accepts an account no more.
func (c *Connector) kill(ctx context.Context, who owner, p *provider, version int64, a *account) error {
	a.Dead, a.Access, a.Refresh = true, "", ""
	if _, err := c.vault.Put(ctx, kindAccount, accountKey(who, p), version, a); err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	c.log.Info("an account has to be connected again", "provider", p.name)
	return disconnected(p)
}

// take puts what the provider gave into an account.
func (a *account) take(t *oauth.Token, p *provider, asked []string) {
	a.Access, a.Expires, a.Scopes = t.Access.Reveal(), t.Expires, p.granted(t, asked)
	if !t.Refresh.IsZero() {
		a.Refresh = t.Refresh.Reveal()
	}
}

// revoke removes an account, here and then at the provider. Remote is the provider's error.
func (c *Connector) revoke(ctx context.Context, who owner, p *provider) (remote, err error) {
	a, _, err := c.account(ctx, who, p)
	if err != nil {
		c.log.Warn("an account is removed that cannot be opened", "provider", p.name, "error", err)
	}
	switch err := c.vault.DeleteSealed(ctx, kindAccount, accountKey(who, p)); {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if a != nil && !a.Dead {
		remote = p.revokeAt(ctx, a)
	}
	c.log.Info("an account is revoked", "provider", p.name, "issuer", who.issuer, "subject", who.subject, "error", remote)
	return remote, nil
}

// errNoRevocation says that the provider has no revocation.
var errNoRevocation = errors.New("the provider cannot be asked to forget it")

// revokeAt has the provider forget an account.
func (p *provider) revokeAt(ctx context.Context, a *account) error {
	switch {
	case p.OAuthConfig.revoke != nil:
		return p.OAuthConfig.revoke(ctx, p.http, &p.OAuthConfig, a.Access)
	case p.key != nil:
		return errNoRevocation
	}
	client, err := p.client(ctx)
	switch {
	case err != nil:
		return err
	case client.Server.RevocationEndpoint == "":
		return errNoRevocation
	case a.Refresh != "":
		return client.Revoke(ctx, p.http, oauth.NewSecret(a.Refresh), "refresh_token")
	}
	return client.Revoke(ctx, p.http, oauth.NewSecret(a.Access), "access_token")
}
