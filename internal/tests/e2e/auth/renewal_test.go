package auth_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// An access token that has expired is renewed before it is shown again, and the rotated refresh
// token is the one that the next renewal uses; no person is asked (AUTH-44).
func TestRenewal(t *testing.T) {
	t.Parallel() // it waits
	both(t, func(t *testing.T, w *world) {
		w.as.Set(map[string]int{"life": 1})
		p := w.start()
		p.good("read")
		for n := range 2 {
			p.until("a token is renewed", "read", func() bool { return seen(w.as, renewal) > n })
		}
		p.asks("after two renewals", 1)
		if n := seen(w.as, refusedRenewal); n != 0 {
			t.Errorf("%d renewals were refused", n)
		}
	})
}

// until calls a tool again and again until something has happened.
func (p *program) until(what, tool string, happened func() bool) {
	p.w.Helper()
	for begun := time.Now(); !happened(); time.Sleep(20 * time.Millisecond) {
		if p.good(tool); time.Since(begun) > patience {
			p.w.Fatalf("it never happened that %s", what)
		}
	}
}

// A server that does not take a token any more, though the client believes in it, leads to one
// renewal and the same request again (AUTH-44).
func TestRefusedToken(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		p := w.start()
		p.good("read")
		w.expire()
		p.good("read")
		p.asks("after a refusal", 1)
		w.renewals("after a refusal", 1, 0)
	})
}

// expire has the server refuse the access tokens of before.
func (w *world) expire() {
	if s, ok := w.server.(*goSDK); ok {
		s.expire()
		return
	}
	w.as.Forget("AccessToken")
}

// Two programs with one store, and many calls each, renew once: the authorization server ends the
// grant when it is shown a refresh token twice (AUTH-44).
func TestTwoProgramsRenewOnce(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		first := w.start()
		first.good("read")
		second := w.start()
		second.good("read")
		for n := 1; n <= 3; n++ {
			w.expire()
			var all sync.WaitGroup
			for range 10 {
				for _, p := range []*program{first, second} {
					all.Go(func() {
						if err := p.call("read"); err != nil {
							t.Errorf("a call: %v", err)
						}
					})
				}
			}
			all.Wait()
			w.renewals("after 20 calls of two programs", n, 0)
		}
		first.asks("at the end", 1)
		second.asks("at the end", 0)
	})
}

// A grant that the authorization server has ended is a login, once, however many calls were
// refused: because it was revoked there, or because another has used the refresh token before,
// so that the whole family is revoked (AUTH-44, AUTH-62).
func TestEndedGrant(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"revoked": func(w *world) {
			w.as.Forget("AccessToken", "RefreshToken", "Grant")
		},
		"refresh token used by a thief": func(w *world) {
			thief := w.copy().start(func(o *auth.Options, _ *mcpclient.Server) {
				o.Authorize = func(context.Context, *auth.Request) error { return errors.New("a thief has no person") }
			})
			thief.good("read") // it has renewed the token, and the program does not know
			w.renewals("after the theft", 1, 0)
			w.expire()
		},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, w *world) {
				p := w.start()
				p.good("read")
				w.expire()
				end(w)
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						if err := p.call("read"); err != nil {
							t.Errorf("a call: %v", err)
						}
					})
				}
				all.Wait()
				p.asks("after the end of the grant", 2)
				if n := seen(w.as, refusedRenewal); n != 1 {
					t.Errorf("%d renewals were refused, want one", n)
				}
				if n := seen(w.as, registration); n != 1 {
					t.Errorf("the program was registered %d times, want once: only its grant has ended", n)
				}
				p.good("read")
			})
		})
	}
}

// A clock of the authorization server that is 5 minutes off ends no authorization: the client
// counts the lifetime of tokens from when it got them, and a server that disagrees leads to a
// renewal (AUTH-44).
func TestClockOff(t *testing.T) {
	t.Parallel() // it waits
	for name, ahead := range map[string]int{"ahead": 300, "behind": -300} {
		t.Run(name, func(t *testing.T) {
			as := peers.ListenOIDC(t, "")
			as.Set(map[string]int{"ahead": ahead, "life": 308}) // for a server whose clock is right a token lasts 8 s or 608
			w := newWorld(t, as, listenSDK(t, as, false, false))
			p := w.start()
			p.good("read")
			if ahead > 0 { // for the server too the token lasts
				p.good("read")
				w.renewals("afterwards", 0, 0)
				return
			}
			p.until("a token is renewed that has expired for the server only", "read", func() bool { return seen(as, renewal) > 0 })
			p.asks("after a renewal", 1)
		})
	}
}
