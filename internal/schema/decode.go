package schema

import (
	"encoding/json"
	"errors"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

var (
	errNotJSON = errors.New("is not valid JSON")
	errDepth   = errors.New("is nested too deeply")
	errValues  = errors.New("has too many values")
	errNumber  = errors.New("has a number that is too long, or whose exponent is too large, to be checked")
)

const (
	maxNumberBytes = 1000
	maxNumberExp   = 1000
)

// decoder makes Go values of JSON text, keeping numbers as they are written.
// The text must be valid. Its bounds are those of what the values are used for:
// exact arithmetic on 1e1000000000 would take all memory.
type decoder struct {
	data   []byte
	i      int
	depth  int // how much deeper values may be nested
	values int // how many more there may be
}

// decode returns map[string]any, []any, string, json.Number, bool or nil.
func decode(data []byte, depth, values int) (any, error) {
	if !jsonx.Valid(data) {
		return nil, errNotJSON
	}
	d := decoder{data: data, depth: depth, values: values}
	d.i = skipSpace(data, 0)
	return d.value()
}

func (d *decoder) value() (any, error) {
	if d.values--; d.values < 0 {
		return nil, errValues
	}
	switch at(d.data, d.i) {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.text()
	}
	start := d.i
	d.i = scalarEnd(d.data, d.i)
	switch lit := string(d.data[start:d.i]); lit {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "null":
		return nil, nil
	default:
		cost := numberCost(lit)
		if cost < 0 {
			return nil, errNumber
		}
		if d.values -= cost; d.values < 0 {
			return nil, errValues
		}
		return json.Number(lit), nil
	}
}

// numberCost is what exact arithmetic on a number costs, in units of a usual
// value; -1 is too much.
func numberCost(lit string) int {
	n, ok := parseDecimal([]byte(lit))
	if !ok || len(lit) > maxNumberBytes || n.exp > maxNumberExp || n.exp < -maxNumberExp {
		return -1
	}
	return (len(lit) + max(n.exp, -n.exp)) / 16
}

func (d *decoder) text() (string, error) {
	end := stringEnd(d.data, d.i)
	if end < 0 {
		return "", errNotJSON
	}
	s, err := jsonx.AppendUnquote(nil, d.data[d.i:end])
	d.i = end
	return string(s), err
}

func (d *decoder) object() (any, error) {
	if d.depth--; d.depth < 0 {
		return nil, errDepth
	}
	defer func() { d.depth++ }()
	m := make(map[string]any)
	for d.next('}') {
		name, err := d.text()
		if err != nil {
			return nil, err
		}
		d.next(0)
		if m[name], err = d.value(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (d *decoder) array() (any, error) {
	if d.depth--; d.depth < 0 {
		return nil, errDepth
	}
	defer func() { d.depth++ }()
	a := []any{}
	for d.next(']') {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		a = append(a, v)
	}
	return a, nil
}

// next moves over white space, commas, colons and the opening bracket to the
// next element; it returns false behind the closing bracket.
func (d *decoder) next(closing byte) bool {
	if c := at(d.data, d.i); c == '{' && closing == '}' || c == '[' && closing == ']' {
		d.i++
	}
	for {
		d.i = skipSpace(d.data, d.i)
		switch c := at(d.data, d.i); {
		case c == ',' || c == ':':
			d.i++
		case c == closing && c != 0:
			d.i++
			return false
		default:
			return d.i < len(d.data)
		}
	}
}
