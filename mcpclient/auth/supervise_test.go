package auth_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// panics has the keepers of a process panic while f holds.
func (p *process) panics(f func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trace = func(ev actors.TraceEvent) {
		if ev.Actor.Kind() == actors.KindKeeper && f() {
			panic(errors.New("a bug"))
		}
	}
}

// A panic of the keeper ends what waits for it, a login with its question too, with
// ErrStopped. The next request has another keeper, also of a client that was there before, and
// the tokens that were saved.
func TestKeeperPanics(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.set(func() { k.wants = map[string]string{"u": "write"} })
		c := k.credential()
		k.good(k.call(c, "t"))
		var bad atomic.Bool
		k.panics(func() bool { return bad.Swap(false) })
		gone := make(chan error, 1)
		k.is(func(ctx context.Context, _ *auth.Request) error {
			<-ctx.Done()
			gone <- ctx.Err()
			return ctx.Err()
		})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := k.call(c, "u"); !errors.Is(err, auth.ErrStopped) {
					t.Errorf("a call that waits: got %v, want %v", err, auth.ErrStopped)
				}
			})
		}
		time.Sleep(time.Minute)
		bad.Store(true)
		if err := k.call(c, "u"); !errors.Is(err, auth.ErrStopped) {
			t.Errorf("the call with the panic: got %v, want %v", err, auth.ErrStopped)
		}
		all.Wait()
		if err := <-gone; err == nil {
			t.Error("the question is still open")
		}
		k.is(nil)
		k.good(k.call(c, "t"), k.call(c, "u"))
		if next := k.credential(); next == c {
			t.Error("For returns the credential of the keeper that has stopped")
		} else {
			k.good(k.call(next, "u"))
		}
		k.counts("at the end", map[string]int{"authorize": 2})
	})
}

// A keeper that panics before it has read the vault leaves no request waiting.
func TestKeeperPanicsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		var left atomic.Int32
		left.Store(1)
		k.panics(func() bool { return left.Add(-1) >= 0 })
		c := k.credential()
		synctest.Wait()
		k.good(k.call(c, "t"))
	})
}

// The end of the system ends a login: the question, the calls that wait, the port and every
// goroutine.
func TestShutdownDuringLogin(t *testing.T) {
	k := loopback(t)
	asked := make(chan string, 1)
	ended := make(chan error, 1)
	k.is(func(ctx context.Context, r *auth.Request) error {
		u, err := url.Parse(r.URL)
		if err != nil {
			return err
		}
		back, err := url.Parse(u.Query().Get("redirect_uri"))
		if err != nil {
			return err
		}
		asked <- back.Host
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	c, err := mcpclient.Dial(t.Context(), *k.server(), &mcpclient.Options{System: k.sys, Authorizer: k.auth, Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan error, 1)
	k.sys.Go("a call of the test", func() {
		_, err := c.CallTool(context.Background(), "t", nil, nil)
		called <- err
	})
	host := <-asked
	conn, err := net.Dial("tcp", host) // a browser that has connected, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := k.sys.Shutdown(ctx); err != nil || k.sys.Census().Live() != 0 {
		t.Errorf("Shutdown: %v, %+v left", err, k.sys.Census().Actors)
	}
	if err := <-called; err == nil {
		t.Error("the call has succeeded")
	}
	if err := <-ended; err == nil {
		t.Error("the question is still open")
	}
	if conn, err := net.Dial("tcp", host); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection of the browser is still open")
	}
	stacks := make([]byte, 1<<20)
	if text := string(stacks[:runtime.Stack(stacks, true)]); strings.Contains(text, "mcpclient/auth.(") {
		t.Errorf("goroutines are left:\n%s", text)
	}
	if _, err := k.auth.For(k.server()); !errors.Is(err, actors.ErrClosed) {
		t.Errorf("For: got %v, want %v", err, actors.ErrClosed)
	}
}

// A call that is given up while it waits leaves nothing behind, and the login goes on for the
// others.
func TestCallIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.is(func(ctx context.Context, r *auth.Request) error {
			time.Sleep(time.Minute)
			return k.agree(ctx, r)
		})
		c := k.credential()
		login, ok := errors.AsType[*auth.LoginError](k.once(t.Context(), c, "t"))
		if !ok {
			t.Fatal("no login")
		}
		login.Wait(func(error) { t.Error("one that has left is told") })()
		k.good(k.many(c, 10)...)
		k.set(func() { clear(k.access); k.life = 60 })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := k.once(ctx, c, "t"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		k.good(k.call(c, "t"))
	})
}
