package mcp

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// ID is the id of a JSON-RPC request: a string or an integer of any size.
// It keeps its JSON text in one canonical form, so that two IDs are
// equal by == exactly when they have the same JSON type and value: 1 and "1"
// differ, "a" and "\u0061" do not. The zero ID means absent.
type ID struct {
	raw string // canonical JSON text; "" when absent
}

// ProgressToken has the grammar of an id.
type ProgressToken = ID

var errBadID = errors.New("an id is a string or an integer")

// IntID returns the ID of an integer.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// StringID returns the ID of a string. Invalid UTF-8 in s is replaced by U+FFFD.
func StringID(s string) ID { return ID{string(jsonx.AppendQuote(nil, s))} }

// ParseID reads the JSON text of an id. It refuses null, fractions, exponents,
// objects, arrays and space around the value.
func ParseID(raw []byte) (ID, error) {
	if len(raw) == 0 {
		return ID{}, errBadID
	}
	if raw[0] == '"' {
		s := scanner{data: raw}
		if !s.stringLiteral() || s.pos != len(raw) {
			return ID{}, errBadID
		}
	}
	return idOf(raw)
}

// idOf is ParseID for raw that is known to be one JSON value.
func idOf(raw []byte) (ID, error) {
	if raw[0] == '"' {
		return stringIDOf(raw)
	}
	digits := raw
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(digits) > 1 {
		return ID{}, errBadID
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return ID{}, errBadID
		}
	}
	if digits[0] == '0' {
		return ID{"0"}, nil // also -0, which is the same value
	}
	return ID{string(raw)}, nil
}

// stringIDOf canonicalises a valid string literal.
func stringIDOf(raw []byte) (ID, error) {
	for _, c := range raw {
		if c == '\\' {
			text, err := jsonx.AppendUnquote(nil, raw)
			if err != nil {
				return ID{}, errBadID
			}
			return StringID(string(text)), nil
		}
	}
	return ID{string(raw)}, nil
}

// IsZero reports whether the id is absent.
func (id ID) IsZero() bool { return id.raw == "" }

// String returns the JSON text: 7 or "7". It is "" for the zero ID.
func (id ID) String() string { return id.raw }

// Int64 returns the value of an integer id that fits.
func (id ID) Int64() (int64, bool) {
	if id.raw == "" || id.raw[0] == '"' {
		return 0, false
	}
	n, err := strconv.ParseInt(id.raw, 10, 64)
	return n, err == nil
}

// Text returns the value of a string id.
func (id ID) Text() (string, bool) {
	if id.raw == "" || id.raw[0] != '"' {
		return "", false
	}
	text, err := jsonx.AppendUnquote(nil, []byte(id.raw))
	return string(text), err == nil
}

// AppendJSON appends the JSON text; null for the zero ID.
func (id ID) AppendJSON(dst []byte) []byte {
	if id.raw == "" {
		return append(dst, "null"...)
	}
	return append(dst, id.raw...)
}

// MarshalJSON writes the id; null for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) { return id.AppendJSON(nil), nil }

// UnmarshalJSON reads an id by the rules of [ParseID].
func (id *ID) UnmarshalJSON(raw []byte) error {
	parsed, err := ParseID(raw)
	if err != nil {
		return fmt.Errorf("reading an id: %w", err)
	}
	*id = parsed
	return nil
}
