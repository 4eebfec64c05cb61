package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
)

const (
	resource = "https://api.example.com/mcp"
	login    = "https://login.example.com"
	metadata = "https://api.example.com/.well-known/oauth-protected-resource/mcp"
)

// Keys of the tests; RSA keys take long to make.
var (
	rsaKey     = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	weakKey    = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 1024)) })
	ecKey      = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	foreignKey = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	edKey      = sync.OnceValue(func() ed25519.PrivateKey { _, k, err := ed25519.GenerateKey(rand.Reader); return must(k, err) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type object = map[string]any

// idp is an authorization server: what it publishes and answers. It has no connections, so
// tests may run in a bubble.
type idp struct {
	issuer string

	mu    sync.Mutex // guards the fields below, of goroutines of requests
	keys  []object
	down  bool
	slow  time.Duration
	huge  bool
	asked map[string]int // by path
	about func(token string) object
}

func newIDP(issuer string) *idp {
	return &idp{issuer: issuer, asked: make(map[string]int), keys: []object{jwk("rsa", &rsaKey().PublicKey), jwk("ec", &ecKey().PublicKey), jwk("ed", edKey().Public()), jwk("weak", &weakKey().PublicKey)}}
}

func (p *idp) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *idp) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[r.URL.Path]++
	w.Header().Set("Content-Type", "application/json")
	var v any
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		v = object{"issuer": p.issuer, "authorization_endpoint": p.issuer + "/authorize", "token_endpoint": p.issuer + "/token",
			"jwks_uri": p.issuer + "/keys", "introspection_endpoint": p.issuer + "/introspect", "code_challenge_methods_supported": []string{"S256"}}
	case "/keys":
		v = object{"keys": p.keys}
		if p.huge {
			v = object{"keys": p.keys, "more": make([]byte, 100<<10)}
		}
	case "/introspect":
		if id, secret, ok := r.BasicAuth(); !ok || id != "rs" || secret != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		v = p.about(r.PostFormValue("token"))
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(v)
}

// RoundTrip implements [http.RoundTripper].
func (p *idp) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	down, slow := p.down, p.slow
	p.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if down {
		p.set(func() { p.asked[r.URL.Path]++ })
		return nil, errors.New("no route to the host")
	}
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, r)
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

// server returns a resource server that trusts the issuer.
func (p *idp) server(t testing.TB, change func(*auth.Options)) *auth.ResourceServer {
	t.Helper()
	o := auth.Options{Resource: resource, Issuers: []auth.Issuer{{URL: p.issuer}}, Scopes: auth.Scopes{Base: []string{"mcp"}}}
	if change != nil {
		change(&o)
	}
	s, err := auth.New(auth.WithClient(o, &http.Client{Transport: p}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwk returns a public key as a JSON Web Key.
func jwk(id string, key any) object {
	k := object{"kid": id, "use": "sig"}
	switch key := key.(type) {
	case *rsa.PublicKey:
		k["kty"], k["n"], k["e"] = "RSA", b64(key.N.Bytes()), b64(big.NewInt(int64(key.E)).Bytes())
	case *ecdsa.PublicKey:
		raw := must(key.Bytes())
		k["kty"], k["crv"], k["x"], k["y"] = "EC", "P-256", b64(raw[1:33]), b64(raw[33:])
	case ed25519.PublicKey:
		k["kty"], k["crv"], k["x"] = "OKP", "Ed25519", b64(key)
	}
	return k
}

// sign returns a JWT with any header and any claims.
func sign(header, claims object, key any) string {
	text := b64(must(json.Marshal(header))) + "." + b64(must(json.Marshal(claims)))
	return text + "." + b64(signature(fmt.Sprint(header["alg"]), []byte(text), key))
}

func signature(algorithm string, text []byte, key any) []byte {
	sum := sha256.Sum256(text)
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if algorithm == "PS256" {
			return must(rsa.SignPSS(rand.Reader, key, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
		}
		return must(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]))
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			panic(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case ed25519.PrivateKey:
		return ed25519.Sign(key, text)
	case []byte:
		h := hmac.New(sha256.New, key)
		h.Write(text)
		return h.Sum(nil)
	}
	return nil
}

// claims are those of a good token, changed by more; a nil value leaves one out.
func claims(more object) object {
	c := object{"iss": login, "sub": "alice", "aud": resource, "exp": time.Now().Add(time.Hour).Unix(), "client_id": "app", "scope": "mcp"}
	maps.Copy(c, more)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// token returns a good token, with other claims.
func token(more object) string {
	return sign(object{"alg": "ES256", "typ": "at+jwt", "kid": "ec"}, claims(more), ecKey())
}

// request returns a request with a token; "" is none.
func request(token string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, resource, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// refused returns the status and challenge of a refusal, 0 and "" for none.
func refused(t testing.TB, err error) (status int, challenge string) {
	t.Helper()
	if err == nil {
		return 0, ""
	}
	e, ok := errors.AsType[*mcpserver.AuthError](err)
	if !ok {
		t.Fatalf("got %v, want an AuthError", err)
	}
	return e.Status, e.Challenge
}
