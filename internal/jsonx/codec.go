package jsonx

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Value is one JSON value in its own text.
type Value = jsontext.Value

// Unmarshal decodes data, all of it, into v.
func Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// UnmarshalKnown decodes data into v and refuses a member that v does not have.
func UnmarshalKnown(data []byte, v any) error {
	return json.Unmarshal(data, v, json.RejectUnknownMembers(true))
}

// Marshal encodes v; the members of a map are in sorted order.
func Marshal(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) }

// AppendUnquote appends the text of a JSON string literal.
func AppendUnquote(dst []byte, literal []byte) ([]byte, error) {
	return jsontext.AppendUnquote(dst, literal)
}

// Valid reports whether data is one JSON value, held to the same rules as [Unmarshal].
func Valid(data []byte) bool { return isPlain(data) || jsontext.Value(data).IsValid() }

// isPlain reports whether data is a truth value, or a string of ASCII without escapes: those that people give in forms.
func isPlain(data []byte) bool {
	n := len(data)
	if n < 2 || data[0] != '"' || data[n-1] != '"' {
		return string(data) == "true" || string(data) == "false"
	}
	for _, c := range data[1 : n-1] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Exact returns data in a form in which values that differ never are the same: that of [Canonical] but for numbers,
// which keep their digits. RFC 8785 takes 9007199254740993 for 9007199254740992, and cuts a long fraction.
func Exact(data []byte) ([]byte, error) {
	v := jsontext.Value(append([]byte(nil), data...))
	err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return v, err
}

// Canonical returns data in the canonical form of RFC 8785, for hashes of what has no numbers that matter, or was
// hashed so before.
func Canonical(data []byte) ([]byte, error) {
	v := jsontext.Value(append([]byte(nil), data...))
	err := v.Canonicalize()
	return v, err
}
