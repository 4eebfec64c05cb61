package auth_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcpserver/auth"
)

// SECA-23: a token that was checked before is refused once its key is withdrawn, in whatever way: it is
// checked anew when the keys of the issuer were.
func TestWithdrawnKeys(t *testing.T) {
	tests := []struct {
		name string
		keys []object // of the issuer from then on
		good bool
	}{
		{"the same keys", []object{jwk("rsa", &rsaKey().PublicKey), jwk("ec", &ecKey().PublicKey)}, true},
		{"others alone", []object{jwk("rsa", &rsaKey().PublicKey)}, false},
		{"another one by its name", []object{jwk("ec", &foreignKey().PublicKey)}, false},
		{"none", []object{}, false},
		{"weak ones", []object{jwk("weak", &weakKey().PublicKey)}, false},
		{"for encryption", []object{{"kty": "oct", "k": "AAAA", "kid": "ec"}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newIDP(login)
				s := p.server(t, nil)
				one := token(nil)
				uses := func() int {
					status, _ := refused(t, must2(s.Authenticate(request(one))))
					return status
				}
				if got := uses(); got != 0 {
					t.Fatalf("at first: got %d", got)
				}
				p.set(func() { p.keys = tt.keys })
				time.Sleep(16 * time.Minute)
				if got := uses(); (got == 0) != tt.good || got != 0 && got != http.StatusUnauthorized {
					t.Errorf("then: got %d, want good %v", got, tt.good)
				}
				p.set(func() { p.down = true })
				time.Sleep(16 * time.Minute)
				if got := uses(); (got == 0) != tt.good {
					t.Errorf("while the issuer is down: got %d, want good %v", got, tt.good)
				}
			})
		})
	}
}

// SECA-23: a lifetime beyond a day counts as a day, or as what is set, whether the token was seen before or
// not; one that does not say when it was issued counts from when it was seen first.
func TestLongLives(t *testing.T) {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	tests := []struct {
		name      string
		life, max time.Duration
		issued    bool // the token says when
		good      time.Duration
	}{
		{"an hour", time.Hour, 0, true, time.Hour},
		{"a day", day, 0, true, day},
		{"a year", year, 0, true, day},
		{"a year, not issued", year, 0, false, day},
		{"a year, a week set", year, 7 * day, true, 7 * day},
		{"a year, ten minutes set", year, 10 * time.Minute, false, 10 * time.Minute},
		{"a year, any time", year, -1, true, year},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newIDP(login)
				p.about = func(string) object {
					return object{"active": true, "sub": "alice", "aud": resource, "exp": time.Now().Add(year).Unix(), "scope": "mcp"}
				}
				s := p.server(t, func(o *auth.Options) { o.MaxLife = tt.max })
				more := object{"exp": time.Now().Add(tt.life).Unix()}
				if tt.issued {
					more["iat"] = time.Now().Unix()
				}
				one := token(more)
				first, err := s.Authenticate(request(one))
				if err != nil || first.Expiry.After(time.Now().Add(tt.good+time.Minute)) {
					t.Fatalf("at first: got %+v, %v", first, err)
				}
				time.Sleep(tt.good - time.Minute)
				if _, err := s.Authenticate(request(one)); err != nil {
					t.Errorf("a minute before: %v", err)
				}
				time.Sleep(2 * time.Minute)
				for _, at := range []*auth.ResourceServer{s, p.server(t, func(o *auth.Options) { o.MaxLife = tt.max })} {
					if at != s && !tt.issued {
						continue // it sees the token for the first time
					}
					if status, _ := refused(t, must2(at.Authenticate(request(one)))); status != http.StatusUnauthorized {
						t.Errorf("a minute after: got %d", status)
					}
				}
				time.Sleep(time.Hour)
				if status, _ := refused(t, must2(s.Authenticate(request(one)))); status != http.StatusUnauthorized {
					t.Errorf("an hour after: got %d", status)
				}
			})
		})
	}
}

// The same of what an issuer answers about a token.
func TestLongLivesOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(login)
		issued, end := time.Now().Unix(), time.Now().Add(1000*time.Hour).Unix()
		p.about = func(string) object {
			return object{"active": true, "sub": "alice", "aud": resource, "iat": issued, "exp": end, "scope": "mcp"}
		}
		s := p.server(t, func(o *auth.Options) {
			o.Issuers[0].Introspect = &auth.Introspect{ClientID: "rs", ClientSecret: "secret"}
		})
		for _, hours := range []time.Duration{23, 2} {
			time.Sleep(hours * time.Hour)
			status, _ := refused(t, must2(s.Authenticate(request("opaque"))))
			if good := hours == 23; (status == 0) != good {
				t.Errorf("after %d hours more: got %d", hours, status)
			}
		}
	})
}

// SECA-23: a token, or an answer about one, that names no subject is refused unless that is configured.
func TestNoSubject(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		for name, subject := range map[string]any{"missing": nil, "empty": ""} {
			p := newIDP(login)
			about := claims(object{"sub": subject, "active": true})
			p.about = func(string) object { return about }
			s := p.server(t, func(o *auth.Options) { o.ClientSubjects = allowed })
			asking := p.server(t, func(o *auth.Options) {
				o.ClientSubjects = allowed
				o.Issuers[0].Introspect = &auth.Introspect{ClientID: "rs", ClientSecret: "secret"}
			})
			for kind, r := range map[string]struct {
				of    *auth.ResourceServer
				token string
			}{"a JWT": {s, token(object{"sub": subject})}, "an answer": {asking, "opaque"}} {
				got, err := r.of.Authenticate(request(r.token))
				if status, _ := refused(t, err); allowed != (status == 0) || allowed && (got.Subject != "app" || !got.Machine) {
					t.Errorf("%s whose subject is %s, configured %v: got %+v, %d", kind, name, allowed, got, status)
				}
			}
		}
	}
}
