package authserver_test

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcpserver/authserver"
	"github.com/troupe-dev/troupe/store"
)

// refresher is a client with a grant.
type refresher struct {
	*world
	form func(refresh string) url.Values
	last string // the refresh token
}

// newRefresher returns a client with a secret, or without one.
func newRefresher(t *testing.T, secret bool, change func(*authserver.Options)) *refresher {
	w := newWorld(t, func(o *authserver.Options) {
		one := authserver.Client{ID: "known", RedirectURIs: []string{callback}}
		if secret {
			one.Secret = "the secret of the client"
		}
		o.Clients = []authserver.Client{one}
		if change != nil {
			change(o)
		}
	})
	own := url.Values{}
	if secret {
		own.Set("client_secret", "the secret of the client")
	}
	_, refresh := w.tokens(redeem("known", w.browser("alice").consent(ask("known", nil)), own))
	return &refresher{w, func(refresh string) url.Values {
		f := renew("known", refresh)
		for k, v := range own {
			f[k] = v
		}
		return f
	}, refresh}
}

// SECA-25: an answer that was lost is given again, the same, within ten seconds, while what it gave is
// unused: to a client that proves who it is, and by an option to others. Whatever else comes with a
// used token ends the grant.
func TestLostAnswers(t *testing.T) {
	tests := []struct {
		name           string
		secret, option bool
		between        func(r *refresher, answer object) // what happens after the first answer
		change         func(url.Values)                  // of the second request
		again          bool                              // the same answer, and the grant goes on
	}{
		{name: "at once", secret: true, again: true},
		{name: "twice", secret: true, between: func(r *refresher, _ object) { r.call("token", r.form(r.last)) }, again: true},
		{name: "at another instance", secret: true, between: func(r *refresher, _ object) { r.instance() }, again: true},
		{name: "after nine seconds", secret: true, between: func(*refresher, object) { time.Sleep(9 * time.Second) }, again: true},
		{name: "after ten seconds", secret: true, between: func(*refresher, object) { time.Sleep(10 * time.Second) }},
		{name: "after the new one was used", secret: true, between: func(r *refresher, a object) { r.tokens(r.form(a["refresh_token"].(string))) }},
		{name: "after the grant was revoked", secret: true, between: func(r *refresher, a object) {
			f := r.form("")
			f.Set("token", a["refresh_token"].(string))
			r.call("revoke", f)
		}},
		{name: "with other scopes", secret: true, change: func(f url.Values) { f.Set("scope", "mcp") }},
		{name: "with another secret", secret: true, change: func(f url.Values) { f.Set("client_secret", "wrong") }},
		{name: "a public client"},
		{name: "a public client by the option", option: true, again: true},
		{name: "a public client by the option, late", option: true, between: func(*refresher, object) { time.Sleep(11 * time.Second) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRefresher(t, tt.secret, func(o *authserver.Options) { o.RetryPublic = tt.option })
				status, first := r.call("token", r.form(r.last))
				if status != http.StatusOK {
					t.Fatalf("the first: %d %v", status, first)
				}
				if tt.between != nil {
					tt.between(r, first)
				}
				form := r.form(r.last)
				if tt.change != nil {
					tt.change(form)
				}
				status, second := r.call("token", form)
				if same := status == http.StatusOK && reflect.DeepEqual(first, second); same != tt.again {
					t.Errorf("the second: %d, the same answer: %v, want %v", status, same, tt.again)
				}
				if status == http.StatusUnauthorized {
					return // that was no client of the grant
				}
				time.Sleep(31 * time.Second) // a resource server asks then
				if _, err := r.uses(first["access_token"].(string)); (err == nil) != tt.again {
					t.Errorf("the access token then: %v", err)
				}
				if status, _ := r.call("token", r.form(first["refresh_token"].(string))); (status == http.StatusOK) != tt.again {
					t.Errorf("the new refresh token then: %d", status)
				}
			})
		})
	}
}

// Requests at once with one token have one answer, and the token in it is good once.
func TestRetriesAtOnce(t *testing.T) {
	r := newRefresher(t, true, nil)
	for round := range 10 {
		if round%2 == 0 {
			r.instance()
		}
		var mu sync.Mutex // guards got
		got := make(map[string]bool)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				status, answer := r.call("token", r.form(r.last))
				mu.Lock()
				defer mu.Unlock()
				if status == http.StatusOK {
					got[answer["refresh_token"].(string)] = true
				} else {
					t.Errorf("round %d: %d %v", round, status, answer)
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			t.Fatalf("round %d: %d different answers", round, len(got))
		}
		for r.last = range got {
		}
	}
}

// ending lets something happen at each change of the store that ends a grant.
type ending struct {
	authserver.Store
	at func()
}

func (e *ending) then(kind string) {
	if f := e.at; f != nil && (kind == "authserver-ended" || kind == "authserver-grant") {
		e.at = nil
		f()
	}
}

func (e *ending) PutRecord(ctx context.Context, r store.Record) error {
	if r.Kind == "authserver-ended" {
		e.then(r.Kind)
	}
	return e.Store.PutRecord(ctx, r)
}

func (e *ending) DeleteRecord(ctx context.Context, kind, owner, key string) error {
	e.then(kind)
	return e.Store.DeleteRecord(ctx, kind, owner, key)
}

// SECA-25: nothing that happens while a grant is ended outruns its end, however it is ended.
func TestEndIsNotOutrun(t *testing.T) {
	for name, end := range map[string]func(r *refresher, first, second string){
		"a used token": func(r *refresher, first, _ string) { r.call("token", r.form(first)) },
		"a revocation": func(r *refresher, _, second string) {
			f := r.form("")
			f.Set("token", second)
			r.call("revoke", f)
		},
		"too many grants": func(r *refresher, _, _ string) {
			r.tokens(redeem("known", r.browser("alice").consent(ask("known", nil)), nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *ending
				r := newRefresher(t, false, func(o *authserver.Options) { s = &ending{Store: o.Store}; o.Store = s })
				first := r.last
				_, second := r.tokens(r.form(first))
				if name == "too many grants" {
					for range 49 {
						time.Sleep(time.Second)
						r.tokens(redeem("known", r.browser("alice").consent(ask("known", nil)), nil))
					}
				}
				third, access := "", ""
				s.at = func() {
					if status, answer := r.call("token", r.form(second)); status == http.StatusOK {
						third, access = answer["refresh_token"].(string), answer["access_token"].(string)
					}
				}
				end(r, first, second)
				if s.at != nil || third == "" {
					t.Fatal("nothing was refreshed meanwhile")
				}
				if status, _ := r.call("token", r.form(third)); status == http.StatusOK {
					t.Error("the refresh token of meanwhile is good")
				}
				time.Sleep(31 * time.Second)
				if _, err := r.uses(access); err == nil {
					t.Error("the access token of meanwhile is good")
				}
			})
		})
	}
}
