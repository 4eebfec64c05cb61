package auth_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// A refusal starts a login, whether the server refuses the first request or lets the handshake
// pass and refuses the call (AUTH-15, AUTH-21), with several challenges (AUTH-22). The refused
// request is sent again once, with the token in its header and never in its query (AUTH-03);
// the authorization server sees PKCE and the resource (AUTH-05, AUTH-40), and the person whose
// login it is.
func TestFirstLogin(t *testing.T) {
	for name, open := range map[string]bool{"initialize is refused": false, "the call is refused": true} {
		t.Run(name, func(t *testing.T) {
			k := loopback(t)
			k.open = open
			k.is(func(ctx context.Context, r *auth.Request) error { return k.browse(ctx, r, 200) })
			c, err := mcpclient.Dial(t.Context(), *k.server(), &mcpclient.Options{System: k.sys, Authorizer: k.auth})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got, err := c.CallTool(t.Context(), "t", nil, nil)
			if err != nil || len(got.Content) != 1 {
				t.Fatalf("CallTool: got %+v, %v", got, err)
			}
			k.counts("at the end", map[string]int{"authorize": 1, "register": 1, "authorization_code": 1, "call": 1, "refused": 1, "query": 0, "refresh_token": 0})
			asked := k.requests()
			if len(asked) != 1 {
				t.Fatalf("the person was asked %d times, want once", len(asked))
			}
			r := asked[0]
			if r.Server != k.base+"/mcp" || r.Resource != k.base+"/mcp" || r.Issuer != k.base+"/as1" || !slices.Equal(r.Scopes, []string{"read"}) || !slices.Equal(r.New, r.Scopes) ||
				!strings.HasPrefix(r.ClientID, "client-as1-") || r.Why != "the server wants to know who uses it" {
				t.Errorf("got the request %+v", r)
			}
		})
	}
}

// 50 calls that are refused at once lead to one login, one registration and one question, and
// all get their results. No goroutine waits for a call (AUTH-15).
func TestSingleFlight(t *testing.T) {
	const calls = 50
	bubble(t, func(t *testing.T, k *kit) {
		k.is(func(ctx context.Context, r *auth.Request) error {
			time.Sleep(time.Minute)
			return k.agree(ctx, r)
		})
		c := k.credential()
		var mu sync.Mutex
		var resumed []error
		before := 0
		for i := range calls {
			login, ok := errors.AsType[*auth.LoginError](k.once(t.Context(), c, "t"))
			if !ok || !errors.Is(login, auth.ErrLogin) || login.Err != nil {
				t.Fatalf("got %v, want a LoginError that is waited for", login)
			}
			if synctest.Wait(); i == 0 { // the login is under way
				before = runtime.NumGoroutine()
			}
			login.Wait(func(err error) { mu.Lock(); defer mu.Unlock(); resumed = append(resumed, err) })
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > before+5 { // some may be idle
			t.Errorf("%d goroutines with %d calls that wait, %d with one", n, calls, before)
		}
		time.Sleep(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(resumed) != calls || slices.ContainsFunc(resumed, func(err error) bool { return err != nil }) || len(k.requests()) != 1 {
			t.Errorf("%d calls go on, with %v; the person was asked %d times", len(resumed), resumed, len(k.requests()))
		}
		k.good(k.many(c, calls)...)
		k.counts("at the end", map[string]int{"authorize": 1, "register": 1, "authorization_code": 1, "call": calls, "refused": calls})
	})
}

// The same with clients: their calls wait for the login, and end with their results.
func TestCallsWaitForTheLogin(t *testing.T) {
	const calls = 50
	k := loopback(t)
	k.open = true
	all := make(chan struct{})
	k.is(func(ctx context.Context, r *auth.Request) error {
		select {
		case <-all:
		case <-ctx.Done():
			return ctx.Err()
		}
		return k.browse(ctx, r, 200)
	})
	k.onRefused = func(n int) {
		if n == calls {
			close(all)
		}
	}
	c, err := mcpclient.Dial(t.Context(), *k.server(), &mcpclient.Options{System: k.sys, Authorizer: k.auth})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var ended sync.WaitGroup
	for range calls {
		ended.Go(func() {
			if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
				t.Errorf("CallTool: %v", err)
			}
		})
	}
	ended.Wait()
	k.counts("at the end", map[string]int{"authorize": 1, "call": calls, "refused": calls})
}

// A client that connects when it is needed is refused then, and says so; its connection is made
// anew once the person has logged in, and its calls go on. A token that ends later on is a
// login for the call that is refused (AUTH-15).
func TestConnectionIsMadeAnew(t *testing.T) {
	k := loopback(t)
	k.single = true
	k.is(func(ctx context.Context, r *auth.Request) error { return k.browse(ctx, r, 200) })
	ready := make(chan struct{}, 100)
	c, err := mcpclient.Dial(t.Context(), *k.server(), &mcpclient.Options{System: k.sys, Authorizer: k.auth, Lazy: true, OnState: func(s mcpclient.Status) {
		if s.State == conn.Ready {
			ready <- struct{}{}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil && !errors.Is(err, auth.ErrLogin) {
		t.Errorf("the first call: %v", err)
	}
	<-ready
	before := k.count("call")
	for n := range 2 {
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		k.set(func() { clear(k.access) })
	}
	k.counts("at the end", map[string]int{"authorize": 2, "call": before + 2})
}

// noting notes which requests were refused for whose sake no person is asked.
type noting struct {
	*auth.Authorizer
	mcpclient.Auth
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func (n *noting) For(s *mcpclient.Server) (mcpclient.Auth, error) {
	var err error
	n.Auth, err = n.Authorizer.For(s)
	return n, err
}

func (n *noting) Denied(ctx context.Context, req *http.Request, status int, header http.Header) (bool, error) {
	n.mu.Lock()
	n.seen[req.Method] = httpguard.IsUnattended(ctx)
	n.mu.Unlock()
	return n.Auth.Denied(ctx, req, status, header)
}

// An event stream that is refused asks no person: its status says so, and the next call asks
// (SECA-26).
func TestEventStreamAsksNoPerson(t *testing.T) {
	k := loopback(t)
	k.open, k.stream = true, true
	k.is(func(ctx context.Context, r *auth.Request) error { return k.browse(ctx, r, 200) })
	warned := make(chan string, 100)
	n := &noting{Authorizer: k.auth, seen: map[string]bool{}}
	c, err := mcpclient.Dial(t.Context(), *k.server(), &mcpclient.Options{System: k.sys, Authorizer: n, OnState: func(s mcpclient.Status) {
		for _, text := range s.Warnings {
			warned <- text
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if text := <-warned; !strings.Contains(text, "event stream") {
		t.Errorf("got the warning %q", text)
	}
	if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
		t.Error(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if want := map[string]bool{http.MethodGet: true, http.MethodPost: false}; !maps.Equal(n.seen, want) {
		t.Errorf("no person is asked for %v, want %v", n.seen, want)
	}
	k.counts("after a call", map[string]int{"authorize": 1})
}

// What no call waits for is renewed without a person, and asks none (SECA-26).
func TestUnattended(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		c, quiet := k.credential(), httpguard.Unattended(t.Context())
		err := k.once(quiet, c, "t")
		if synctest.Wait(); !errors.Is(err, auth.ErrLogin) || len(k.requests()) != 0 {
			t.Errorf("got %v, and the person was asked %d times", err, len(k.requests()))
		}
		k.good(k.call(c, "t"))
		k.set(func() { clear(k.access) })
		k.good(k.once(quiet, c, "t"))
		k.counts("at the end", map[string]int{"authorize": 1, "refresh_token": 1})
	})
}

// Authorization is optional: a server that wants none notices nothing, and no person is asked
// (AUTH-01).
func TestServerWantsNothing(t *testing.T) {
	k := loopback(t)
	k.free = true
	c, err := mcpclient.Dial(t.Context(), *k.server(), &mcpclient.Options{System: k.sys, Authorizer: k.auth})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
		t.Error(err)
	}
	k.counts("at the end", map[string]int{"metadata": 0, "register": 0, "authorize": 0, "call": 1})
}

// authorizers counts the servers that it is asked for.
type authorizers struct{ asked int }

func (a *authorizers) For(*mcpclient.Server) (mcpclient.Auth, error) {
	a.asked++
	return nil, nil
}

// A server that is a process has its credentials from the environment (AUTH-02), and one with
// credentials of its own, or with authorization turned off, has those.
func TestWhoIsAuthorized(t *testing.T) {
	headers := func(context.Context) (map[string]string, error) { return nil, nil }
	const at = "https://mcp.example/mcp"
	for name, test := range map[string]struct {
		server mcpclient.Server
		want   int
	}{
		"a process":        {mcpclient.Command("troupe-test"), 0},
		"a URL":            {mcpclient.Server{URL: at}, 1},
		"another header":   {mcpclient.Server{URL: at, Headers: map[string]string{"X-Key": "x"}}, 1},
		"its own header":   {mcpclient.Server{URL: at, Headers: map[string]string{"authorization": "Bearer x"}}, 0},
		"its own function": {mcpclient.Server{URL: at, HeadersFunc: headers}, 0},
		"turned off":       {mcpclient.Server{URL: at, OAuth: mcpclient.OAuth{Off: true}}, 0},
	} {
		a := new(authorizers)
		test.server.Name = "x"
		c, err := mcpclient.Dial(t.Context(), test.server, &mcpclient.Options{Authorizer: a, Lazy: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := c.Close(); err != nil || a.asked != test.want {
			t.Errorf("%s: asked %d times, want %d; %v", name, a.asked, test.want, err)
		}
	}
}

// A person can log in before the server asks: one that refuses calls only, or has given fewer scopes
// than are wanted now. A server that names no authorization server wants none (AUTH-20).
func TestLoginUnasked(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		login := func(scopes ...string) error {
			s := k.server()
			s.OAuth.Scopes = scopes
			return k.auth.Login(t.Context(), s)
		}
		k.good(login("read"), login("read"))
		k.counts("after a login", map[string]int{"authorize": 1, "refused": 0})
		k.good(login("read", "more"))
		k.counts("with more scopes", map[string]int{"authorize": 2, "refused": 0})
		k.good(k.call(k.credential(), "t"))
		k.set(func() { k.issuers = nil })
		other := k.server()
		other.URL = k.base + "/other"
		if err := k.auth.Login(t.Context(), other); !errors.Is(err, auth.ErrNotWanted) {
			t.Errorf("without metadata: got %v, want %v", err, auth.ErrNotWanted)
		}
	})
}
