package authserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/store"
)

// kindKey is the kind of the secret that holds the signing keys of an issuer.
const kindKey = "authserver-key"

const (
	// keyLife is how long a key signs.
	keyLife = 30 * 24 * time.Hour
	// keyCheck is how often the keys are read again: another instance may have added one.
	keyCheck = time.Minute
)

// keyRing is the signing keys as they were last read.
type keyRing struct {
	mu     sync.Mutex // guards what follows, of goroutines of net/http; it is held while one reads, and the others need the same
	read   time.Time
	keys   []signingKey // the newest is last
	set    []byte       // their public parts
	signer jose.Signer  // of the newest
}

// signingKey is a key as it is kept.
type signingKey struct {
	ID      string    `json:"id"`
	DER     []byte    `json:"der"` // PKCS #8
	Created time.Time `json:"created"`

	key *ecdsa.PrivateKey
}

func newSigningKey(now time.Time) (k signingKey, err error) {
	if k.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return k, err
	}
	k.ID, k.Created = rand.Text()[:16], now
	k.DER, err = x509.MarshalPKCS8PrivateKey(k.key)
	return k, err
}

func (k *signingKey) open() error {
	key, err := x509.ParsePKCS8PrivateKey(k.DER)
	own, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return errors.New("a key is damaged") // the cause may quote it
	}
	k.key = own
	return nil
}

// KeySet returns the public keys, as a JSON Web Key Set. It is for a resource server in this
// process.
func (s *Server) KeySet(ctx context.Context) ([]byte, error) {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	err := s.loadKeys(ctx)
	return s.keys.set, err
}

// signer returns what signs tokens.
func (s *Server) signer(ctx context.Context) (jose.Signer, error) {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	err := s.loadKeys(ctx)
	return s.keys.signer, err
}

// loadKeys reads the keys, if that was a while ago, and replaces what is too old. Of several
// instances one does; the others read what it has written. It is called under the lock.
func (s *Server) loadKeys(ctx context.Context) error {
	now := time.Now()
	if now.Sub(s.keys.read) < keyCheck {
		return nil
	}
	for range 3 {
		var keys []signingKey
		version, err := s.vault.Get(ctx, kindKey, s.opts.Issuer, &keys)
		if err != nil {
			return err
		}
		for i := range keys {
			if err := keys[i].open(); err != nil {
				return err
			}
		}
		next, changed, err := s.rotate(keys, now)
		if err != nil {
			return err
		}
		if changed {
			_, err := s.vault.Put(ctx, kindKey, s.opts.Issuer, version, next)
			if errors.Is(err, store.ErrConflict) {
				continue
			}
			if err != nil {
				return err
			}
			s.log.Info("the signing key is replaced", "key", next[len(next)-1].ID, "keys", len(next))
		}
		return s.useKeys(next, now)
	}
	return fmt.Errorf("other instances replace it all the time: %w", store.ErrConflict)
}

// rotate adds a key where the newest is too old, and removes those whose last tokens have
// expired.
func (s *Server) rotate(keys []signingKey, now time.Time) (next []signingKey, changed bool, err error) {
	for i, k := range keys {
		if i+1 < len(keys) && now.Sub(keys[i+1].Created) > s.opts.AccessLife+10*keyCheck {
			changed = true
			continue
		}
		next = append(next, k)
	}
	if len(next) == 0 || now.Sub(next[len(next)-1].Created) > keyLife {
		k, err := newSigningKey(now)
		if err != nil {
			return nil, false, err
		}
		next, changed = append(next, k), true
	}
	return next, changed, nil
}

// useKeys takes keys into use.
func (s *Server) useKeys(keys []signingKey, now time.Time) error {
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &k.key.PublicKey, KeyID: k.ID, Algorithm: string(jose.ES256), Use: "sig"})
	}
	page, err := jsonx.Marshal(map[string]any{"keys": publicKeys(set)})
	if err != nil {
		return err
	}
	newest := keys[len(keys)-1]
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: newest.key, KeyID: newest.ID}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return err
	}
	s.keys.keys, s.keys.set, s.keys.signer, s.keys.read = keys, page, signer, now
	return nil
}

// publicKeys encodes keys as they do it themselves.
func publicKeys(set jose.JSONWebKeySet) (all []jsonx.Value) {
	for _, k := range set.Keys {
		if raw, err := k.MarshalJSON(); err == nil { // a public key of P-256 can always be encoded
			all = append(all, raw)
		}
	}
	return all
}
