package watch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
)

func newResources(p *peer, live bool) *watch.Subscriptions {
	return watch.NewSubscriptions(watch.Options{Do: p.do, Spawn: p.spawn, Permanent: func(err error) bool { return errors.Is(err, errCut) }, Live: func() bool { return live }})
}

// user is one who wants to hear of a resource.
type user struct {
	Updated func(uri string)
	Ended   func(error)
	heard   []string
	ended   []error
}

func newUser() *user {
	u := new(user)
	u.Updated = func(uri string) { u.heard = append(u.heard, uri) }
	u.Ended = func(err error) { u.ended = append(u.ended, err) }
	return u
}

// RES-05: one subscription for all who want a resource; the first subscribes, the last
// unsubscribes; what was not subscribed to is not passed on.
func TestResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(context.Context, *call.Request) (string, error) { return `{}`, nil })
		rs := newResources(p, true)
		a, b := newUser(), newUser()
		removeA, err := rs.Add(t.Context(), "file:///d", a.Updated, a.Ended)
		if err != nil {
			t.Fatal(err)
		}
		rb := rs.Resource("file:///d")
		removeB, err := rs.Add(t.Context(), "file:///d", b.Updated, b.Ended)
		if err != nil {
			t.Fatal(err)
		}
		for uri, want := range map[string]bool{"file:///d": true, "file:///d/x": true, "file:///e": false} {
			if got := rs.Updated(uri); got != want {
				t.Errorf("Updated(%q): got %v, want %v", uri, got, want)
			}
		}
		removeA()
		removeA()
		synctest.Wait()
		if got := p.methods(); got != "resources/subscribe" {
			t.Errorf("asked for %q, want one subscription", got)
		}
		rs.Updated("file:///d")
		removeB()
		synctest.Wait()
		<-rb.Done()
		if got := p.methods(); got != "resources/subscribe resources/unsubscribe" {
			t.Errorf("asked for %q", got)
		}
		if len(a.heard) != 2 || len(b.heard) != 3 || len(a.ended)+len(b.ended) != 0 {
			t.Errorf("heard %v and %v, ended %v %v", a.heard, b.heard, a.ended, b.ended)
		}
		if rs.Updated("file:///d") {
			t.Error("somebody still hears")
		}
	})
}

// STDIO-24, SHL-52: a new session is told again, and the users to read again; if that
// fails for a while it is tried again.
func TestResourcesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := 0
		p := newPeer(t, nil)
		p.answer = func(context.Context, *call.Request) (string, error) {
			if fail > 0 {
				fail--
				return "", &call.LostError{}
			}
			return `{}`, nil
		}
		rs := newResources(p, false)
		u := newUser()
		remove, err := rs.Add(t.Context(), "file:///d", u.Updated, u.Ended)
		if err != nil {
			t.Fatal(err)
		}
		fail = 3
		rs.Connected()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(p.times(mcp.MethodSubscribe)); n != 5 || len(u.heard) != 1 {
			t.Errorf("subscribed %d times and heard %v, want 5 times and the resource once", n, u.heard)
		}
		remove()
		synctest.Wait()
		if n := len(p.times(mcp.MethodUnsubscribe)); n != 0 {
			t.Error("unsubscribed without a connection")
		}
	})
}

// A subscription that is refused ends, the first time at once.
func TestResourcesRefused(t *testing.T) {
	tests := map[string]error{"refused": mcp.ErrResourceNotFound, "lost": &call.LostError{}, "no way": errCut, "closing": call.ErrClosed}
	for name, refusal := range tests {
		for _, later := range []bool{false, true} {
			if later && name == "lost" {
				continue
			}
			t.Run(fmt.Sprintf("%s %v", name, later), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					agrees := later
					p := newPeer(t, nil)
					p.answer = func(context.Context, *call.Request) (string, error) {
						if agrees {
							return `{}`, nil
						}
						return "", refusal
					}
					rs := newResources(p, true)
					u := newUser()
					_, err := rs.Add(t.Context(), "file:///d", u.Updated, u.Ended)
					if later {
						agrees = false
						rs.Connected()
						time.Sleep(time.Minute)
						synctest.Wait()
						if len(u.ended) == 1 {
							err = u.ended[0]
						}
					}
					if !errors.Is(err, refusal) {
						t.Errorf("got %v, want %v", err, refusal)
					}
					synctest.Wait()
					if n := p.sys.Census().Live(actors.KindSubscription); n != 0 {
						t.Errorf("%d actors are left", n)
					}
				})
			})
		}
	}
}

// Who does not wait for the server's word leaves nothing behind; what kills the actor
// ends its users.
func TestResourcesGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(ctx context.Context, _ *call.Request) (string, error) { return never(ctx) })
		rs := newResources(p, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := rs.Add(ctx, "file:///d", newUser().Updated, newUser().Ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if n := p.sys.Census().Live(actors.KindSubscription); n != 0 {
			t.Errorf("%d actors are left", n)
		}
		p.mu.Lock()
		p.answer = func(context.Context, *call.Request) (string, error) { return `{}`, nil }
		p.mu.Unlock()
		u := newUser()
		if _, err := rs.Add(t.Context(), "file:///d", u.Updated, u.Ended); err != nil {
			t.Fatal(err)
		}
		r := rs.Resource("file:///d")
		r.Ref().Stop()
		<-r.Done()
		synctest.Wait()
		if len(u.ended) != 1 || !errors.Is(u.ended[0], watch.ErrFailed) {
			t.Errorf("ended: got %v, want %v", u.ended, watch.ErrFailed)
		}
	})
}
