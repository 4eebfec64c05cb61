package hostconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
)

const maxDepth = 100

// document is a parsed file whose parts know their place.
type document struct {
	path  string
	data  []byte
	lines []int // offsets at which lines begin
	root  hujson.Value
}

// parseDocument parses JSON with comments and trailing commas, and is strict
// otherwise: a name stands once in an object, text is UTF-8.
func parseDocument(path string, data []byte) (*document, error) {
	d := &document{path: path, data: data}
	if len(data) > MaxFileBytes {
		return nil, &ConfigError{File: path, Err: fmt.Errorf("the file is larger than %d MiB", MaxFileBytes>>20)}
	}
	d.data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	d.lines = []int{0}
	for i, c := range d.data {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	if at := tooDeep(d.data); at >= 0 { // the parser has no bound of its own
		return nil, d.faultAt(at, fmt.Errorf("nested more than %d levels deep", maxDepth))
	}
	if len(bytes.TrimSpace(d.data)) == 0 {
		return nil, &ConfigError{File: path, Err: errors.New(`the file is empty; it needs {"mcpServers": {…}}`)}
	}
	var err error
	if d.root, err = hujson.Parse(d.terminated()); err != nil {
		return nil, d.syntaxError(err)
	}
	if err := d.strict(&d.root); err != nil {
		return nil, err
	}
	return d, nil
}

// terminated is the text with a newline behind a comment in its last line: the parser
// demands it.
func (d *document) terminated() []byte {
	last := d.data[d.lines[len(d.lines)-1]:]
	if !bytes.Contains(last, []byte("//")) {
		return d.data
	}
	return append(bytes.Clone(d.data), '\n')
}

// tooDeep returns the offset at which the nesting becomes too deep, or -1. It skips strings
// and comments; the parser checks the rest.
func tooDeep(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i = commentEnd(data, i)
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// commentEnd returns the index of the last byte of the comment at i, or i if it is none.
func commentEnd(data []byte, i int) int {
	var closing []byte
	switch {
	case bytes.HasPrefix(data[i:], []byte("//")):
		closing = []byte("\n")
	case bytes.HasPrefix(data[i:], []byte("/*")):
		closing = []byte("*/")
	default:
		return i
	}
	if n := bytes.Index(data[i+2:], closing); n >= 0 {
		return i + 2 + n + len(closing) - 1
	}
	return len(data)
}

// syntaxError turns the parser's error, which has the position as text, into a ConfigError.
func (d *document) syntaxError(err error) error {
	e := &ConfigError{File: d.path, Err: errors.New(clip.Text(strings.TrimPrefix(err.Error(), "hujson: "), maxShown))}
	if n, _ := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &e.Line, &e.Col); n == 2 {
		if inner := errors.Unwrap(err); inner != nil {
			e.Err = fmt.Errorf("not valid JSON: %s", clip.Text(inner.Error(), maxShown))
		}
	}
	return e
}

// strict refuses duplicate names and invalid text, with their place.
func (d *document) strict(v *hujson.Value) error {
	switch t := v.Value.(type) {
	case hujson.Literal:
		if !jsonx.Valid(t) {
			return d.fault(v, "text is not valid UTF-8, or has half of a surrogate pair")
		}
	case *hujson.Array:
		for i := range t.Elements {
			if err := d.strict(&t.Elements[i]); err != nil {
				return err
			}
		}
	case *hujson.Object:
		seen := make(map[string]int, len(t.Members))
		for i := range t.Members {
			m := &t.Members[i]
			if err := d.strict(&m.Name); err != nil {
				return err
			}
			key := name(m)
			if first, twice := seen[key]; twice {
				return d.fault(&m.Name, "the name %q stands twice in one object, first in line %d; keep one", clip.Text(key, maxShown), d.lineAt(first))
			}
			seen[key] = m.Name.StartOffset
			if err := d.strict(&m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// fault is an error about the file, at a value.
func (d *document) fault(v *hujson.Value, format string, args ...any) error {
	return d.faultAt(v.StartOffset, fmt.Errorf(format, args...))
}

func (d *document) faultAt(offset int, err error) *ConfigError {
	line, col := d.position(offset)
	return &ConfigError{File: d.path, Line: line, Col: col, Err: err}
}

func (d *document) line(v *hujson.Value) int { return d.lineAt(v.StartOffset) }

// lineAt counts the lines that begin at or before an offset.
func (d *document) lineAt(offset int) int { return sort.SearchInts(d.lines, offset+1) }

func (d *document) position(offset int) (line, col int) {
	offset = min(max(offset, 0), len(d.data))
	line = d.lineAt(offset)
	before := d.data[d.lines[line-1]:offset]
	if len(before) > 10_000 { // counting characters that far helps no reader, and a file can have many errors
		return line, 1 + len(before)
	}
	return line, 1 + utf8.RuneCount(before)
}

// name is the text of a member's name.
func name(m *hujson.ObjectMember) string {
	s, _ := text(&m.Name)
	return s
}

// member returns the value of a member, nil if v is no object or has none.
func member(v *hujson.Value, key string) *hujson.Value {
	if v == nil {
		return nil
	}
	o, _ := v.Value.(*hujson.Object)
	for i := 0; o != nil && i < len(o.Members); i++ {
		if name(&o.Members[i]) == key {
			return &o.Members[i].Value
		}
	}
	return nil
}

// elements returns the elements of an array, nil if v is none.
func elements(v *hujson.Value) []*hujson.Value {
	if v == nil {
		return nil
	}
	a, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil
	}
	list := make([]*hujson.Value, len(a.Elements))
	for i := range a.Elements {
		list[i] = &a.Elements[i]
	}
	return list
}

// text is the value of a string.
func text(v *hujson.Value) (string, bool) {
	lit, ok := v.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' {
		return "", false
	}
	s, err := jsonx.AppendUnquote(nil, lit)
	return string(s), err == nil
}

// literal is the text of a number, true, false or null; of anything else it is empty.
func literal(v *hujson.Value) string {
	if v == nil {
		return ""
	}
	lit, _ := v.Value.(hujson.Literal)
	if lit.Kind() == '"' {
		return ""
	}
	return string(lit)
}

// kindOf names a value's type, for messages.
func kindOf(v *hujson.Value) string {
	switch v.Value.Kind() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}

// raw is a value as plain JSON.
func raw(v *hujson.Value) json.RawMessage {
	c := v.Clone()
	c.Minimize()
	return json.RawMessage(c.Pack())
}
