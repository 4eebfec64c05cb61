// Package seal encrypts small secrets and tickets with XChaCha20-Poly1305, under keys that can
// be replaced one after the other.
//
// A sealed value names the key that sealed it, and opens only with the same associated data:
// what the value belongs to, which is stored or known elsewhere. [Keys] does not change and
// may be used from any goroutine.
package seal

import (
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"
)

// KeySize is how many bytes a key has.
const KeySize = chacha20poly1305.KeySize

// ErrKey refuses a key of another length than [KeySize].
var ErrKey = fmt.Errorf("seal: a key has %d bytes", KeySize)

var (
	// ErrUnknownKey says that a value was sealed with a key that is not among these.
	ErrUnknownKey = errors.New("seal: sealed with another key")
	// ErrInvalid says that a value was changed, or belongs to other associated data.
	ErrInvalid = errors.New("seal: not valid here")
)

// Keys seals with the first of its keys and opens what any of them has sealed.
type Keys struct {
	use  string
	keys []key
}

type key struct {
	name [nameLen]byte // tells which key has sealed; not secret
	aead cipher.AEAD
}

// A sealed value is: version, name of the key, nonce, box.
const (
	version = 1
	nameLen = 4
	headLen = 1 + nameLen
)

// New returns keys, made of [KeySize] random bytes each. Label goes into their names and use
// into all associated data, so that what one key has sealed for two uses has nothing in common.
func New(label, use string, raw ...[]byte) (*Keys, error) {
	if len(raw) == 0 {
		return nil, errors.New("seal: no key")
	}
	k := &Keys{use: use}
	for _, one := range raw {
		if len(one) != KeySize {
			return nil, fmt.Errorf("%w, not %d", ErrKey, len(one))
		}
		aead, err := chacha20poly1305.NewX(one)
		if err != nil {
			return nil, fmt.Errorf("reading a key: %w", err)
		}
		next := key{aead: aead}
		name := sha256.Sum256(append([]byte(label+"\x00"), one...))
		copy(next.name[:], name[:])
		k.keys = append(k.keys, next)
	}
	return k, nil
}

// NewKey returns a random key.
func NewKey() []byte {
	raw := make([]byte, KeySize)
	_, _ = rand.Read(raw) // never fails
	return raw
}

// Overhead is how many bytes a sealed value is longer than the plain one.
const Overhead = headLen + chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

// Seal returns plain, encrypted and bound to the associated data.
func (k *Keys) Seal(plain, associated []byte) []byte {
	first := k.keys[0]
	box := make([]byte, headLen+chacha20poly1305.NonceSizeX, Overhead+len(plain))
	box[0] = version
	copy(box[1:], first.name[:])
	nonce := box[headLen:]
	_, _ = rand.Read(nonce) // never fails
	return first.aead.Seal(box, nonce, plain, k.bind(box, associated))
}

// Open returns what was sealed with the same associated data. Errors: [ErrUnknownKey],
// [ErrInvalid].
func (k *Keys) Open(box, associated []byte) ([]byte, error) {
	if len(box) < Overhead || box[0] != version {
		return nil, ErrInvalid
	}
	err := ErrUnknownKey
	for _, one := range k.keys {
		if !one.sealed(box) {
			continue
		}
		nonce, rest := box[headLen:headLen+chacha20poly1305.NonceSizeX], box[headLen+chacha20poly1305.NonceSizeX:]
		plain, bad := one.aead.Open(nil, nonce, rest, k.bind(box, associated))
		if bad == nil {
			return plain, nil
		}
		err = ErrInvalid // two keys may have one name
	}
	return nil, err
}

// Current reports whether a value was sealed with the first key.
func (k *Keys) Current(box []byte) bool { return len(box) >= headLen && k.keys[0].sealed(box) }

func (k *key) sealed(box []byte) bool { return string(k.name[:]) == string(box[1:headLen]) }

// bind adds the use and the head of a box to its associated data.
func (k *Keys) bind(box, associated []byte) []byte {
	b := make([]byte, 0, len(k.use)+1+headLen+len(associated))
	b = append(append(b, k.use...), 0)
	return append(append(b, box[:headLen]...), associated...)
}
