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
	"github.com/troupe-dev/troupe/internal/vault"
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
	*site
	vault *vault.Vault

	mu   sync.Mutex // guards what follows, of goroutines of net/http; it is held while one reads, and the others need the same
	read time.Time
	set  []byte      // their public parts
	sign jose.Signer // with the newest
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

// public returns the public keys, as a JSON Web Key Set.
func (k *keyRing) public(ctx context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.load(ctx)
	return k.set, err
}

// signer returns what signs tokens.
func (k *keyRing) signer(ctx context.Context) (jose.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.load(ctx)
	return k.sign, err
}

// load reads the keys, if that was a while ago, and replaces what is too old. Of several
// instances one does; the others read what it has written. It is called under the lock.
func (k *keyRing) load(ctx context.Context) error {
	now := time.Now()
	if now.Sub(k.read) < keyCheck {
		return nil
	}
	for range 3 {
		var keys []signingKey
		version, err := k.vault.Get(ctx, kindKey, k.opts.Issuer, &keys)
		if err != nil {
			return err
		}
		for i := range keys {
			if err := keys[i].open(); err != nil {
				return err
			}
		}
		next, changed, err := k.rotate(keys, now)
		if err != nil {
			return err
		}
		if changed {
			_, err := k.vault.Put(ctx, kindKey, k.opts.Issuer, version, next)
			if errors.Is(err, store.ErrConflict) {
				continue
			}
			if err != nil {
				return err
			}
			k.log.Info("the signing key is replaced", "key", next[len(next)-1].ID, "keys", len(next))
		}
		return k.use(next, now)
	}
	return fmt.Errorf("other instances replace it all the time: %w", store.ErrConflict)
}

// rotate adds a key where the newest is too old, and removes those whose last tokens have
// expired.
func (k *keyRing) rotate(keys []signingKey, now time.Time) (next []signingKey, changed bool, err error) {
	for i, one := range keys {
		if i+1 < len(keys) && now.Sub(keys[i+1].Created) > k.opts.AccessLife+10*keyCheck {
			changed = true
			continue
		}
		next = append(next, one)
	}
	if len(next) == 0 || now.Sub(next[len(next)-1].Created) > keyLife {
		fresh, err := newSigningKey(now)
		if err != nil {
			return nil, false, err
		}
		next, changed = append(next, fresh), true
	}
	return next, changed, nil
}

// use takes keys into use.
func (k *keyRing) use(keys []signingKey, now time.Time) error {
	var set jose.JSONWebKeySet
	for _, one := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &one.key.PublicKey, KeyID: one.ID, Algorithm: string(jose.ES256), Use: "sig"})
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
	k.set, k.sign, k.read = page, signer, now
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
