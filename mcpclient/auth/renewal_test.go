package auth_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store"
)

// A token that has expired is renewed before it is used, once for all calls, and the server
// never sees the old one (AUTH-44).
func TestRenewal(t *testing.T) {
	bubble(t, func(_ *testing.T, k *kit) {
		k.life = 60
		c := k.credential()
		k.good(k.call(c, "t"))
		for n := range 3 {
			time.Sleep(55 * time.Second) // within the margin for the way to the server
			k.good(k.many(c, 50)...)
			k.counts("after a renewal", map[string]int{"refused": 1, "authorize": 1, "refresh_token": n + 1, "call": 1 + 50*(n+1)})
		}
	})
}

// A token that lasts for some seconds is used for most of them.
func TestShortLife(t *testing.T) {
	bubble(t, func(_ *testing.T, k *kit) {
		k.life = 8
		c := k.credential()
		for range 5 {
			k.good(k.call(c, "t"))
			time.Sleep(time.Second)
		}
		k.counts("within 5 s", map[string]int{"refresh_token": 0, "refused": 1})
		time.Sleep(time.Second)
		k.good(k.call(c, "t"))
		k.counts("after 6 s", map[string]int{"refresh_token": 1, "refused": 1})
	})
}

// A token that the server refuses before its time is renewed, and the call sent again
// (AUTH-44).
func TestRefusedTokenIsRenewed(t *testing.T) {
	bubble(t, func(_ *testing.T, k *kit) {
		c := k.credential()
		k.good(k.call(c, "t"))
		k.set(func() { clear(k.access) })
		k.good(k.many(c, 50)...)
		k.counts("afterwards", map[string]int{"authorize": 1, "refresh_token": 1, "call": 51})
	})
}

// When the grant has ended the person is asked, once for all calls, and the refresh token that
// is of no use is shown once only (AUTH-44).
func TestGrantHasEnded(t *testing.T) {
	for name, life := range map[string]int{"refused": 0, "expired": 60} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.life = life
				k.is(func(ctx context.Context, r *auth.Request) error {
					time.Sleep(time.Minute)
					return k.agree(ctx, r)
				})
				c := k.credential()
				k.good(k.call(c, "t"))
				time.Sleep(time.Minute)
				k.set(func() { clear(k.access); clear(k.refresh) })
				var all sync.WaitGroup
				for i := range 50 {
					all.Go(func() {
						time.Sleep(time.Duration(i/10) * time.Second) // some come while the person is asked
						if err := k.call(c, "t"); err != nil {
							t.Errorf("a call: %v", err)
						}
					})
				}
				all.Wait()
				k.counts("afterwards", map[string]int{"authorize": 2, "refresh_token": 1, "call": 51})
				if r := k.requests(); len(r) != 2 || r[1].Why != "the server does not take the token any more, and it cannot be renewed" || len(r[1].New) != 0 {
					t.Errorf("got the requests %+v", r)
				}
				// A login that the person declines does not show it again.
				time.Sleep(time.Minute)
				k.set(func() { clear(k.access); clear(k.refresh) })
				k.is(func(context.Context, *auth.Request) error { return errDeclined })
				for range 2 {
					if err := k.call(c, "t"); !errors.Is(err, auth.ErrLogin) {
						t.Errorf("got %v, want %v", err, auth.ErrLogin)
					}
				}
				k.counts("after a second end", map[string]int{"refresh_token": 2})
			})
		})
	}
}

var errDeclined = errors.New("the person declines")

// A token endpoint in trouble is an error, and no reason to ask the person: the grant may be
// good (AUTH-44). Once it works again the token is renewed.
func TestTokenEndpointInTrouble(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.life = 60
		c := k.credential()
		k.good(k.call(c, "t"))
		time.Sleep(time.Hour)
		k.set(func() { k.trouble = 503 })
		for _, err := range k.many(c, 50) {
			if err == nil || errors.Is(err, auth.ErrLogin) || !strings.Contains(err.Error(), "503") {
				t.Fatalf("got %v, want what the token endpoint says", err)
			}
		}
		k.set(func() { k.trouble = 0 })
		k.good(k.many(c, 50)...)
		k.counts("afterwards", map[string]int{"authorize": 1, "call": 51})
	})
}

// vaultHook is a store whose writes can be watched, and made to fail.
type vaultHook struct {
	store.Vault
	put func(store.Sealed) error
}

func (v *vaultHook) PutSealed(ctx context.Context, x store.Sealed, replaces int64) error {
	if v.put != nil {
		if err := v.put(x); err != nil {
			return err
		}
	}
	return v.Vault.PutSealed(ctx, x, replaces)
}

// A rotated refresh token is saved before its access token is used: one that was lost cannot
// be had again. If it cannot be saved the server never sees the token, and the call has an
// error; no person is asked, who could not help (AUTH-44).
func TestSavedBeforeUse(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(order, what) {
				order = append(order, what)
			}
		}
		hook := &vaultHook{Vault: k.store}
		broken, saved := false, 0
		hook.put = func(x store.Sealed) error {
			mu.Lock()
			failing := broken
			mu.Unlock()
			if failing {
				return errors.New("the disk is full")
			}
			if x.Kind == "oauth token" {
				saved++
				note(fmt.Sprint("saved ", saved))
			}
			return nil
		}
		k.onToken = note
		k.life = 60
		p := k.another(func(o *auth.Options) {
			o.Vault = hook
			*o = auth.WithClient(*o, k.client())
		})
		c := p.credential()
		k.good(p.call(c, "t"))
		time.Sleep(time.Minute)
		k.good(p.call(c, "t"))
		want := []string{"saved 1", "access-secret-3", "saved 2", "access-secret-4"}
		if !slices.Equal(order, want) {
			t.Errorf("got the order %q, want %q", order, want)
		}
		k.set(func() { clear(k.access) })
		mu.Lock()
		broken = true
		mu.Unlock()
		if err := p.call(c, "t"); err == nil || errors.Is(err, auth.ErrLogin) || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("a token that cannot be saved: got %v, want an error without a login", err)
		}
		if mu.Lock(); !slices.Equal(order, want) {
			t.Errorf("got the order %q, want %q", order, want)
		}
		mu.Unlock()
		k.counts("at the end", map[string]int{"authorize": 1})
	})
}

// A program that ends while the authorization server replaces its refresh token keeps the new
// one: a later program goes on with it, and no person is asked (SECA-25).
func TestEndDuringRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.life = 60
		first := k.another(k.inBubble)
		k.good(first.call(first.credential(), "t"))
		k.life = 3600
		over := make(chan error, 1)
		k.onRefresh = func() {
			go func() { over <- first.sys.Shutdown(context.Background()) }()
			k.world.mu.Unlock() // the call that is given up asks the server
			defer k.world.mu.Lock()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		if err := first.call(first.credential(), "t"); err == nil {
			t.Error("the call has succeeded")
		}
		if err := <-over; err != nil {
			t.Error(err)
		}
		later := k.another(k.inBubble)
		k.good(later.call(later.credential(), "t"))
		k.counts("at the end", map[string]int{"refresh_token": 1, "authorize": 1})
	})
}
