package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// assertionLife is how long an assertion of ours is good.
const assertionLife = 60 * time.Second

// SigningKey signs assertions about the client (private_key_jwt, RFC 7523).
type SigningKey struct {
	id        string
	algorithm jose.SignatureAlgorithm
	key       *crypto.Signer // a pointer, so that package fmt does not print the key
}

// ErrKey is the error of a key that cannot sign.
var ErrKey = errors.New("the key is of no use: want a private key of ECDSA P-256, Ed25519, or RSA with at least 2048 bits, as PEM or as a JSON Web Key")

// ParseSigningKey reads a private key: PEM (PKCS #8, PKCS #1, SEC 1) or a JSON Web Key. ID is
// the key id that the server knows; "" means that of the JSON Web Key, or none.
func ParseSigningKey(data Secret, id string) (*SigningKey, error) {
	raw := []byte(data.Reveal())
	var key any
	if block, _ := pem.Decode(raw); block != nil {
		for _, parse := range []func([]byte) (any, error){
			x509.ParsePKCS8PrivateKey,
			func(b []byte) (any, error) { return x509.ParseECPrivateKey(b) },
			func(b []byte) (any, error) { return x509.ParsePKCS1PrivateKey(b) },
		} {
			if k, err := parse(block.Bytes); err == nil {
				key = k
				break
			}
		}
	} else {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && !k.IsPublic() {
			key = k.Key
			if id == "" {
				id = k.KeyID
			}
		}
	}
	return newSigningKey(key, id)
}

func newSigningKey(key any, id string) (*SigningKey, error) {
	signer, _ := key.(crypto.Signer)
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			return &SigningKey{id, jose.ES256, &signer}, nil
		}
	case *rsa.PrivateKey:
		if k.N.BitLen() >= 2048 {
			return &SigningKey{id, jose.RS256, &signer}, nil
		}
	case ed25519.PrivateKey:
		return &SigningKey{id, jose.EdDSA, &signer}, nil
	}
	return nil, ErrKey // the cause may quote the key
}

// Algorithm returns the name of the key's algorithm, such as "ES256".
func (k *SigningKey) Algorithm() string { return string(k.algorithm) }

// assertion says who the client is, to one server and for a minute.
func (k *SigningKey) assertion(clientID, issuer string) (Secret, error) {
	if k == nil {
		return Secret{}, ErrKey
	}
	now := time.Now()
	return k.sign(map[string]any{"iss": clientID, "sub": clientID, "aud": issuer, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix()}, (&jose.SignerOptions{}).WithType("JWT"))
}

// sign returns a JWT.
func (k *SigningKey) sign(claims map[string]any, o *jose.SignerOptions) (Secret, error) {
	payload, err := jsonx.Marshal(claims)
	if err != nil {
		return Secret{}, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: jose.JSONWebKey{Key: *k.key, KeyID: k.id}}, o)
	if err != nil {
		return Secret{}, fmt.Errorf("signing: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return Secret{}, fmt.Errorf("signing: %w", err)
	}
	text, err := signed.CompactSerialize()
	return NewSecret(text), err
}
