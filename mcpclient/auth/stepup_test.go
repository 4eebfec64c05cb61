package auth_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// What a person is asked is short, whatever the server says.
func TestRequestIsShort(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		c := k.credential()
		k.good(k.call(c, "t"))
		var scopes []string
		for n := range 60 {
			scopes = append(scopes, strings.Repeat("x", 100)+strconv.Itoa(n))
		}
		k.set(func() { k.wants = map[string]string{"t": strings.Join(scopes, " ")} })
		_ = k.call(c, "t")
		if r := k.requests(); len(r) < 2 || len(r[1].Why) > 500 || !strings.Contains(r[1].Why, "xxx") {
			t.Errorf("got the requests %+v", r)
		}
	})
}

// 403 with insufficient_scope asks for the union of what the token has and what the challenge
// names, once for all calls, and says what is new; calls for which the token is enough go on
// meanwhile (AUTH-60, AUTH-61).
func TestStepUp(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		c := k.credential()
		k.good(k.call(c, "t"))
		k.set(func() { k.wants = map[string]string{"u": "write"} })
		k.is(func(ctx context.Context, r *auth.Request) error {
			time.Sleep(time.Minute)
			return k.agree(ctx, r)
		})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { k.good(k.call(c, "u")) })
		}
		time.Sleep(time.Second)
		k.good(k.many(c, 20)...)
		k.counts("while the person is asked", map[string]int{"call": 21, "authorize": 1})
		all.Wait()
		k.good(k.many(c, 20)...)
		k.counts("at the end", map[string]int{"call": 61, "authorize": 2, "authorization_code": 2})
		r := k.requests()[1]
		slices.Sort(r.Scopes)
		if !slices.Equal(r.Scopes, []string{"read", "write"}) || !slices.Equal(r.New, []string{"write"}) || r.Why != "the server wants more for this: write" {
			t.Errorf("got the request %+v", r)
		}
	})
}

// What was asked for before and not given is asked for again with what the challenge names, also
// after a renewal and in another process (AUTH-61).
func TestStepUpAsksForAll(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.life, k.challenged, k.withheld = 60, "read extra", "extra"
		k.good(k.call(k.credential(), "t"))
		time.Sleep(time.Minute)
		k.good(k.call(k.credential(), "t"))
		k.set(func() { k.wants = map[string]string{"u": "write"}; k.challenged = "" })
		later := k.another(k.inBubble)
		k.good(later.call(later.credential(), "u"))
		k.counts("at the end", map[string]int{"refresh_token": 1, "authorize": 2})
		r := later.requests()[0]
		if !slices.Equal(r.Scopes, []string{"write", "read", "extra"}) || !slices.Equal(r.New, []string{"write", "extra"}) {
			t.Errorf("got the request for %q, new %q", r.Scopes, r.New)
		}
	})
}

// A client whose token has ended and which lacks a scope, too, renews the one and asks for the
// other in one call (AUTH-61).
func TestStepUpAfterRenewal(t *testing.T) {
	k := loopback(t)
	k.is(func(ctx context.Context, r *auth.Request) error { return k.browse(ctx, r, 200) })
	c, err := mcpclient.Dial(t.Context(), *k.server(), &mcpclient.Options{System: k.sys, Authorizer: k.auth})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for n := range 2 {
		if _, err := c.CallTool(t.Context(), "u", nil, nil); err != nil {
			t.Errorf("call %d: %v", n, err)
		}
		k.set(func() { clear(k.access); k.wants = map[string]string{"u": "write"} })
	}
	k.counts("at the end", map[string]int{"authorize": 2, "refresh_token": 1, "call": 2})
}

// What ends in an error at once, without a login: 403 for another reason, scopes that the
// token has already, scopes beyond those that are configured (AUTH-61, SECA-26).
func TestForbidden(t *testing.T) {
	for name, test := range map[string]struct {
		change func(k *kit)
		want   string
	}{
		"not for this account": {func(k *kit) { k.forbid = true }, "forbids"},
		"nothing new":          {func(k *kit) { k.wants, k.deaf = map[string]string{"t": "read"}, true }, "scopes that the token has"},
		"scopes are pinned":    {func(k *kit) { k.wants = map[string]string{"t": "admin"} }, "oauth.scopes"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.cfg.Scopes = []string{"read"}
				c := k.credential()
				k.good(k.call(c, "t"))
				k.set(func() { test.change(k) })
				for _, err := range k.many(c, 10) {
					if err == nil || errors.Is(err, auth.ErrLogin) || !strings.Contains(err.Error(), test.want) {
						t.Fatalf("got %v, want an error with %q", err, test.want)
					}
				}
				k.counts("afterwards", map[string]int{"authorize": 1, "call": 1})
			})
		})
	}
}

// A server that wants another scope each time has three logins in an hour, and an error that
// says so after that; an hour later the person is asked again (AUTH-62, SECA-26).
func TestLoginsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		c := k.credential()
		k.good(k.call(c, "t"))
		for n, scope := range []string{"one", "two", "three", "four"} {
			time.Sleep(time.Minute)
			k.set(func() { k.wants = map[string]string{"t": scope} })
			err := k.call(c, "t")
			switch {
			case n < auth.MaxLogins-1:
				k.good(err)
			case !errors.Is(err, auth.ErrLogin) || !strings.Contains(err.Error(), "three times within an hour"):
				t.Errorf("%s: got %v, want that there were too many", scope, err)
			}
		}
		k.counts("within the hour", map[string]int{"authorize": auth.MaxLogins})
		time.Sleep(auth.LoginWindow)
		k.good(k.call(c, "t"))
	})
}

// A server that refuses whatever it is given has three logins in an hour, and its calls end
// with an error that says so (SECA-26). A wait on that error ends at once.
func TestRefusedForEver(t *testing.T) {
	for name, single := range map[string]bool{"with refresh tokens": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.refuse, k.single = true, single
				c := k.credential()
				for _, err := range k.many(c, 10) {
					if err == nil {
						t.Fatal("a call that is always refused has succeeded")
					}
				}
				for range 20 {
					if err := k.call(c, "t"); err == nil {
						t.Fatal("a call that is always refused has succeeded")
					}
				}
				if n := k.count("authorize"); n == 0 || n > auth.MaxLogins {
					t.Errorf("%d logins, want at most %d", n, auth.MaxLogins)
				}
				if single {
					err := k.once(t.Context(), c, "t")
					login, ok := errors.AsType[*auth.LoginError](err)
					if !ok || !strings.Contains(err.Error(), "three times within an hour") {
						t.Fatalf("got %v, want that there were too many logins", err)
					}
					var told error
					login.Wait(func(err error) { told = err })
					if synctest.Wait(); told == nil {
						t.Error("a wait on the error does not end with it")
					}
				}
				before := k.count("refused") + k.count("refresh_token") + k.count("metadata")
				time.Sleep(24 * time.Hour)
				if n := k.count("refused") + k.count("refresh_token") + k.count("metadata"); n != before {
					t.Errorf("%d requests in a day without calls", n-before)
				}
			})
		})
	}
}

// The same with a client: a connection that is refused for ever is not made again and again,
// and the error says why (SECA-26).
func TestClientRefusedForEver(t *testing.T) {
	k := loopback(t)
	k.refuse, k.single = true, true
	var err error
	for range 3 {
		if _, err = mcpclient.Dial(t.Context(), *k.server(), &mcpclient.Options{System: k.sys, Authorizer: k.auth}); err == nil {
			t.Fatal("Dial has succeeded")
		}
	}
	if !errors.Is(err, auth.ErrLogin) || !strings.Contains(err.Error(), "three times within an hour") {
		t.Errorf("got %v, want that there were too many logins", err)
	}
	failed := make(chan error, 100)
	c, err := mcpclient.Dial(t.Context(), *k.server(), &mcpclient.Options{System: k.sys, Authorizer: k.auth, Lazy: true, OnState: func(s mcpclient.Status) {
		if s.Err != nil {
			failed <- s.Err
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CallTool(t.Context(), "t", nil, nil); !errors.Is(err, auth.ErrLogin) {
		t.Errorf("CallTool: got %v, want %v", err, auth.ErrLogin)
	}
	k.counts("at the end", map[string]int{"authorize": auth.MaxLogins})
	if n := k.count("refused"); n > 20 {
		t.Errorf("%d requests were refused", n)
	}
}

// A person who declines ends all calls that wait, with the reason. The next refused call asks
// again, but not more often than three times in an hour (SECA-26).
func TestPersonDeclines(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.is(func(context.Context, *auth.Request) error {
			time.Sleep(time.Minute)
			return errDeclined
		})
		c := k.credential()
		for n := range 5 {
			for _, err := range k.many(c, 20) {
				if !errors.Is(err, auth.ErrLogin) || n < auth.MaxLogins && !errors.Is(err, errDeclined) {
					t.Fatalf("got %v, want %v", err, errDeclined)
				}
			}
			if want := min(n+1, auth.MaxLogins); len(k.requests()) != want {
				t.Fatalf("the person was asked %d times, want %d", len(k.requests()), want)
			}
		}
		time.Sleep(auth.LoginWindow)
		k.is(k.agree)
		k.good(k.many(c, 20)...)
	})
}

// A login without an answer ends with Options.Patience, and one whose AuthorizeFunc panics ends at
// once.
func TestNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.is(func(ctx context.Context, _ *auth.Request) error {
			<-ctx.Done()
			return ctx.Err()
		})
		c, begin := k.credential(), time.Now()
		if err := k.call(c, "t"); !errors.Is(err, auth.ErrLogin) || !strings.Contains(err.Error(), "no person has logged in") || time.Since(begin) != 10*time.Minute {
			t.Errorf("got %v after %v, want that no person has logged in, after 10 minutes", err, time.Since(begin))
		}
		k.is(func(context.Context, *auth.Request) error { panic("the program of the person") })
		if err := k.call(c, "t"); !errors.Is(err, auth.ErrLogin) || !strings.Contains(err.Error(), "the program of the person") {
			t.Errorf("got %v, want the panic", err)
		}
	})
}
