package ticket

import (
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/troupe-dev/troupe/mcp"
)

// MaxState bounds a sealed ticket, in bytes: clients carry 64 KiB at most (MRTR-15),
// and some less.
const MaxState = 32 << 10

var (
	// ErrInvalid says that a state is foreign, was changed, has expired, or belongs to another
	// principal or request. The client does not learn which (SECA-12).
	ErrInvalid = errors.New("ticket: not valid for this request")
	// ErrTooLarge says that a ticket has more in it than may travel.
	ErrTooLarge = errors.New("ticket: too large")
	// ErrKey refuses a key of another length than 32 bytes.
	ErrKey = errors.New("ticket: a key has 32 bytes")
)

// Binding is what a ticket belongs to.
type Binding struct {
	Principal string // its ID; "" for an anonymous sender
	Method    string
	Params    [32]byte // digest of the parameters that make the request what it is
}

// Sealer seals with its first key and opens what any of its keys has sealed, so that
// keys can be replaced one after the other.
type Sealer struct {
	keys []key
}

type key struct {
	name [nameLen]byte // tells which key has sealed; not secret
	aead cipher.AEAD
}

// A state is base64 of: version, name of the key, nonce, box.
const (
	version = 1
	nameLen = 4
	headLen = 1 + nameLen
)

var encoding = base64.RawURLEncoding.Strict()

// New returns a sealer with these keys, of 32 random bytes each. Without any it makes
// one, which other processes do not know.
func New(keys [][]byte) (*Sealer, error) {
	if len(keys) == 0 {
		k := make([]byte, chacha20poly1305.KeySize)
		_, _ = rand.Read(k) // never fails
		keys = [][]byte{k}
	}
	s := new(Sealer)
	for _, raw := range keys {
		if len(raw) != chacha20poly1305.KeySize {
			return nil, fmt.Errorf("%w, not %d", ErrKey, len(raw))
		}
		aead, err := chacha20poly1305.NewX(raw)
		if err != nil {
			return nil, fmt.Errorf("reading a ticket key: %w", err)
		}
		k := key{aead: aead}
		name := sha256.Sum256(append([]byte("troupe ticket key\x00"), raw...))
		copy(k.name[:], name[:])
		s.keys = append(s.keys, k)
	}
	return s, nil
}

// Seal returns the state for t. The error is [ErrTooLarge], or that of an answer that
// is not JSON.
func (s *Sealer) Seal(t *Ticket, b Binding) (string, error) {
	raw, err := mcp.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("sealing a ticket: %w", err)
	}
	k := s.keys[0]
	if encoding.EncodedLen(headLen+k.aead.NonceSize()+len(raw)+k.aead.Overhead()) > MaxState {
		return "", fmt.Errorf("%w: %d bytes before it is sealed", ErrTooLarge, len(raw))
	}
	box := make([]byte, headLen+k.aead.NonceSize(), headLen+k.aead.NonceSize()+len(raw)+k.aead.Overhead())
	box[0] = version
	copy(box[1:], k.name[:])
	nonce := box[headLen:]
	_, _ = rand.Read(nonce) // never fails
	return encoding.EncodeToString(k.aead.Seal(box, nonce, raw, b.bytes(box[:headLen]))), nil
}

// Open returns the ticket in state. Every error is [ErrInvalid].
func (s *Sealer) Open(state string, b Binding) (*Ticket, error) {
	if len(state) > MaxState || strings.ContainsAny(state, "\r\n") { // which the decoder would skip
		return nil, ErrInvalid
	}
	box, err := encoding.DecodeString(state)
	if err != nil || len(box) < headLen || box[0] != version {
		return nil, ErrInvalid
	}
	for _, k := range s.keys {
		if string(k.name[:]) != string(box[1:headLen]) || len(box) < headLen+k.aead.NonceSize() {
			continue
		}
		nonce, sealed := box[headLen:headLen+k.aead.NonceSize()], box[headLen+k.aead.NonceSize():]
		raw, err := k.aead.Open(nil, nonce, sealed, b.bytes(box[:headLen]))
		if err != nil {
			continue // two keys may have one name
		}
		t := new(Ticket)
		if err := mcp.Unmarshal(raw, t); err != nil || !time.Now().Before(t.Until) {
			return nil, ErrInvalid
		}
		return t, nil
	}
	return nil, ErrInvalid
}

// bytes is the associated data: it is not in the box, but must be the same. Lengths
// come first, so that no two bindings give the same.
func (b *Binding) bytes(head []byte) []byte {
	out := append([]byte("troupe requestState\x00"), head...)
	for _, part := range []string{b.Principal, b.Method, string(b.Params[:])} {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}
