package auth_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// inBubble has a process use the network of its bubble.
func (k *kit) inBubble(o *auth.Options) { *o = auth.WithClient(*o, k.client()) }

// Of two processes that have the same tokens one renews them, and the other takes the result:
// a refresh token that is shown twice can end the whole grant (AUTH-44).
func TestProcessesRenewOnce(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.life = 60
		first := k.credential()
		k.good(k.call(first, "t"))
		other := k.another(k.inBubble)
		second := other.credential()
		k.good(other.call(second, "t"))
		time.Sleep(time.Minute)
		var all sync.WaitGroup
		all.Go(func() { k.good(k.many(first, 20)...) })
		all.Go(func() { k.good(other.many(second, 20)...) })
		all.Wait()
		k.counts("afterwards", map[string]int{"authorize": 1, "refresh_token": 1, "refused": 1, "call": 42})
		k.set(func() { clear(k.access) })
		k.good(k.call(first, "t"))
		k.good(other.call(second, "t"))
		k.counts("after a refusal", map[string]int{"authorize": 1, "refresh_token": 2})
		if n := len(other.requests()); n != 0 {
			t.Errorf("the person of the other process was asked %d times", n)
		}
	})
}

// A login in one process lets the calls go on, within a second, that wait in another without a
// person. A renewal there that takes the new tokens is no login.
func TestLoginElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		headless := k.another(func(o *auth.Options) {
			k.inBubble(o)
			o.Authorize = nil
		})
		c := headless.credential()
		var mu sync.Mutex
		var ended []time.Time
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := headless.call(c, "t"); err != nil {
					t.Errorf("a call that waits: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, time.Now())
			})
		}
		time.Sleep(3 * time.Minute)
		if mu.Lock(); len(ended) != 0 || headless.waiting() != 20 {
			t.Errorf("%d calls have ended, %d wait", len(ended), headless.waiting())
		}
		mu.Unlock()
		k.good(k.call(k.credential(), "t"))
		there := time.Now()
		all.Wait()
		for _, at := range ended {
			if at.Sub(there) > time.Second {
				t.Errorf("a call went on %v after the login", at.Sub(there))
			}
		}
		k.counts("at the end", map[string]int{"authorize": 1, "call": 21})
	})
}

// Without a person and without a login elsewhere the calls end with Options.Patience, and say
// so; nothing looks at the store any more.
func TestNoLogin(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		headless := k.another(func(o *auth.Options) {
			k.inBubble(o)
			o.Authorize, o.Patience = nil, 5*time.Minute
		})
		c, begin := headless.credential(), time.Now()
		for _, err := range headless.many(c, 20) {
			if !errors.Is(err, auth.ErrLogin) || !strings.Contains(err.Error(), "no person has logged in") {
				t.Fatalf("got %v, want that no person has logged in", err)
			}
		}
		if took := time.Since(begin); took < 5*time.Minute || took > 5*time.Minute+2*time.Second {
			t.Errorf("the calls have waited %v, want 5 minutes", took)
		}
		time.Sleep(time.Hour)
		k.good(k.call(k.credential(), "t")) // a login later on
		k.good(headless.call(c, "t"))
	})
}

// A person who has logged in at one process is not asked at the other, which has not looked
// since; of two logins at once both succeed.
func TestLoginsInTwoProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		other := k.another(k.inBubble)
		first, second := k.credential(), other.credential()
		k.good(k.call(first, "t"))
		k.good(other.call(second, "t"))
		if n := len(other.requests()); n != 0 {
			t.Errorf("the person was asked %d times at the other process", n)
		}
		k.set(func() { clear(k.access); clear(k.refresh) })
		slow := func(p *process) {
			p.is(func(ctx context.Context, r *auth.Request) error {
				time.Sleep(time.Minute)
				return p.agree(ctx, r)
			})
		}
		slow(k.process)
		slow(other)
		var all sync.WaitGroup
		all.Go(func() { k.good(k.call(first, "t")) })
		all.Go(func() { k.good(other.call(second, "t")) })
		all.Wait()
		k.counts("afterwards", map[string]int{"authorize": 3, "call": 4})
	})
}

// Of one address and one configuration there is one credential; another configuration, or
// another profile, has its own.
func TestCredentialsAreShared(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		c := k.credential()
		k.base = "HTTPS://MCP.example"
		same := k.credential()
		k.base = "https://mcp.example"
		k.cfg.Scopes = []string{"write"}
		if pinned := k.credential(); c != same || pinned == c {
			t.Errorf("got the credentials %p, %p and %p, want the first two the same", c, same, pinned)
		}
		k.good(k.call(c, "t"))
		guest := k.another(func(o *auth.Options) {
			k.inBubble(o)
			o.Profile = "guest"
		})
		k.good(guest.call(guest.credential(), "t"))
		if n := len(guest.requests()); n != 1 {
			t.Errorf("a person with another profile was asked %d times, want once", n)
		}
		if r := guest.requests()[0]; !slices.Equal(r.New, r.Scopes) {
			t.Errorf("got %+v, want that all scopes are new", r)
		}
	})
}
