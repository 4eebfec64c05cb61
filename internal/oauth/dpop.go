package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// DPoPKey is the ES256 key to which the tokens of one credential are bound (RFC 9449).
type DPoPKey struct{ key *SigningKey }

// NewDPoPKey makes a key.
func NewDPoPKey() (*DPoPKey, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := newSigningKey(k, "")
	return &DPoPKey{key}, err
}

// ParseDPoPKey reads what Export returned.
func ParseDPoPKey(exported Secret) (*DPoPKey, error) {
	k, err := ParseSigningKey(exported, "")
	if err != nil {
		return nil, err
	}
	if k.algorithm != jose.ES256 {
		return nil, ErrKey
	}
	k.id = ""
	return &DPoPKey{k}, nil
}

// Export returns the key as a JSON Web Key, to be sealed.
func (k *DPoPKey) Export() (Secret, error) {
	data, err := (&jose.JSONWebKey{Key: *k.key.key}).MarshalJSON()
	return NewSecret(string(data)), err
}

// Thumbprint returns the public name of the key (RFC 7638).
func (k *DPoPKey) Thumbprint() (string, error) {
	sum, err := (&jose.JSONWebKey{Key: (*k.key.key).Public()}).Thumbprint(crypto.SHA256)
	return base64.RawURLEncoding.EncodeToString(sum), err
}

// Proof is what a proof is about.
type Proof struct {
	Method, URL string
	Token       Secret // that goes with the request; zero at the token endpoint
	Nonce       string // that the server wants; "" if it has not asked for one
}

// Proof signs the header DPoP of one request: each attempt needs its own.
func (k *DPoPKey) Proof(p *Proof) (string, error) {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "", fmt.Errorf("the address of the request is malformed")
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	claims := map[string]any{"jti": rand.Text(), "htm": p.Method, "htu": bare.String(), "iat": time.Now().Unix()}
	if !p.Token.IsZero() {
		sum := sha256.Sum256([]byte(p.Token.Reveal()))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if p.Nonce != "" {
		claims["nonce"] = p.Nonce
	}
	proof, err := k.key.sign(claims, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	return proof.Reveal(), err
}

// maxNonce bounds the nonce of a server, in bytes.
const maxNonce = 1 << 10

// DPoPNonce returns the nonce in the header of an answer, checked; "" if there is none.
func DPoPNonce(h http.Header) string {
	all := h.Values("DPoP-Nonce")
	if len(all) != 1 || !isVisible(all[0], maxNonce) {
		return ""
	}
	return all[0]
}
