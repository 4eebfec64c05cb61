package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/store"
)

// expired renews a token that is still the current one.
func (k *keeper) expired(c *actors.Context, m *expired) {
	if !k.current(m.used) {
		m.end(nil)
		return
	}
	k.renew(c, renewal{waiter: m.waiter})
}

// renewal is a request that waits for one.
type renewal struct {
	waiter *waiter
	wish   *wish // for the login that follows if the grant has ended; nil for none
}

// renew has a request wait for a renewal, which begins if none is under way.
func (k *keeper) renew(c *actors.Context, r renewal) {
	before := k.now.Load()
	switch {
	case k.renewing != nil:
		k.renewing = append(k.renewing, r)
		return
	case before.Refresh == k.dead:
		k.ended(c, r)
		return
	}
	k.renewing = []renewal{r}
	actors.Await(c, func(ctx context.Context) (*tokens, error) {
		ctx, cancel := context.WithTimeout(ctx, renewalTime)
		defer cancel()
		if r.wish != nil && k.moved(ctx, before, r.wish.metadata) {
			return nil, errMoved
		}
		return k.refresh(ctx, before, r.wish != nil)
	}, func(t *tokens, err error) any { return renewed{before, t, err} })
}

// ended answers a request whose grant has ended.
func (k *keeper) ended(c *actors.Context, r renewal) {
	if r.wish == nil {
		r.waiter.end(errEnded)
		return
	}
	k.needLogin(c, r.waiter, r.wish)
}

// moved reports whether a server that has refused a token trusts its issuer no more: a renewal
// would be no help then (AUTH-34).
func (c *Credential) moved(ctx context.Context, t *tokens, metadata string) bool {
	if c.server.OAuth.MetadataURL != "" {
		return false // the user says which it is
	}
	r, err := oauth.FetchResource(ctx, c.http, c.server.URL, metadata)
	return err == nil && len(r.Servers) > 0 && !slices.Contains(r.Servers, t.of.Issuer)
}

var errMoved = errors.New("the server has another authorization server now")

var errEnded = errors.New("the authorization has ended")

const (
	renewalTime = 40 * time.Second // with the wait for another process
	leaseTime   = 30 * time.Second // of the right to renew
	leasePause  = 100 * time.Millisecond
)

// renewed is the end of a renewal.
func (k *keeper) renewed(c *actors.Context, m renewed) {
	waiting := k.renewing
	k.renewing = nil
	over := m.err != nil && !oauth.Temporary(m.err) && !errors.Is(m.err, errVault)
	switch {
	case k.now.Load() != m.before: // a login was faster
		m.err, over = nil, false
	case m.err == nil:
		k.now.Store(m.tokens)
	default:
		k.a.log.Debug("a token was not renewed", "server", k.shown(), "error", m.err)
		if over {
			k.dead = m.before.Refresh
		}
	}
	for _, r := range waiting {
		if over {
			k.ended(c, r)
		} else {
			r.waiter.end(m.err)
		}
	}
}

// errVault is the error of a renewal for which a login is no help.
var errVault = errors.New("the renewed token cannot be kept")

// freshTime is how long a token that another process has got counts as new, where the server has
// refused the one before: a call is sent again with one new token only.
const freshTime = time.Minute

// outlastTime is for an answer that is on its way, and for keeping it.
const outlastTime = 2 * time.Second

// outlast returns a context that ends a little later than ctx: an authorization server that has
// replaced a refresh token takes the old one for stolen, so the new one has to be kept though
// the program ends.
func outlast(ctx context.Context) (context.Context, func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(outlastTime, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// refresh renews tokens: one process at a time, and only if no other has done so meanwhile. The
// new ones are saved before they are returned. Refused says that the server has refused the
// token, which may be good for the clock.
func (c *Credential) refresh(ctx context.Context, before *tokens, refused bool) (*tokens, error) {
	key, owner := before.of.key(c.a.opts.Profile), uuid.NewString()
	for {
		err := c.a.vault.LeaseSealed(ctx, kindToken, key, owner, leaseTime)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrLeased) {
			return nil, fmt.Errorf("%w: %w", errVault, err)
		}
		if err := pause.For(ctx, leasePause); err != nil {
			return nil, err
		}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.a.vault.ReleaseSealed(ctx, kindToken, key, owner) // else it ends with its time
	}()
	now, err := c.load(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errVault, err)
	case now == nil:
		return nil, errors.New("the tokens were removed")
	case now.Access != before.Access: // by another process, which may be long ago
		old := now.expired(time.Now()) || refused && time.Since(now.Got) > freshTime
		if !old || now.Refresh == "" || now.of != before.of {
			return now, nil
		}
	}
	client, err := c.clientOf(ctx, &now.of)
	if err != nil {
		return nil, err
	}
	client.DPoP = now.dpop
	ctx, cancel := outlast(ctx)
	defer cancel()
	got, err := client.Token(ctx, c.http, oauth.RefreshGrant(oauth.NewSecret(now.Refresh), nil), "")
	if err != nil {
		return nil, err
	}
	next := *now
	next.take(got, now.Scopes)
	err = c.save(ctx, &next)
	if errors.Is(err, store.ErrConflict) { // a person has logged in again meanwhile
		if now, bad := c.load(ctx); bad == nil && now != nil {
			return now, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errVault, err)
	}
	return &next, nil
}
