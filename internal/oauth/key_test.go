package oauth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/troupe-dev/troupe/internal/oauth"
)

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// privateKeys are one of each kind, made once: RSA takes its time.
var privateKeys = sync.OnceValue(func() map[string]crypto.Signer {
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, _ := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	return map[string]crypto.Signer{"ES256": ec, "RS256": rs, "EdDSA": ed}
})

func pkcs8(t *testing.T, key any) oauth.Secret {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return oauth.NewSecret(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

func signingKeys(t *testing.T) map[string]*oauth.SigningKey {
	t.Helper()
	all := make(map[string]*oauth.SigningKey)
	for name, key := range privateKeys() {
		k, err := oauth.ParseSigningKey(pkcs8(t, key), "kid-1")
		if err != nil || k.Algorithm() != name {
			t.Fatalf("ParseSigningKey of %s: got %v, %v", name, k, err)
		}
		all[name] = k
	}
	return all
}

// claims verifies a JWT, and returns its header and its claims.
func claims(t *testing.T, token string, algorithm string, key any) (jose.Header, map[string]any) {
	t.Helper()
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := signed.Verify(key)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(payload, &all); err != nil {
		t.Fatal(err)
	}
	return signed.Signatures[0].Header, all
}

// A client with a key signs an assertion for the issuer, for a minute and once; no client id is
// in the body (AUTH-80).
func TestPrivateKeyJWT(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, key := range signingKeys(t) {
			e := newEndpoint(doc(goodToken))
			c := &oauth.Client{Server: &oauth.Server{Issuer: "https://as.example", TokenEndpoint: "https://as.example/token"}, ID: "c1", Method: oauth.AuthKey, Key: key}
			seen := make(map[any]bool)
			for range 2 {
				if _, err := c.Token(t.Context(), e.client(), oauth.ClientGrant(nil), ""); err != nil {
					t.Fatal(err)
				}
				if e.form.Has("client_id") || e.form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
					t.Errorf("%s: got the request %v", name, e.form)
				}
				h, all := claims(t, e.form.Get("client_assertion"), name, privateKeys()[name].Public())
				now := float64(time.Now().Unix())
				if all["iss"] != "c1" || all["sub"] != "c1" || all["aud"] != "https://as.example" || all["iat"] != now || all["exp"] != now+60 || h.KeyID != "kid-1" {
					t.Errorf("%s: got %v, kid %q", name, all, h.KeyID)
				}
				if seen[all["jti"]] || len(all["jti"].(string)) < 20 {
					t.Errorf("%s: jti %v is not new", name, all["jti"])
				}
				seen[all["jti"]] = true
			}
		}
	})
}

// Keys come as PEM or as JSON Web Keys; weak, public and malformed ones are refused without a
// word of them.
func TestParseSigningKey(t *testing.T) {
	ec := privateKeys()["ES256"].(*ecdsa.PrivateKey)
	sec1, _ := x509.MarshalECPrivateKey(ec)
	jwk, _ := (&jose.JSONWebKey{Key: ec, KeyID: "own"}).MarshalJSON()
	public, _ := (&jose.JSONWebKey{Key: ec.Public()}).MarshalJSON()
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	for name, tt := range map[string]struct {
		data string
		ok   bool
	}{
		"SEC 1":     {text("EC PRIVATE KEY", sec1), true},
		"PKCS #1":   {text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(privateKeys()["RS256"].(*rsa.PrivateKey))), true},
		"a JWK":     {string(jwk), true},
		"public":    {string(public), false},
		"symmetric": {`{"kty":"oct","k":"` + base64.RawURLEncoding.EncodeToString([]byte(planted)) + `"}`, false},
		"P-384":     {pkcs8(t, p384).Reveal(), false},
		"junk":      {planted, false},
		"PEM junk":  {text("PRIVATE KEY", []byte(planted)), false},
		"empty":     {"", false},
	} {
		_, err := oauth.ParseSigningKey(oauth.NewSecret(tt.data), "")
		if (err == nil) != tt.ok || err != nil && (!errors.Is(err, oauth.ErrKey) || strings.Contains(err.Error(), planted)) {
			t.Errorf("%s: got %v, want ok=%v", name, err, tt.ok)
		}
	}
}

// A proof is for one request: method, address without query, time, a new jti, the token's hash
// and the server's nonce; its key is in it and stays the same when it is stored (RFC 9449).
func TestProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, err := oauth.NewDPoPKey()
		if err != nil {
			t.Fatal(err)
		}
		exported, err := made.Export()
		if err != nil {
			t.Fatal(err)
		}
		key, err := oauth.ParseDPoPKey(exported)
		if err != nil {
			t.Fatal(err)
		}
		name, err := made.Thumbprint()
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[any]bool)
		for _, p := range []*oauth.Proof{{Method: "POST", URL: "https://api.example/a%2Fb?x=1#y", Token: secret("AT"), Nonce: "n1"}, {Method: "GET", URL: "https://api.example/a%2Fb"}} {
			text, err := key.Proof(p)
			if err != nil {
				t.Fatal(err)
			}
			signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
			if err != nil {
				t.Fatal(err)
			}
			embedded := signed.Signatures[0].Protected.JSONWebKey
			h, all := claims(t, text, "ES256", embedded)
			if sum, err := embedded.Thumbprint(crypto.SHA256); err != nil || base64.RawURLEncoding.EncodeToString(sum) != name || !embedded.IsPublic() {
				t.Errorf("the proof is of another key, or has the private one")
			}
			ath, nonce := any(nil), any(nil)
			if !p.Token.IsZero() {
				ath, nonce = challengeOf("AT"), "n1"
			}
			if h.ExtraHeaders["typ"] != "dpop+jwt" || all["htm"] != p.Method || all["htu"] != "https://api.example/a%2Fb" || all["iat"] != float64(time.Now().Unix()) || all["ath"] != ath || all["nonce"] != nonce {
				t.Errorf("got %v, %v", h.ExtraHeaders, all)
			}
			if seen[all["jti"]] {
				t.Errorf("jti %v comes twice", all["jti"])
			}
			seen[all["jti"]] = true
		}
		if _, err := oauth.ParseDPoPKey(pkcs8(t, privateKeys()["RS256"])); !errors.Is(err, oauth.ErrKey) {
			t.Errorf("an RSA key: got %v", err)
		}
	})
}

// The token endpoint's nonce is used at once, once, and for the next request; a token that is
// not bound is refused (RFC 9449).
func TestDPoPToken(t *testing.T) {
	key, err := oauth.NewDPoPKey()
	if err != nil {
		t.Fatal(err)
	}
	var seen []any
	e := newEndpoint(func(w http.ResponseWriter, r *http.Request) {
		_, all := claims(t, r.Header.Get("DPoP"), "ES256", embeddedKey(t, r.Header.Get("DPoP")))
		seen = append(seen, all["nonce"])
		if all["htu"] != "https://as.example/token" || all["htm"] != "POST" || all["ath"] != nil {
			t.Errorf("got the proof %v", all)
		}
		w.Header().Set("DPoP-Nonce", "n1")
		if all["nonce"] != "n1" {
			answerJSON(w, 400, map[string]string{"error": "use_dpop_nonce"})
			return
		}
		w.Header().Del("DPoP-Nonce") // the one that was used stays good
		answerJSON(w, 200, map[string]any{"access_token": "AT", "token_type": "DPoP"})
	})
	c := &oauth.Client{Server: server(t, nil), ID: "c1", Method: oauth.AuthNone, DPoP: key}
	tok, err := c.Token(t.Context(), e.client(), oauth.ClientGrant(nil), "")
	if err != nil || tok.Type != "DPoP" || tok.Nonce != "n1" || len(seen) != 2 || seen[0] != nil || seen[1] != "n1" {
		t.Errorf("got %+v, %v after %v", tok, err, seen)
	}
	seen = nil
	if _, err := c.Token(t.Context(), e.client(), oauth.ClientGrant(nil), tok.Nonce); err != nil || len(seen) != 1 {
		t.Errorf("the next request: got %v after %v", err, seen)
	}
	endless := 0
	loop := newEndpoint(func(w http.ResponseWriter, _ *http.Request) {
		endless++
		w.Header().Set("DPoP-Nonce", strings.Repeat("n", endless))
		answerJSON(w, 400, map[string]string{"error": "use_dpop_nonce"})
	})
	if _, err := c.Token(t.Context(), loop.client(), oauth.ClientGrant(nil), ""); oauth.CodeOf(err) != oauth.CodeUseDPoPNonce || endless != 2 {
		t.Errorf("a new nonce for ever: got %v after %d requests, want 2", err, endless)
	}
	bearer := newEndpoint(doc(goodToken))
	if _, err := c.Token(t.Context(), bearer.client(), oauth.ClientGrant(nil), ""); !errors.Is(err, oauth.ErrMalformed) {
		t.Errorf("a bearer token: got %v, want that it is refused", err)
	}
	for _, bad := range []string{"", "a\x01", strings.Repeat("n", 2000)} {
		if got := oauth.DPoPNonce(http.Header{"Dpop-Nonce": {bad}}); got != "" {
			t.Errorf("the nonce %.10q: got it", bad)
		}
	}
}

func embeddedKey(t *testing.T, proof string) *jose.JSONWebKey {
	t.Helper()
	signed, err := jose.ParseSignedCompact(proof, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	return signed.Signatures[0].Protected.JSONWebKey
}
