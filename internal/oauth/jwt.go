package oauth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// ErrToken is the error of a token that is not what it must be. No error has a part of the
// token in it.
var ErrToken = errors.New("the token is not good")

func badToken(why string) error { return fmt.Errorf("%w: %s", ErrToken, why) }

// accepted are the algorithms of tokens and proofs: none without a key pair.
var accepted = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.EdDSA}

// AcceptedAlgorithms are the names of the algorithms of tokens and proofs that are accepted.
func AcceptedAlgorithms() (names []string) {
	for _, a := range accepted {
		names = append(names, string(a))
	}
	return names
}

// JWT is a signed token, taken apart.
type JWT struct {
	Type      string // in small letters, without "application/"
	Algorithm string
	KeyID     string // "" if it names none
	signed    *jose.JSONWebSignature
	key       *jose.JSONWebKey // in its header
	payload   []byte
}

// header is the JOSE header of a token. What is not here is not used; what is critical, is
// refused.
type header struct {
	Algorithm string      `json:"alg"`
	Type      string      `json:"typ"`
	KeyID     string      `json:"kid"`
	Key       jsonx.Value `json:"jwk"`
	KeyURL    jsonx.Value `json:"jku"`
	CertURL   jsonx.Value `json:"x5u"`
	Certs     jsonx.Value `json:"x5c"`
	Critical  jsonx.Value `json:"crit"`
	Encoding  jsonx.Value `json:"enc"`
	Zip       jsonx.Value `json:"zip"`
	Plain     jsonx.Value `json:"b64"`
}

// ParseJWT takes a token apart and checks its form; nothing of it is true before Verify. A
// token that names keys to be fetched, brings a key of its own, or is encrypted, is refused.
func ParseJWT(token string) (*JWT, error) {
	t, err := parseJWT(token)
	if err == nil && t.key != nil {
		err = badToken("it brings a key of its own")
	}
	return t, err
}

func parseJWT(token string) (*JWT, error) {
	if len(token) > maxToken {
		return nil, badToken("it is too long")
	}
	head, rest, ok := strings.Cut(token, ".")
	if !ok || strings.Count(rest, ".") != 1 {
		return nil, badToken("it is no signed JWT")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(head)
	var h header
	if err != nil || jsonx.Unmarshal(raw, &h) != nil {
		return nil, badToken("its header is malformed")
	}
	for _, v := range []jsonx.Value{h.KeyURL, h.CertURL, h.Certs, h.Critical, h.Encoding, h.Zip, h.Plain} {
		if v != nil {
			return nil, badToken("its header has jku, x5u, x5c, crit, enc, zip or b64")
		}
	}
	if !slices.Contains(accepted, jose.SignatureAlgorithm(h.Algorithm)) {
		return nil, badToken("its algorithm is not accepted")
	}
	t := &JWT{Type: strings.TrimPrefix(strings.ToLower(h.Type), "application/"), Algorithm: h.Algorithm, KeyID: h.KeyID}
	if h.Key != nil {
		t.key = new(jose.JSONWebKey)
		if t.key.UnmarshalJSON(h.Key) != nil || !t.key.IsPublic() {
			return nil, badToken("the key in its header is of no use")
		}
	}
	if t.signed, err = jose.ParseSignedCompact(token, accepted); err != nil || len(t.signed.Signatures) != 1 {
		return nil, badToken("it is no signed JWT")
	}
	t.payload = t.signed.UnsafePayloadWithoutVerification()
	return t, nil
}

// Claims reads the claims, strictly: no member comes twice, names count exactly.
func (t *JWT) Claims(v any) error {
	if jsonx.Unmarshal(t.payload, v) != nil {
		return badToken("its claims are malformed")
	}
	return nil
}

// Verify checks the signature with the keys of its issuer.
func (t *JWT) Verify(keys *KeySet) error {
	for _, k := range keys.of(t.KeyID, t.Algorithm) {
		if _, err := t.signed.Verify(k.Key); err == nil {
			return nil
		}
	}
	return badToken("no key of its issuer has signed it")
}

// KeySet are the public keys of an issuer.
type KeySet struct{ keys []jose.JSONWebKey }

const (
	maxKeys = 64
	// maxTried bounds the keys that one token is tried with.
	maxTried = 4
)

// ParseKeySet reads a JSON Web Key Set. It leaves out what cannot verify a token: symmetric
// and private keys, those for encryption, of other kinds, or too weak. None may be left: an issuer
// has withdrawn its keys then.
func ParseKeySet(data []byte) (*KeySet, error) {
	var d struct {
		Keys []jsonx.Value `json:"keys"`
	}
	if err := (&answer{body: data}).decode(&d); err != nil {
		return nil, err
	}
	s := new(KeySet)
	for _, raw := range d.Keys[:min(len(d.Keys), maxKeys)] {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.IsPublic() && k.Use != "enc" && slices.ContainsFunc(accepted, func(a jose.SignatureAlgorithm) bool { return verifies(&k, string(a)) }) {
			s.keys = append(s.keys, k)
		}
	}
	if d.Keys == nil {
		return nil, fmt.Errorf("%w: it has no list of keys", ErrMalformed)
	}
	return s, nil
}

// Empty reports whether no key is left.
func (s *KeySet) Empty() bool { return len(s.keys) == 0 }

// FetchKeySet reads the key set at an address, of an issuer that may be on this machine if
// loopback is true.
func FetchKeySet(ctx context.Context, hc *http.Client, at string, loopback bool) (*KeySet, error) {
	at, err := checkAddress("the address of the keys", at, loopback)
	if err != nil {
		return nil, err
	}
	return find(ctx, hc, []string{at}, nil, func(_ string, a *answer) (*KeySet, error) { return ParseKeySet(a.body) })
}

// Has reports whether a token with this key id and algorithm can be verified.
func (s *KeySet) Has(id, algorithm string) bool { return len(s.of(id, algorithm)) > 0 }

// of returns the keys for an id; without an id all that fit the algorithm.
func (s *KeySet) of(id, algorithm string) (fit []jose.JSONWebKey) {
	if s == nil {
		return nil
	}
	for i := range s.keys {
		if k := &s.keys[i]; (id == "" || k.KeyID == id) && verifies(k, algorithm) && len(fit) < maxTried {
			fit = append(fit, *k)
		}
	}
	return fit
}

// verifies reports whether a key is of an algorithm: the token alone does not choose it.
func verifies(k *jose.JSONWebKey, algorithm string) bool {
	if k.Algorithm != "" && k.Algorithm != algorithm {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return (algorithm[:2] == "RS" || algorithm[:2] == "PS") && key.N.BitLen() >= 2048 && key.N.BitLen() <= 8192
	case *ecdsa.PublicKey:
		return algorithm == string(jose.ES256) && key.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	}
	return false
}

// ProofClaims are those of a DPoP proof (RFC 9449).
type ProofClaims struct {
	ID        string  `json:"jti"`
	Method    string  `json:"htm"`
	URL       string  `json:"htu"`
	IssuedAt  float64 `json:"iat"`
	TokenHash string  `json:"ath"`
	Nonce     string  `json:"nonce"`
}

// VerifyProof checks the signature of a DPoP proof by the key that it brings, and returns its
// claims, not yet checked, with the thumbprint of the key.
func VerifyProof(proof string) (c *ProofClaims, thumbprint string, err error) {
	t, err := parseJWT(proof)
	if err != nil {
		return nil, "", err
	}
	if t.Type != "dpop+jwt" || t.key == nil || !verifies(t.key, t.Algorithm) {
		return nil, "", badToken("it is no proof with a key")
	}
	if _, err := t.signed.Verify(t.key.Key); err != nil {
		return nil, "", badToken("its key has not signed it")
	}
	c = new(ProofClaims)
	if err := t.Claims(c); err != nil {
		return nil, "", err
	}
	sum, err := t.key.Thumbprint(crypto.SHA256)
	return c, base64.RawURLEncoding.EncodeToString(sum), err
}
