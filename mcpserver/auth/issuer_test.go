package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcpserver/auth"
)

// The tests of issuers run in virtual time.

// SECA-16, SECA-9: tokens with random key ids have the keys fetched once a minute, and
// those with known ones go on meanwhile.
func TestKeyFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(login)
		s := p.server(t, nil)
		good := func() {
			t.Helper()
			if _, err := s.Authenticate(request(token(object{"jti": fmt.Sprint(time.Now())}))); err != nil {
				t.Error(err)
			}
		}
		good()
		for second := range 181 {
			for i := range 20 {
				flood := sign(object{"alg": "ES256", "typ": "at+jwt", "kid": fmt.Sprint(second, i)}, claims(nil), foreignKey())
				if status, _ := refused(t, must2(s.Authenticate(request(flood)))); status != http.StatusUnauthorized {
					t.Fatalf("got %d, want 401", status)
				}
			}
			good()
			time.Sleep(time.Second)
		}
		if n := p.count("/keys"); n != 4 { // at the beginning, and after one, two and three minutes
			t.Errorf("the keys were fetched %d times in three minutes", n)
		}
	})
}

func must2[T any](_ T, err error) error { return err }

// AUTH-25: the issuer's metadata says where the keys are. A key that is new is found within a minute, one that is withdrawn is good for some minutes
// at most, and while the issuer is in trouble the old ones stay good.
func TestKeysChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(login)
		s := p.server(t, nil)
		fresh := func(kid string, key any) int {
			t.Helper()
			status, _ := refused(t, must2(s.Authenticate(request(sign(object{"alg": "ES256", "typ": "at+jwt", "kid": kid}, claims(object{"jti": fmt.Sprint(time.Now())}), key)))))
			return status
		}
		if got := fresh("ec", ecKey()); got != 0 {
			t.Fatalf("got %d", got)
		}
		p.set(func() { p.keys = []object{jwk("new", &foreignKey().PublicKey)} })
		time.Sleep(time.Minute)
		if got := fresh("new", foreignKey()); got != 0 {
			t.Errorf("the new key: got %d", got)
		}
		if got := fresh("ec", ecKey()); got != http.StatusUnauthorized {
			t.Errorf("the key that was withdrawn: got %d, want 401", got)
		}
		p.set(func() { p.down = true })
		time.Sleep(24 * time.Hour)
		if got := fresh("new", foreignKey()); got != 0 {
			t.Errorf("with an issuer in trouble: got %d", got)
		}
		p.set(func() { p.down, p.keys = false, []object{jwk("ec", &ecKey().PublicKey)} })
		time.Sleep(16 * time.Minute)
		fresh("new", foreignKey())
		if got := fresh("new", foreignKey()); got != http.StatusUnauthorized {
			t.Errorf("a known key that was withdrawn: got %d after 16 minutes, want 401", got)
		}
	})
}

// AUTH-26: metadata of another issuer does not count. An issuer that never answered is asked again after seconds; until then nothing is known of
// a token: 503, so that no client gives its tokens up.
func TestIssuerInTrouble(t *testing.T) {
	for name, trouble := range map[string]func(p *idp){
		"down": func(p *idp) { p.down = true }, "huge": func(p *idp) { p.huge = true }, "slow": func(p *idp) { p.slow = time.Hour },
		"no keys": func(p *idp) { p.keys = nil }, "of another issuer": func(p *idp) { p.issuer += "/x" },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newIDP(login)
			s := p.server(t, nil)
			trouble(p)
			good, start := token(nil), time.Now()
			if status, _ := refused(t, must2(s.Authenticate(request(good)))); status != http.StatusServiceUnavailable || time.Since(start) > 11*time.Second {
				t.Errorf("%s: got %d after %v, want 503", name, status, time.Since(start))
			}
			again := newIDP(login)
			p.set(func() { p.down, p.huge, p.slow, p.keys, p.issuer = false, false, 0, again.keys, login })
			time.Sleep(5 * time.Second)
			if _, err := s.Authenticate(request(good)); err != nil {
				t.Errorf("%s: afterwards: %v", name, err)
			}
		})
	}
}

// Requests that come together wait for one fetch, also if the first client goes away.
func TestOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(login)
		p.slow = 2 * time.Second
		s := p.server(t, nil)
		good := token(nil)
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				r := request(good)
				if i == 0 {
					r = r.WithContext(ctx)
				} else {
					time.Sleep(time.Millisecond)
				}
				if _, err := s.Authenticate(r); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			})
		}
		time.Sleep(time.Second)
		leave()
		all.Wait()
		if n := p.count("/keys"); n != 1 {
			t.Errorf("the keys were fetched %d times, want once", n)
		}
	})
}

// RFC 7662: the issuer is asked about a token, and again after 30 seconds, so that a token
// that is revoked is refused then. What it says of the token counts like the token's own
// claims.
func TestIntrospect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(login)
		answers := map[string]object{
			"good":     {"active": true, "iss": login, "sub": "alice", "client_id": "app", "aud": resource, "exp": time.Now().Add(time.Hour).Unix(), "scope": "mcp"},
			"noissuer": {"active": true, "sub": "alice", "aud": []string{resource}, "exp": time.Now().Add(time.Hour).Unix(), "scope": "mcp"},
			"other":    {"active": true, "sub": "alice", "aud": "https://other.example", "exp": time.Now().Add(time.Hour).Unix(), "scope": "mcp"},
			"evil":     {"active": true, "iss": "https://evil.example", "sub": "alice", "aud": resource, "exp": time.Now().Add(time.Hour).Unix(), "scope": "mcp"},
			"short":    {"active": true, "sub": "alice", "aud": resource, "exp": time.Now().Add(-20 * time.Second).Unix(), "scope": "mcp"},
			"inactive": {"active": false, "sub": "alice", "aud": resource, "exp": time.Now().Add(time.Hour).Unix()},
			"silent":   {"sub": "alice", "aud": resource, "exp": time.Now().Add(time.Hour).Unix()},
			"text":     {"active": "true", "sub": "alice", "aud": resource, "exp": time.Now().Add(time.Hour).Unix()},
		}
		p.about = func(token string) object {
			if a := answers[token]; a != nil {
				return a
			}
			return object{"active": false}
		}
		s := p.server(t, func(o *auth.Options) {
			o.Issuers[0].Introspect = &auth.Introspect{ClientID: "rs", ClientSecret: "secret"}
		})
		status := func(token string) int {
			t.Helper()
			got, _ := refused(t, must2(s.Authenticate(request(token))))
			return got
		}
		for token, want := range map[string]int{"good": 0, "noissuer": 0, "other": 401, "evil": 401, "short": 0, "inactive": 401, "silent": 401, "text": 503, "unknown": 401} {
			if got := status(token); got != want {
				t.Errorf("%s: got %d, want %d", token, got, want)
			}
		}
		before := p.count("/introspect")
		for range 100 {
			status("good")
			status("inactive")
		}
		if n := p.count("/introspect") - before; n != 0 {
			t.Errorf("the issuer was asked %d times more at once", n)
		}
		p.set(func() { answers["good"] = object{"active": false} })
		time.Sleep(10 * time.Second)
		if got := status("good"); got != 0 {
			t.Errorf("10 seconds later: got %d", got)
		}
		if got := status("short"); got != 401 {
			t.Errorf("a token that has ended: got %d", got)
		}
		time.Sleep(20 * time.Second)
		if got := status("good"); got != 401 {
			t.Errorf("30 seconds after it was revoked: got %d, want 401", got)
		}
		// A JWT of an unknown issuer is shown to none.
		before = p.count("/introspect")
		status(token(object{"iss": "https://evil.example"}))
		status(sign(object{"alg": "none", "typ": "at+jwt"}, claims(nil), nil))
		if n := p.count("/introspect") - before; n != 0 {
			t.Errorf("tokens of others were shown to the issuer %d times", n)
		}
		p.set(func() { p.down = true })
		if got := status("unknown2"); got != http.StatusServiceUnavailable {
			t.Errorf("with an issuer in trouble: got %d, want 503", got)
		}
	})
}
