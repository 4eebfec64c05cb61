package rest

import (
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
)

// MaxFew bounds the entries of a list in an answer.
const MaxFew = 1024

// Few is a list of at most 1024 entries. One that is longer is [llm.ErrTooLarge], and is
// not decoded: two bytes of an answer would become a hundred in memory.
type Few[T any] []T

// UnmarshalJSON implements the interface of encoding/json.
func (f *Few[T]) UnmarshalJSON(data []byte) error {
	if moreThan(data, MaxFew) {
		return llm.ErrTooLarge
	}
	return jsonx.Unmarshal(data, (*[]T)(f))
}

// moreThan reports whether a list, which is valid JSON, has more than n entries.
func moreThan(data []byte, n int) bool {
	depth, commas, text := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 1:
			if commas++; commas >= n {
				return true
			}
		}
	}
	return false
}
