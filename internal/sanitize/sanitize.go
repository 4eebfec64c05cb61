// Package sanitize makes text from a peer fit to be shown to a person.
//
// What comes out moves no cursor, sets no colour, makes no link, has no hidden
// letters and reads in the order in which it is written (SECA-37, SECA-41). It is
// for faces: what goes to a model or to a peer is left as it is.
//
// Sanitising twice is the same as sanitising once. The functions may be called
// from any goroutine.
package sanitize

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/clip"
)

// Limits bounds a text. Zero values mean no limit.
type Limits struct {
	Bytes int // the mark that something was cut off counts
	Lines int
}

// mark stands where text was cut off.
const mark = "…"

// tabWidth is what a tab becomes: how far one goes depends on where it stands.
const tabWidth = 4

// Text returns s as plain text of any number of lines, and how many characters
// were hidden in it: escape sequences (whole), control, format, bidi, zero-width,
// tag and private characters, piles of combining marks. Tabs and other kinds of
// space become spaces, all line ends "\n", invalid UTF-8 U+FFFD. Text beyond max
// is cut off and ends in "…"; it is not counted.
func Text(s string, max Limits) (clean string, hidden int) {
	if !plain(s) {
		s, hidden = strip(s)
	}
	return cut(s, max), hidden
}

// Line is [Text] for one line of at most n characters; 0 means no limit.
func Line(s string, n int) string {
	s, _ = Text(s, Limits{})
	s = strings.TrimSpace(strings.ReplaceAll(s, "\n", " "))
	if n <= 0 || utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:n-1]), " ") + mark
}

// Hidden returns how many characters [Text] would drop.
func Hidden(s string) int {
	_, n := Text(s, Limits{})
	return n
}

// Reveal returns s as plain text in which each hidden character is spelled out,
// such as <U+200B>: for where two texts are compared.
func Reveal(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	marks := 0
	s = strings.ReplaceAll(s, "\r\n", "\n")
	for _, r := range s {
		marks = countMarks(marks, r)
		switch {
		case r == '\n':
			b.WriteRune(r)
		case r == '\t':
			b.WriteString(strings.Repeat(" ", tabWidth))
		case r != ' ' && unicode.Is(unicode.Zs, r), isHidden(r), isEnd(r), marks > maxMarks:
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain reports the common case: printable ASCII and line ends.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\n') || c >= 0x7f {
			return false
		}
	}
	return true
}

// maxMarks is how many combining marks one character may carry. Languages need
// three; a pile of them covers the lines above and below.
const maxMarks = 4

func countMarks(n int, r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return n + 1
	}
	return 0
}

func strip(s string) (string, int) {
	var b strings.Builder
	b.Grow(len(s))
	hidden, marks := 0, 0
	for len(s) > 0 {
		if n := escape(s); n > 0 {
			hidden += utf8.RuneCountInString(s[:n])
			s = s[n:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		if isHidden(r) {
			if !styles(r) { // goes with every other emoji: not worth a warning
				hidden++
			}
			continue // and what it parts is together again
		}
		if marks = countMarks(marks, r); marks > maxMarks {
			hidden++
			continue
		}
		switch {
		case r == '\r' && strings.HasPrefix(s, "\n"): // the pair is one end
		case isEnd(r):
			b.WriteByte('\n')
		case r == '\t':
			b.WriteString(strings.Repeat(" ", tabWidth))
		case unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r) // invalid bytes have become U+FFFD
		}
	}
	return b.String(), hidden
}

// isEnd reports characters that end a line. A carriage return alone would let the
// rest of the line be written over its beginning.
func isEnd(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

// isHidden reports characters that do something else than be seen.
func isHidden(r rune) bool {
	switch {
	case r == '\t' || isEnd(r):
		return false
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs):
		return true
	case unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point):
		return true
	}
	return r == 0x2800 || // a blank that counts as a symbol
		r >= 0xE0000 && r <= 0xE0FFF // tags, with room for more
}

// styles reports the selectors between the black and the coloured form of a symbol.
func styles(r rune) bool { return r == 0xFE0E || r == 0xFE0F }

// maxEscape bounds the text of an escape sequence that carries one (a window's
// title, a link). One that does not end within is taken for a short one: it must
// not swallow what follows.
const maxEscape = 4096

// escape returns the length of the escape sequence that s begins with, or 0.
func escape(s string) int {
	body := 0 // behind the introducer
	kind := byte(0)
	switch {
	case len(s) >= 2 && s[0] == 0x1b:
		kind, body = s[1], 2
	case len(s) >= 2 && s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0: // C1, in UTF-8
		kind, body = s[1]-0x40, 2
	default:
		return 0
	}
	switch kind {
	case '[': // CSI: parameters, then one letter
		for i := body; i < len(s) && i < maxEscape; i++ {
			if c := s[i]; c >= 0x40 && c <= 0x7e {
				return i + 1
			} else if c < 0x20 || c > 0x7e {
				return i // broken off
			}
		}
		return body
	case ']', 'P', 'X', '^', '_': // OSC, DCS, SOS, PM, APC: a text, then ST or BEL
		return body + textEnd(s[body:])
	}
	if s[0] != 0x1b {
		return 0 // another C1 character: hidden, or an end of line
	}
	i := 1
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f { // intermediate bytes
		i++
	}
	if i < len(s) && s[i] >= 0x30 && s[i] <= 0x7e {
		i++
	}
	return i
}

// textEnd returns the length of the text of a sequence with its end, or 0.
func textEnd(s string) int {
	s = s[:min(len(s), maxEscape)]
	for i := range len(s) {
		switch {
		case s[i] == 0x07:
			return i + 1
		case s[i] == '\n':
			return 0
		case s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\', s[i] == 0xc2 && i+1 < len(s) && s[i+1] == 0x9c:
			return i + 2
		}
	}
	return 0
}

// cut holds clean text to its limits.
func cut(s string, max Limits) string {
	if max.Lines > 0 {
		end := -1
		for range max.Lines {
			n := strings.IndexByte(s[end+1:], '\n')
			if n < 0 {
				end = len(s)
				break
			}
			end += 1 + n
		}
		if end < len(s) {
			s = s[:end] + mark
		}
	}
	if max.Bytes <= 0 || len(s) <= max.Bytes {
		return s
	}
	n := max.Bytes - len(mark)
	if n <= 0 {
		return ""
	}
	return clip.Head(s, n) + mark
}
