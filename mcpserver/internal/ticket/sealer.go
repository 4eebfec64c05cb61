package ticket

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/seal"
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
	ErrKey = seal.ErrKey
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
	keys *seal.Keys
}

var encoding = base64.RawURLEncoding.Strict()

// New returns a sealer with these keys, of 32 random bytes each. Without any it makes
// one, which other processes do not know.
func New(keys [][]byte) (*Sealer, error) {
	if len(keys) == 0 {
		keys = [][]byte{seal.NewKey()}
	}
	k, err := seal.New("troupe ticket key", "troupe requestState", keys...)
	if err != nil {
		return nil, err
	}
	return &Sealer{k}, nil
}

// Seal returns the state for t. The error is [ErrTooLarge], or that of an answer that
// is not JSON.
func (s *Sealer) Seal(t *Ticket, b Binding) (string, error) {
	raw, err := mcp.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("sealing a ticket: %w", err)
	}
	if encoding.EncodedLen(seal.Overhead+len(raw)) > MaxState {
		return "", fmt.Errorf("%w: %d bytes before it is sealed", ErrTooLarge, len(raw))
	}
	return encoding.EncodeToString(s.keys.Seal(raw, b.bytes())), nil
}

// Open returns the ticket in state. Every error is [ErrInvalid].
func (s *Sealer) Open(state string, b Binding) (*Ticket, error) {
	if len(state) > MaxState || strings.ContainsAny(state, "\r\n") { // which the decoder would skip
		return nil, ErrInvalid
	}
	box, err := encoding.DecodeString(state)
	if err != nil {
		return nil, ErrInvalid
	}
	raw, err := s.keys.Open(box, b.bytes())
	if err != nil {
		return nil, ErrInvalid
	}
	t := new(Ticket)
	if err := mcp.Unmarshal(raw, t); err != nil || !time.Now().Before(t.Until) {
		return nil, ErrInvalid
	}
	return t, nil
}

// bytes is the associated data: it is not in the box, but must be the same. Lengths
// come first, so that no two bindings give the same.
func (b *Binding) bytes() (out []byte) {
	for _, part := range []string{b.Principal, b.Method, string(b.Params[:])} {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}
