package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/troupe-dev/troupe/internal/seal"
)

func keys(t *testing.T, use string, raw ...[]byte) *seal.Keys {
	t.Helper()
	k, err := seal.New("label", use, raw...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestOpen: a value opens with its key, its use and its associated data, and with nothing else
// (SECA-12, SECA-36).
func TestOpen(t *testing.T) {
	one, two := seal.NewKey(), seal.NewKey()
	box := keys(t, "use", one).Seal([]byte("plain"), []byte("place"))
	if len(box) != len("plain")+seal.Overhead || bytes.Contains(box, []byte("plain")) {
		t.Errorf("Seal: got %q", box)
	}
	changed := func(i int) []byte {
		b := bytes.Clone(box)
		b[i] ^= 1
		return b
	}
	tests := []struct {
		name  string
		keys  *seal.Keys
		box   []byte
		place string
		want  error
	}{
		{"the same", keys(t, "use", one), box, "place", nil},
		{"a key that was replaced", keys(t, "use", two, one), box, "place", nil},
		{"another key", keys(t, "use", two), box, "place", seal.ErrUnknownKey},
		{"another use", keys(t, "other", one), box, "place", seal.ErrInvalid},
		{"another place", keys(t, "use", one), box, "place2", seal.ErrInvalid},
		{"no place", keys(t, "use", one), box, "", seal.ErrInvalid},
		{"another version", keys(t, "use", one), changed(0), "place", seal.ErrInvalid},
		{"another key's name", keys(t, "use", one), changed(1), "place", seal.ErrUnknownKey},
		{"another nonce", keys(t, "use", one), changed(6), "place", seal.ErrInvalid},
		{"another end", keys(t, "use", one), changed(len(box) - 1), "place", seal.ErrInvalid},
		{"cut", keys(t, "use", one), box[:seal.Overhead-1], "place", seal.ErrInvalid},
		{"empty", keys(t, "use", one), nil, "place", seal.ErrInvalid},
	}
	for _, tt := range tests {
		plain, err := tt.keys.Open(tt.box, []byte(tt.place))
		if !errors.Is(err, tt.want) || (err == nil) != (string(plain) == "plain") {
			t.Errorf("%s: got %q, %v, want %v", tt.name, plain, err, tt.want)
		}
	}
	if k := keys(t, "use", two, one); k.Current(box) || !k.Current(k.Seal(nil, nil)) || k.Current(nil) {
		t.Error("Current: want true of what the first key has sealed only")
	}
	for _, bad := range [][][]byte{nil, {make([]byte, 31)}, {one, make([]byte, 33)}} {
		if _, err := seal.New("label", "use", bad...); err == nil {
			t.Errorf("New with %d keys of a wrong length: got no error", len(bad))
		}
	}
}
