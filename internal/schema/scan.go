package schema

import (
	"bytes"
	"slices"
	"strconv"
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

// measure says why a value is not looked at again and again, "" if it may be.
func measure(data []byte) string {
	if !jsonx.Valid(data) {
		return "the value " + errNotJSON.Error()
	}
	depth, values := 0, 0
	for i := 0; i < len(data); {
		switch data[i] {
		case '{', '[':
			depth++
			values++
			i++
		case '}', ']':
			depth--
			i++
		case ':': // a name is no value
			values--
			i++
		case ',', ' ', '\t', '\n', '\r':
			i++
		case '"':
			values++
			i = max(stringEnd(data, i), i+1)
		default:
			values++
			i = scalarEnd(data, i)
		}
		switch {
		case depth > maxInstanceDepth:
			return "the value " + errDepth.Error()
		case values > maxInstanceValues:
			return "the value " + errValues.Error()
		}
	}
	return ""
}

// appendCanonical appends a text that equal values share, of the valid JSON value at i. It
// returns the index behind the value, or -1 if a number in it cannot be compared.
func appendCanonical(dst, data []byte, i int) ([]byte, int) {
	switch c := at(data, i); c {
	case '{', '[':
		var parts []string
		d := decoder{data: data, i: i}
		for d.next(c + 2) { // the closing bracket stands two behind the opening one
			var part []byte
			if c == '{' {
				part, d.i = appendCanonical(nil, data, d.i)
				d.next(0)
			}
			if part, d.i = appendCanonical(part, data, d.i); d.i < 0 {
				return dst, -1
			}
			parts = append(parts, string(part))
		}
		if c == '{' {
			slices.Sort(parts)
		}
		dst = append(dst, c)
		for _, part := range parts {
			dst = append(append(dst, part...), ',')
		}
		return append(dst, c+2), d.i
	case '"':
		end := max(stringEnd(data, i), i+1)
		text := unquote(data[i:end])
		dst = strconv.AppendInt(append(dst, c), int64(len(text)), 10)
		return append(append(dst, c), text...), end
	case 't', 'f', 'n':
		return append(dst, c), scalarEnd(data, i)
	}
	end := scalarEnd(data, i)
	n, ok := parseDecimal(data[i:end])
	if !ok {
		return dst, -1
	}
	return n.appendKey(dst), end
}
