package oauth

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Secret is a text that is shown nowhere: every way to print, log or encode it gives "***".
// [Secret.Reveal] alone returns it. The zero value is the empty text.
//
// It points to the text because package fmt does not call methods on unexported fields: a
// string type in such a field would be printed.
type Secret struct{ text *string }

// hidden stands for every secret.
const hidden = "***"

// NewSecret hides a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text, to be sent or sealed.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether the text is empty.
func (s Secret) IsZero() bool { return s.text == nil }

// Equal compares the texts in a time that does not tell where they differ.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns "***", or "" for the empty text.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return hidden
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// Format writes String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON encodes String: what is to be stored holds Reveal in a field of its own.
func (s Secret) MarshalJSON() ([]byte, error) { return jsonx.AppendQuote(nil, s.String()), nil }

// MarshalText encodes String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON hides a string of a document.
func (s *Secret) UnmarshalJSON(data []byte) error {
	var text string
	if err := jsonx.Unmarshal(data, &text); err != nil {
		return errors.New("want a string") // the cause may quote it
	}
	if text == hidden {
		return errors.New("it was hidden when it was written: the secret itself is lost")
	}
	*s = NewSecret(text)
	return nil
}
