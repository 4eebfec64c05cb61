package auth_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
)

// RFC 9449: a token that is bound to a key is good only with a proof of that key, for this
// request and this token, of now, and once.
func TestDPoP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIDP(login).server(t, nil)
		key := must(oauth.NewDPoPKey())
		bound := token(object{"cnf": object{"jkt": must(key.Thumbprint())}})
		other := token(object{"cnf": object{"jkt": must(key.Thumbprint())}, "sub": "bob"})
		proof := func(k *oauth.DPoPKey, method, url, of string) string {
			return must(k.Proof(&oauth.Proof{Method: method, URL: url, Token: oauth.NewSecret(of)}))
		}
		try := func(scheme, token string, proofs ...string) (int, string) {
			r := request(token)
			r.Header.Set("Authorization", scheme+" "+token)
			for _, p := range proofs {
				r.Header.Add("DPoP", p)
			}
			return refused(t, must2(s.Authenticate(r)))
		}
		good := func() string { return proof(key, http.MethodPost, resource, bound) }
		sum := sha256.Sum256([]byte(bound))
		home := object{"jti": "1", "htm": "POST", "htu": resource, "iat": time.Now().Unix(), "ath": b64(sum[:])}
		head := object{"alg": "ES256", "typ": "dpop+jwt", "jwk": jwk("", &ecKey().PublicKey)}
		used := good()
		for _, tt := range []struct {
			name, scheme, token string
			proofs              []string
			status              int
		}{
			{"good", "DPoP", bound, []string{used}, 0},
			{"the same proof again", "DPoP", bound, []string{used}, 401},
			{"another proof", "dpop", bound, []string{good()}, 0},
			{"as a bearer token", "Bearer", bound, nil, 401},
			{"as a bearer token with a proof", "Bearer", bound, []string{good()}, 401},
			{"no proof", "DPoP", bound, nil, 401},
			{"two proofs", "DPoP", bound, []string{good(), good()}, 401},
			{"another key", "DPoP", bound, []string{proof(must(oauth.NewDPoPKey()), http.MethodPost, resource, bound)}, 401},
			{"another method", "DPoP", bound, []string{proof(key, http.MethodGet, resource, bound)}, 401},
			{"another address", "DPoP", bound, []string{proof(key, http.MethodPost, "https://other.example/mcp", bound)}, 401},
			{"another path", "DPoP", bound, []string{proof(key, http.MethodPost, "https://api.example.com/other", bound)}, 401},
			{"another token", "DPoP", bound, []string{proof(key, http.MethodPost, resource, other)}, 401},
			{"no token hash", "DPoP", bound, []string{must(key.Proof(&oauth.Proof{Method: http.MethodPost, URL: resource}))}, 401},
			{"a token that is not bound", "DPoP", token(nil), []string{proof(key, http.MethodPost, resource, token(nil))}, 401},
			{"no JWT", "DPoP", bound, []string{"x.y.z"}, 401},
			{"of a foreign key that it names", "DPoP", bound, []string{sign(head, home, foreignKey())}, 401},
			{"without a key", "DPoP", bound, []string{sign(object{"alg": "ES256", "typ": "dpop+jwt"}, home, ecKey())}, 401},
			{"symmetric", "DPoP", bound, []string{sign(object{"alg": "HS256", "typ": "dpop+jwt", "jwk": object{"kty": "oct", "k": "AAAA"}}, home, []byte{0, 0, 0})}, 401},
			{"none", "DPoP", bound, []string{sign(object{"alg": "none", "typ": "dpop+jwt", "jwk": head["jwk"]}, home, nil)}, 401},
		} {
			status, challenge := try(tt.scheme, tt.token, tt.proofs...)
			if status != tt.status || status != 0 && !strings.HasPrefix(challenge, `DPoP error="invalid_dpop_proof"`) {
				t.Errorf("%s: got %d %s, want %d", tt.name, status, challenge, tt.status)
			}
		}
		old := good()
		time.Sleep(62 * time.Second)
		if status, _ := try("DPoP", bound, old); status != 401 {
			t.Error("an old proof is good")
		}
		if status, _ := try("DPoP", bound, used); status != 401 {
			t.Error("a proof can be used again after a minute")
		}
		strict := newIDP(login).server(t, func(o *auth.Options) { o.RequireDPoP = true })
		if status, challenge := refused(t, must2(strict.Authenticate(request(token(nil))))); status != 401 || !strings.HasPrefix(challenge, "DPoP ") {
			t.Errorf("a bearer token where DPoP is required: got %d %s", status, challenge)
		}
	})
}

// RFC 9449, section 9: with a key for nonces a proof needs one that the server has given out in the
// last minutes. The refusal has it, and instances with the same key take it.
func TestDPoPNonce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := bytes.Repeat([]byte{7}, 32)
		server := func(secret []byte) *auth.ResourceServer {
			return newIDP(login).server(t, func(o *auth.Options) { o.NonceKey = secret })
		}
		s := server(secret)
		key := must(oauth.NewDPoPKey())
		bound := token(object{"cnf": object{"jkt": must(key.Thumbprint())}, "exp": time.Now().Add(time.Hour).Unix()})
		try := func(s *auth.ResourceServer, nonce string) (fresh string) {
			t.Helper()
			r := request(bound)
			r.Header.Set("Authorization", "DPoP "+bound)
			r.Header.Set("DPoP", must(key.Proof(&oauth.Proof{Method: http.MethodPost, URL: resource, Token: oauth.NewSecret(bound), Nonce: nonce})))
			_, err := s.Authenticate(r)
			if err == nil {
				return ""
			}
			e, ok := errors.AsType[*mcpserver.AuthError](err)
			if !ok || e.Status != 401 || !strings.HasPrefix(e.Challenge, `DPoP error="use_dpop_nonce", resource_metadata=`) || e.Nonce == "" || e.Nonce == nonce {
				t.Fatalf("with the nonce %q: got %+v", nonce, err)
			}
			return e.Nonce
		}
		nonce := try(s, "")
		for _, wrong := range []string{"x", nonce + "x", strings.Repeat("n", 2000)} {
			if got := try(s, wrong); got != nonce {
				t.Errorf("with the nonce %.40q: got the fresh one %q, want %q", wrong, got, nonce)
			}
		}
		for _, of := range []*auth.ResourceServer{s, s, server(secret)} {
			if got := try(of, nonce); got != "" {
				t.Errorf("its own nonce was refused")
			}
		}
		if try(server(bytes.Repeat([]byte{8}, 32)), nonce) == "" {
			t.Error("the nonce of another key is good")
		}
		time.Sleep(5 * time.Minute)
		if try(s, nonce) != "" {
			t.Error("the nonce of before is refused at once")
		}
		time.Sleep(5 * time.Minute)
		if fresh := try(s, nonce); fresh == "" || try(s, fresh) != "" {
			t.Errorf("an old nonce: got the fresh one %q", fresh)
		}
		if _, err := auth.New(auth.Options{Resource: resource, Issuers: []auth.Issuer{{URL: login}}, NonceKey: []byte("short")}); err == nil {
			t.Error("a short key is taken")
		}
	})
}
