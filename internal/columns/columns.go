// Package columns measures text by the columns that it takes on a terminal.
package columns

import (
	"unicode"

	"golang.org/x/text/width"
)

// Rune is how many columns a character takes: East Asian wide ones two, marks that combine
// with the character before them none.
func Rune(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Width is how many columns a text of one line takes.
func Width(s string) (n int) {
	for _, r := range s {
		n += Rune(r)
	}
	return n
}

// Shorten cuts a text to n columns, the last of which is an ellipsis then.
func Shorten(s string, n int) string {
	used, end := 0, 0 // end is where the ellipsis would stand
	for i, r := range s {
		if used <= n-1 {
			end = i
		}
		if used += Rune(r); used > n {
			return s[:end] + "…"
		}
	}
	return s
}
