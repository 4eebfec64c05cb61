package schema

import (
	"bytes"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// The functions here find their way in JSON text that has been checked by a
// strict decoder. They trust it for meaning only: on any other bytes they
// return -1 or nonsense, but stay inside the slice and end.

// skipSpace returns the index of the first byte at or after i that is not white space.
func skipSpace(data []byte, i int) int {
	for i < len(data) && data[i] <= ' ' && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// at returns data[i], or 0 behind the end.
func at(data []byte, i int) byte {
	if uint(i) < uint(len(data)) {
		return data[i]
	}
	return 0
}

// stringEnd returns the index behind the string that opens at i, or -1. A quote
// ends it unless an odd number of backslashes stands before; each is looked at once.
func stringEnd(data []byte, i int) int {
	start := i + 1
	for i = start; i < len(data) && i < start+16; i++ { // most names and values are short
		if c := data[i]; c == '"' {
			return i + 1
		} else if c == '\\' {
			break
		}
	}
	for {
		if i >= len(data) {
			return -1
		}
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for i-slashes > start && data[i-slashes-1] == '\\' {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
}

// skipValue returns the index behind the value that starts at i, or -1. It needs no stack.
func skipValue(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch c := data[i]; c {
		case '"':
			if i = stringEnd(data, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return -1
			}
			i++
			continue
		default:
			i = scalarEnd(data, i)
		}
		if depth <= 0 {
			return i
		}
	}
	return -1
}

// scalarEnd returns the index behind the number or word that starts at i.
func scalarEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return i
}

// runes counts the code points of the inside of a string literal; an escaped
// surrogate pair is one.
func runes(lit []byte) int {
	n := 0
	for {
		i := bytes.IndexByte(lit, '\\')
		if i < 0 {
			return n + utf8.RuneCount(lit)
		}
		n += utf8.RuneCount(lit[:i]) + 1
		size := 2
		if at(lit, i+1) == 'u' {
			size = 6
			if isLow(lit, i+6) && (at(lit, i+2)|0x20 == 'd') && highDigit(at(lit, i+3)) {
				size = 12
			}
		}
		lit = lit[min(i+size, len(lit)):]
	}
}

// isLow reports whether a \u escape of a low surrogate stands at i.
func isLow(lit []byte, i int) bool {
	c := at(lit, i+3) | 0x20
	return at(lit, i) == '\\' && at(lit, i+1) == 'u' && at(lit, i+2)|0x20 == 'd' && c >= 'c' && c <= 'f'
}

// highDigit reports whether \uD and this digit begin a high surrogate.
func highDigit(c byte) bool {
	return c == '8' || c == '9' || c|0x20 == 'a' || c|0x20 == 'b'
}

// escaped reports whether the inside of a string literal has an escape.
func escaped(inside []byte) bool { return bytes.IndexByte(inside, '\\') >= 0 }

// unquote returns the text of a string literal, quotes included.
func unquote(lit []byte) []byte {
	s, err := jsonx.AppendUnquote(nil, lit)
	if err != nil {
		return lit
	}
	return s
}
