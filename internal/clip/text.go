// Package clip bounds what tools, models and errors say, so that a model, a journal or a
// log can take it: texts and the results of tools. What it leaves is valid UTF-8, and says
// where something is missing.
package clip

import (
	"strings"
	"unicode/utf8"
)

// shortBytes bounds an explanation, in bytes.
const shortBytes = 4 << 10

// Short bounds an explanation, such as an error or a reason.
func Short(s string) string { return Text(s, shortBytes) }

// Text cuts s to n bytes at the boundary of a rune, and makes it valid UTF-8.
func Text(s string, n int) string {
	if len(s) > n {
		s = s[:boundary(s, n)] + "…"
	}
	return Valid(s)
}

// Valid returns s as valid UTF-8.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// boundary is the last start of a rune in s that is not behind n.
func boundary(s string, n int) int {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
