package logins_test

import (
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// A token for another server, by the same issuer and for the same person, is refused with all that
// a client needs to get a better one, which it does by itself (AUTH-04, AUTH-50, SECA-21).
func TestTokenOfAnotherServer(t *testing.T) {
	t.Parallel() // with the others, which wait
	as := oidc(t, "jwt")
	other := listenProgram(t, as)
	other.calls(openSDK(other, mcp.V2025_11_25), "read")
	foreign := other.front.lastToken()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			w := k.listen(t, as)
			each(t, func(t *testing.T, m maker) {
				one := w.with(t)
				c := m.open(one, m.version)
				one.calls(c, "read")
				one.front.forget()
				one.front.show(foreign)
				one.calls(c, "read")
				one.refused("with a token of another server")
				one.asksAgain(m.renews)
			})
		})
	}
}

// A token that its issuer does not know any more is refused when the server asks again, and since
// nothing renews it the person logs in again (AUTH-04, AUTH-50).
func TestRevokedToken(t *testing.T) {
	t.Parallel() // with the others, which wait
	as := oidc(t, "opaque")
	w := listenProgram(t, as)
	each(t, func(t *testing.T, m maker) {
		one := w.with(t)
		c := m.open(one, m.version)
		one.calls(c, "read")
		one.front.forget()
		as.revoke()
		one.renew() // else the server heeds the answer of before for half a minute
		one.calls(c, "read")
		one.refused("with a token that was revoked")
		one.asksAgain(false)
	})
}

// An event stream ends with the token that it was opened with, and what the client sends next with
// that is refused; it comes back with another one (AUTH-04, AUTH-50).
func TestTokenExpires(t *testing.T) {
	t.Parallel() // it waits
	as := oidc(t, "jwt")
	as.brief()
	type running struct {
		name string
		w    *world
		c    client
	}
	var all []running
	start := func(k kind, makers ...maker) {
		for _, m := range makers {
			w := k.listen(t, as)
			c := m.open(w, m.version)
			w.calls(c, "read")
			all = append(all, running{k.name + " " + m.name + " " + string(m.version), w, c})
		}
	}
	for i, k := range kinds() {
		if i == 0 {
			start(k, makers...)
		} else {
			start(k, makers[:2]...) // each with a program that starts
		}
	}
	for _, r := range all {
		f := r.w.front
		f.until(t, "the event stream of "+r.name+" was ended", func() bool { return f.ended+f.broken > 0 })
		if f.mu.Lock(); f.ended == 0 { // a client on a busy machine may lose its connection before
			t.Logf("the event stream of %s broke off", r.name)
		}
		f.mu.Unlock()
	}
	as.lasts()
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			one := *r.w
			one.T = t
			for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
				one.calls(r.c, "read")
				if slices.Contains(one.front.refusals(401), one.front.badToken()) || time.Since(begun) > patience {
					break
				}
			}
			one.refused("after the token has expired")
		})
	}
}

// refused checks that a request was refused for its token.
func (w *world) refused(when string) {
	w.Helper()
	got := w.front.refusals(401)
	if !slices.Contains(got, w.front.badToken()) {
		w.Errorf("%s: the challenges %q, want %q", when, got, w.front.badToken())
	}
	for _, challenge := range got {
		if challenge != w.front.badToken() && challenge != w.front.noToken() {
			w.Errorf("%s: the challenge %q", when, challenge)
		}
	}
}

// asksAgain checks that the person was asked twice for the same, or once if the client has renewed
// its token.
func (w *world) asksAgain(renewed bool) {
	w.Helper()
	want := []string{"tools:read", "tools:read"}
	if renewed {
		want = want[:1]
	}
	w.asks("at the end", want...)
}
