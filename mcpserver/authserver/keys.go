package authserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
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

// keyRing has the signing keys.
type keyRing struct {
	*site
	vault   *vault.Vault
	now     atomic.Pointer[ring] // as they were last read; nil before
	reading chan struct{}        // has room for one: the request that reads them, for which others wait
}

// ring is the signing keys at one time.
type ring struct {
	read time.Time
	set  []byte      // their public parts
	sign jose.Signer // with the newest
}

func newKeyRing(at *site, kept *vault.Vault) *keyRing {
	return &keyRing{site: at, vault: kept, reading: make(chan struct{}, 1)}
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
	r, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	return r.set, nil
}

// signer returns what signs tokens.
func (k *keyRing) signer(ctx context.Context) (jose.Signer, error) {
	r, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	return r.sign, nil
}

// current returns the keys, which one request reads if that was a while ago.
func (k *keyRing) current(ctx context.Context) (*ring, error) {
	if r := k.fresh(); r != nil {
		return r, nil
	}
	select {
	case k.reading <- struct{}{}:
		defer func() { <-k.reading }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r := k.fresh(); r != nil { // another request has read them meanwhile
		return r, nil
	}
	r, err := k.load(ctx)
	if err != nil {
		return nil, err
	}
	k.now.Store(r)
	return r, nil
}

// fresh returns the keys if they need not be read, else nil.
func (k *keyRing) fresh() *ring {
	if r := k.now.Load(); r != nil && time.Since(r.read) < keyCheck {
		return r
	}
	return nil
}

// load reads the keys, and replaces what is too old. Of several instances one does; the others
// read what it has written.
func (k *keyRing) load(ctx context.Context) (*ring, error) {
	now := time.Now()
	for range 3 {
		var keys []signingKey
		version, err := k.vault.Get(ctx, kindKey, k.opts.Issuer, &keys)
		if err != nil {
			return nil, err
		}
		for i := range keys {
			if err := keys[i].open(); err != nil {
				return nil, err
			}
		}
		next, changed, err := k.rotate(keys, now)
		if err != nil {
			return nil, err
		}
		if changed {
			_, err := k.vault.Put(ctx, kindKey, k.opts.Issuer, version, next)
			if errors.Is(err, store.ErrConflict) {
				continue
			}
			if err != nil {
				return nil, err
			}
			k.log.Info("the signing key is replaced", "key", next[len(next)-1].ID, "keys", len(next))
		}
		return newRing(next, now)
	}
	return nil, fmt.Errorf("other instances replace it all the time: %w", store.ErrConflict)
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

// newRing makes the keys ready for use.
func newRing(keys []signingKey, now time.Time) (*ring, error) {
	var set jose.JSONWebKeySet
	for _, one := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &one.key.PublicKey, KeyID: one.ID, Algorithm: string(jose.ES256), Use: "sig"})
	}
	page, err := jsonx.Marshal(map[string]any{"keys": publicKeys(set)})
	if err != nil {
		return nil, err
	}
	newest := keys[len(keys)-1]
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: newest.key, KeyID: newest.ID}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return nil, err
	}
	return &ring{now, page, signer}, nil
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
