package mirror

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"
)

// The marks of an encoded value, exact and in lower case (HDR-11).
const (
	head = "=?base64?"
	tail = "?="
)

// ErrEncoding says that a header's value is not what [Encode] writes (HDR-12).
var ErrEncoding = errors.New("header value holds characters that are not valid, or is wrongly encoded")

// Encode returns value as a header can carry it: as it is where that is possible,
// else in the base64 form (HDR-11). An empty value stays empty (HDR-13).
func Encode(value string) string {
	if plain(value) && !marked(value) {
		return value
	}
	return head + base64.StdEncoding.EncodeToString([]byte(value)) + tail
}

// Decode is the reverse of [Encode]. Space around the value is not its business: it
// belongs to HTTP (HDR-04). The error is [ErrEncoding].
func Decode(header string) (string, error) {
	if !plain(header) {
		return "", ErrEncoding
	}
	if !marked(header) || len(header) < len(head)+len(tail) {
		return header, nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(header[len(head) : len(header)-len(tail)])
	if err != nil || !utf8.Valid(b) {
		return "", ErrEncoding
	}
	return string(b), nil
}

// plain reports whether HTTP would carry s unchanged.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return s == strings.Trim(s, " \t")
}

// marked reports whether s would be read as an encoded value.
func marked(s string) bool { return strings.HasPrefix(s, head) && strings.HasSuffix(s, tail) }
