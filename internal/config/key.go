package config

import (
	"fmt"
	"io"
	"log/slog"
)

// masked stands for a key wherever it would be shown.
const masked = "***"

// Key is a secret. Every way to print, encode or log it gives "***"; only [Key.Reveal]
// gives the text (SECA-27).
type Key struct {
	// A pointer, since package fmt calls no method of what is in an unexported field: it
	// would print a string, and of this it prints where it is.
	text *string
}

// NewKey returns the secret of a text.
func NewKey(text string) Key {
	if text == "" {
		return Key{}
	}
	return Key{&text}
}

// Reveal returns the text, to be sent and for nothing else.
func (k Key) Reveal() string {
	if k.text == nil {
		return ""
	}
	return *k.text
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.text == nil }

// String returns "***", or nothing for no key.
func (k Key) String() string {
	if k.IsZero() {
		return ""
	}
	return masked
}

// GoString is for %#v.
func (k Key) GoString() string { return k.String() }

// Format writes what String returns, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalJSON encodes what String returns.
func (k Key) MarshalJSON() ([]byte, error) { return []byte(`"` + k.String() + `"`), nil }

// MarshalText encodes what String returns, for YAML, XML and the keys of maps.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// LogValue is for slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }
