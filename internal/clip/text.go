// Package clip cuts texts to a length that a message, a model, a journal or a log can take.
// What it leaves is valid UTF-8 and shows where text is missing.
package clip

import (
	"strings"
	"unicode/utf8"
)

// shortBytes bounds an explanation, nameBytes a name, in bytes.
const (
	shortBytes = 4 << 10
	nameBytes  = 64
)

// Short bounds an explanation, such as an error or a reason.
func Short(s string) string { return Text(s, shortBytes) }

// Name bounds a name, key or URI of a peer in a message.
func Name(s string) string { return Text(s, nameBytes) }

// Text cuts s to n bytes at the boundary of a rune, and makes it valid UTF-8.
func Text(s string, n int) string {
	if len(s) > n {
		s = Head(s, n) + "…"
	}
	return Valid(s)
}

// Head returns what of s fits into n bytes, up to the boundary of a rune.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Valid returns s as valid UTF-8.
func Valid(s string) string {
	if utf8.ValidString(s) { // which looks at eight bytes at a time
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
