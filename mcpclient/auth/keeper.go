package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpclient"
)

// keeper is the actor of a [Credential]: it decides what a refusal leads to, and has at most
// one renewal or login under way, whose end all refused requests wait for.
type keeper struct {
	*Credential
	renewing []renewal // requests that wait for the renewal under way; nil without one
	dead     string    // the refresh token that the authorization server has refused
	begun    []time.Time

	login   func(error) // ends the login under way; nil without one
	failed  error       // why the last login failed; nil if it did not
	waiting []*waiter
	timer   *actors.Timer // looks whether another process has logged in; nil while none waits for that
}

// Messages of a keeper.
type (
	// loaded has the tokens of the vault.
	loaded struct {
		tokens *tokens
		err    error
	}
	// expired wants the token renewed that was used.
	expired struct {
		used string
		*waiter
	}
	// refused is the server's refusal of a request with a token, "" for none.
	refused struct {
		used       string
		status     int
		challenges oauth.Challenges
		*waiter
	}
	renewed struct {
		before, tokens *tokens
		err            error
	}
	loggedIn struct {
		tokens *tokens
		err    error
	}
	// wanted is a login that no refusal has asked for.
	wanted struct{ *waiter }
	awaits struct{ *waiter }
	leaves struct{ *waiter }
	// look has the vault read again while a login by another process is waited for.
	look   struct{}
	looked struct{ loaded }
)

func newKeeper(c *Credential) *keeper { return &keeper{Credential: c} }

// Receive implements [actors.Actor].
func (k *keeper) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		actors.Await(c, k.load, func(t *tokens, err error) any { return loaded{t, err} })
	case loaded:
		k.now.Store(m.tokens)
		if m.err != nil {
			k.a.log.Warn("the tokens for a server cannot be read", "server", k.shown(), "error", m.err)
		}
		k.loaded.Complete(struct{}{}, nil)
	case *expired:
		k.expired(c, m)
	case *refused:
		k.refused(c, m)
	case renewed:
		k.renewed(c, m)
	case loggedIn:
		k.loggedIn(c, m)
	case *wanted:
		if t := k.now.Load(); t != nil && t.cover(k.server.OAuth.Scopes) {
			m.end(nil)
		} else {
			k.needLogin(c, m.waiter, &wish{unasked: true, why: "you want to log in"})
		}
	case *awaits:
		k.awaits(c, m.waiter)
	case *leaves:
		k.waiting = slices.DeleteFunc(k.waiting, func(w *waiter) bool { return w == m.waiter })
	case look:
		actors.Await(c, k.load, func(t *tokens, err error) any { return looked{loaded{t, err}} })
	case looked:
		k.looked(c, m.loaded)
	}
}

// current reports whether a token is the one that is used now.
func (k *keeper) current(used string) bool {
	t := k.now.Load()
	return t == nil && used == "" || t != nil && t.Access == used
}

// awaits has a waiter wait for the login.
func (k *keeper) awaits(c *actors.Context, w *waiter) {
	switch {
	case w.before != k.now.Load(): // it is over
		w.end(nil)
		return
	case k.login == nil && !k.elsewhere():
		w.end(k.failed)
		return
	}
	k.waiting = append(k.waiting, w)
	if k.elsewhere() {
		k.watch(c)
	}
}

// settle ends the wait of all.
func (k *keeper) settle(err error) {
	k.failed = err
	waiting := k.waiting
	k.waiting = nil
	for _, w := range waiting {
		w.end(err)
	}
}

// lookEvery is how often the vault is read while another process is to log in.
const lookEvery = 500 * time.Millisecond

// watch looks for a login by another process, or for the end of a waiter's patience, while there
// is one.
func (k *keeper) watch(c *actors.Context) {
	if len(k.waiting) == 0 {
		k.timer.Clear()
		k.timer = nil
		return
	}
	if k.timer == nil {
		k.timer = c.NewTimer(look{})
	}
	next := time.Now().Add(lookEvery)
	for _, w := range k.waiting {
		if !w.until.IsZero() && w.until.Before(next) {
			next = w.until
		}
	}
	k.timer.SetAt(next)
}

// looked goes on if another process has logged in.
func (k *keeper) looked(c *actors.Context, m loaded) {
	if k.timer == nil {
		return
	}
	before, now := k.now.Load(), time.Now()
	fresh := m.err == nil && m.tokens != nil && (before == nil || m.tokens.Access != before.Access)
	if fresh {
		k.now.Store(m.tokens)
	}
	k.waiting = slices.DeleteFunc(k.waiting, func(w *waiter) bool {
		switch {
		case fresh && m.tokens.cover(w.scopes): // else it is a renewal, say
			w.end(nil)
		case !w.until.IsZero() && !now.Before(w.until):
			w.end(errPatience)
		default:
			return false
		}
		return true
	})
	k.watch(c)
}

var errPatience = errors.New("no person has logged in")

// begin begins a login in this process, unless there were too many.
func (k *keeper) begin(c *actors.Context, w *wish) error {
	if err := k.count(time.Now()); err != nil {
		return err
	}
	k.login = actors.Await(c, func(ctx context.Context) (*tokens, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, k.a.opts.Patience, errPatience)
		defer cancel()
		l := login{Credential: k.Credential, wish: *w, before: k.now.Load()}
		return l.run(ctx)
	}, func(t *tokens, err error) any { return loggedIn{t, err} })
	return nil
}

// Bounds on the logins that refusals of one server may cause (AUTH-62, SECA-26).
const (
	maxLogins     = 3
	loginWindow   = time.Hour
	machineWindow = time.Minute // where no person is asked
)

// count counts a login. One that follows the end of a token of its own accord does not count
// where no person is asked.
func (k *keeper) count(now time.Time) error {
	window, said := loginWindow, "an hour"
	if k.server.OAuth.Grant != mcpclient.GrantPerson {
		if t := k.now.Load(); t != nil && t.expired(now) {
			return nil
		}
		window, said = machineWindow, "a minute"
	}
	k.begun = slices.DeleteFunc(k.begun, func(t time.Time) bool { return now.Sub(t) > window })
	if len(k.begun) >= maxLogins {
		return fmt.Errorf("the server has refused what it was given three times within %s", said)
	}
	k.begun = append(k.begun, now)
	return nil
}

// loggedIn is the end of a login.
func (k *keeper) loggedIn(_ *actors.Context, m loggedIn) {
	k.login = nil
	if m.err != nil {
		k.a.log.Warn("no authorization", "server", k.shown(), "error", m.err)
		k.settle(m.err)
		return
	}
	k.now.Store(m.tokens)
	k.settle(nil)
}
