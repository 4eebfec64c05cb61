package auth_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store"
)

// inBubble has a process use the network of its bubble.
func (k *kit) inBubble(o *auth.Options) { *o = auth.WithClient(*o, k.client()) }

// Of two processes that have the same tokens one renews them, and the other takes the result:
// a refresh token that is shown twice can end the whole grant (AUTH-44, SECA-25).
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

// A token that another process has got long ago is renewed before it is used: its time has passed,
// or the server has refused the one before and would refuse that one, too (AUTH-44).
func TestProcessHasSlept(t *testing.T) {
	for name, life := range map[string]int{"the server says how long tokens last": 60, "it does not": 0} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *kit) {
				k.life = life
				first := k.credential()
				k.good(k.call(first, "t"))
				other := k.another(k.inBubble)
				second := other.credential()
				k.good(other.call(second, "t"))
				for range 2 {
					time.Sleep(time.Minute)
					k.set(func() { clear(k.access) })
					k.good(k.call(first, "t"))
				}
				time.Sleep(time.Hour)
				k.set(func() { clear(k.access) })
				k.good(other.call(second, "t"))
				k.good(k.call(first, "t"))
				k.counts("afterwards", map[string]int{"authorize": 1, "refresh_token": 3, "call": 6})
			})
		})
	}
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

// A renewal by another process does not end the wait for more scopes: the login does (AUTH-60).
func TestStepUpElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.wants = map[string]string{"u": "more"}
		k.life = 60
		mine := k.credential()
		k.good(k.call(mine, "t"))
		headless := k.another(func(o *auth.Options) {
			k.inBubble(o)
			o.Authorize = nil
		})
		login, ok := errors.AsType[*auth.LoginError](headless.once(t.Context(), headless.credential(), "u"))
		if !ok {
			t.Fatal("the call waits for no login")
		}
		if resource, scopes, ok := login.Elsewhere(); !ok || resource != k.base+"/mcp" || !slices.Contains(scopes, "more") {
			t.Errorf("Elsewhere: got %s, %v, %v", resource, scopes, ok)
		}
		ended := make(chan error, 1)
		login.Await(func(err error) { ended <- err })
		for range 30 {
			time.Sleep(time.Minute)
			k.good(k.call(mine, "t"))
		}
		if len(ended) != 0 {
			t.Fatalf("a renewal has ended the wait: %v", <-ended)
		}
		k.good(k.call(mine, "u"))
		there := time.Now()
		if err := <-ended; err != nil || time.Since(there) > time.Second {
			t.Errorf("the wait: %v, %v after the login", err, time.Since(there))
		}
		k.good(headless.call(headless.credential(), "u"))
	})
}

// A connection that the server refuses waits for a login by another process, without a bound, and
// makes no other handshake meanwhile, however many callers ask; then it connects. A call waits with it
// (AUTH-15, section 14).
func TestConnectionElsewhere(t *testing.T) {
	k := loopback(t)
	k.is(func(ctx context.Context, r *auth.Request) error { return k.browse(ctx, r, 200) })
	headless := k.another(func(o *auth.Options) { o.Authorize, o.Patience = nil, time.Millisecond })
	states := make(chan conn.State, 100)
	host, err := mcpclient.NewHost(headless.sys, []mcpclient.Server{*headless.server()}, &mcpclient.HostOptions{
		Options: mcpclient.Options{Authorizer: headless.auth},
		OnEvent: func(ev mcpclient.Event) { states <- ev.Status.State },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for <-states != conn.Unauthorized {
	}
	refused := k.count("refused")
	for range 10 {
		if tools, err := host.Tools(t.Context()); err != nil || len(tools) != 0 {
			t.Fatalf("Tools: got %d, %v", len(tools), err)
		}
	}
	status := host.Servers()[0]
	if status.State != conn.Unauthorized || !errors.Is(status.Err, auth.ErrLogin) || !errors.Is(status.ListErr, auth.ErrLogin) || status.Failures != 0 {
		t.Errorf("Servers: got %+v", status)
	}
	_, err = host.Call(t.Context(), "world__t", nil, nil)
	if err == nil {
		t.Error("a call of an unknown tool succeeds")
	}
	if n := k.count("refused"); n != refused {
		t.Errorf("%d handshakes meanwhile", n-refused)
	}
	k.good(k.call(k.credential(), "t"))
	for <-states != conn.Ready {
	}
	if tools, err := host.Tools(t.Context()); err != nil || len(tools) != 2 {
		t.Errorf("Tools: got %d, %v", len(tools), err)
	}
	if n := k.count("refused"); n != refused+1 { // by the person's own process
		t.Errorf("%d requests were refused, want %d", n, refused+1)
	}
}

// The first call of a client that connects when it is needed waits as a refused one does, and
// ends with Options.Patience.
func TestLazyClientWaits(t *testing.T) {
	k := loopback(t)
	k.is(func(ctx context.Context, r *auth.Request) error { return k.browse(ctx, r, 200) })
	dial := func(patience time.Duration) (*process, *mcpclient.Client) {
		p := k.another(func(o *auth.Options) { o.Authorize, o.Patience = nil, patience })
		c, err := mcpclient.Dial(t.Context(), *p.server(), &mcpclient.Options{System: p.sys, Authorizer: p.auth, Lazy: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return p, c
	}
	_, hasty := dial(time.Millisecond)
	if _, err := hasty.CallTool(t.Context(), "t", nil, nil); !errors.Is(err, auth.ErrLogin) {
		t.Errorf("without a login: got %v", err)
	}
	p, c := dial(time.Hour)
	called := make(chan error, 1)
	p.sys.Go("a call of the test", func() {
		_, err := c.CallTool(context.Background(), "t", nil, nil)
		called <- err
	})
	for p.waiting() < 2 { // the connection and the call
		runtime.Gosched()
	}
	k.good(k.call(k.credential(), "t"))
	k.good(<-called)
}

// While nothing waits for a login the vault is not read.
func TestNoPolling(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		var reads atomic.Int32
		headless := k.another(func(o *auth.Options) {
			k.inBubble(o)
			o.Authorize, o.Vault = nil, &readCounter{o.Vault, &reads}
		})
		login, _ := errors.AsType[*auth.LoginError](headless.once(t.Context(), headless.credential(), "t"))
		before := reads.Load()
		time.Sleep(time.Hour)
		if n := reads.Load() - before; n != 0 {
			t.Errorf("%d reads before something waits", n)
		}
		leave := login.Await(func(err error) { t.Errorf("one that has left is told: %v", err) })
		time.Sleep(time.Hour)
		if n := reads.Load() - before; n < 3600 {
			t.Errorf("%d reads in an hour of waiting", n)
		}
		leave()
		time.Sleep(time.Second)
		before = reads.Load()
		time.Sleep(time.Hour)
		if n := reads.Load() - before; n != 0 {
			t.Errorf("%d reads after the wait", n)
		}
	})
}

// readCounter counts how often a vault is read.
type readCounter struct {
	store.Vault
	n *atomic.Int32
}

func (v *readCounter) Sealed(ctx context.Context, kind, key string) (store.Sealed, error) {
	v.n.Add(1)
	return v.Vault.Sealed(ctx, kind, key)
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

// Connections that begin at the same moment share one credential and one keeper, also when they
// take the place of a keeper that has failed.
func TestCredentialsAreSharedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		all := func() mcpclient.Auth {
			got := make([]mcpclient.Auth, 50)
			var wg sync.WaitGroup
			for i := range got {
				wg.Go(func() { got[i] = k.credential() })
			}
			wg.Wait()
			synctest.Wait()
			for _, c := range got[1:] {
				if c != got[0] {
					t.Fatal("two connections at once have credentials of their own")
				}
			}
			if n := k.sys.Census().Live(actors.KindKeeper); n != 1 {
				t.Fatalf("got %d keepers, want 1", n)
			}
			return got[0]
		}
		first := all()
		k.good(k.call(first, "t"))
		var bad atomic.Bool
		bad.Store(true)
		k.panics(func() bool { return bad.Swap(false) })
		k.set(func() { k.wants = map[string]string{"u": "write"} })
		if err := k.call(first, "u"); !errors.Is(err, auth.ErrStopped) {
			t.Fatalf("the call with the panic: got %v, want %v", err, auth.ErrStopped)
		}
		if next := all(); next == first {
			t.Error("the credential of the failed keeper is still in use")
		}
	})
}
