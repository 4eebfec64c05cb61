package mcp

import (
	"bytes"
	"hash/maphash"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// MaxDepth is how deep arrays and objects may nest in a message. It is far
// beyond any real message and keeps the scan's recursion shallow.
const MaxDepth = 128

// Bounds on the parts of one JSON text: a few bytes each on the wire, an object and a
// member are tens to hundreds of bytes once they are decoded. A message of ordinary
// members reaches its limit in bytes first.
const (
	maxObjects = 100_000
	maxMembers = 200_000 // of all objects
)

// scanner walks one JSON text, checks all of it and copies nothing. It holds
// the text to RFC 8259 and I-JSON (RFC 7493): valid UTF-8, no lone surrogate,
// no name twice in an object. Its methods return false at the first fault and
// leave pos and fault there.
type scanner struct {
	data  []byte
	pos   int
	depth int
	fault string // why a method returned false

	objects, named int // so far: objects, and members of objects

	escaped bool // the last string literal has an escape

	// names are those of the objects now open, outermost first. Objects with
	// many names find duplicates through table, which holds indices into names
	// plus one, by open addressing.
	names []nameRef
	table []uint32
	used  int // slots of table in use

	on    *found                   // what Scan picks up on the way
	visit func(name, value []byte) // called for the members of a visitedObject
}

// nameRef is a member name of an open object.
type nameRef struct {
	name []byte // unquoted
	base int32  // where the names of its object start
	slot int32  // where table holds it, plus one; 0 when it does not
}

// fewNames is up to how many names of one object are compared one by one.
const fewNames = 12

// hashSeed makes the table's collisions unpredictable to a peer.
var hashSeed = maphash.MakeSeed()

func (s *scanner) fail(fault string) bool {
	if s.fault == "" {
		s.fault = fault
	}
	return false
}

// document walks one value and the space around it; nothing may follow.
func (s *scanner) document(k objectKind) bool {
	s.space()
	if !s.value(k) {
		return false
	}
	return s.end()
}

// end walks the space after the value; nothing may follow.
func (s *scanner) end() bool {
	s.space()
	return s.pos == len(s.data) || s.fail("data after the value")
}

func (s *scanner) space() {
	for s.pos < len(s.data) && s.data[s.pos] <= ' ' { // mostly there is none
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// value walks one value. k says what to pick up should it be an object.
func (s *scanner) value(k objectKind) bool {
	if s.pos >= len(s.data) {
		return s.fail("unexpected end")
	}
	switch c := s.data[s.pos]; c {
	case '"':
		return s.stringLiteral()
	case '{':
		return s.object(k)
	case '[':
		return s.array()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return s.number()
		}
		return s.fail("unexpected character")
	}
}

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return s.fail("unexpected character")
	}
	s.pos += len(word)
	return true
}

// number walks -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *scanner) number() bool {
	s.skipByte("-")
	if !s.skipByte("0") && !s.digits() {
		return s.fail("malformed number")
	}
	if s.skipByte(".") && !s.digits() {
		return s.fail("malformed number")
	}
	if s.skipByte("eE") {
		s.skipByte("+-")
		if !s.digits() {
			return s.fail("malformed number")
		}
	}
	return true
}

func (s *scanner) skipByte(any string) bool {
	if s.pos < len(s.data) && (s.data[s.pos] == any[0] || s.data[s.pos] == any[len(any)-1]) {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

// stringLiteral walks a string with its quotes.
func (s *scanner) stringLiteral() bool {
	if s.pos >= len(s.data) || s.data[s.pos] != '"' {
		return s.fail("expected a string")
	}
	s.pos++
	s.escaped = false
	for {
		s.pos += jsonx.PlainPrefix(s.data[s.pos:])
		if s.pos >= len(s.data) {
			return s.fail("unexpected end in a string")
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return s.fail("control character in a string")
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n == 1 {
				return s.fail("invalid UTF-8")
			}
			s.pos += n
		}
	}
}

// escape walks one escape sequence; both halves of a surrogate pair are one.
func (s *scanner) escape() bool {
	s.escaped = true
	if s.pos+1 >= len(s.data) {
		return s.fail("unexpected end in a string")
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return true
	case 'u':
	default:
		return s.fail("unknown escape")
	}
	r, ok := s.hex4(s.pos + 2)
	if !ok {
		return s.fail("malformed escape")
	}
	s.pos += 6
	if r < 0xd800 || r > 0xdfff {
		return true
	}
	if r <= 0xdbff && bytes.HasPrefix(s.data[s.pos:], []byte(`\u`)) {
		if low, ok := s.hex4(s.pos + 2); ok && 0xdc00 <= low && low <= 0xdfff {
			s.pos += 6
			return true
		}
	}
	return s.fail("lone surrogate")
}

func (s *scanner) hex4(at int) (r rune, ok bool) {
	if at+4 > len(s.data) {
		return 0, false
	}
	for _, c := range s.data[at : at+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// array walks an array.
func (s *scanner) array() bool { return s.items(nil) }

// elements walks an array and hands each element to the function.
func (s *scanner) elements(each func(raw []byte) bool) bool {
	return s.items(func() bool {
		start := s.pos
		return s.value(plainObject) && each(s.data[start:s.pos])
	})
}

// items walks an array. Where there is a function, it walks the elements.
func (s *scanner) items(walk func() bool) bool {
	if s.depth++; s.depth > MaxDepth {
		return s.fail("nested too deeply")
	}
	s.pos++ // [
	s.space()
	if s.pos < len(s.data) && s.data[s.pos] == ']' {
		s.pos++
		s.depth--
		return true
	}
	for {
		if walk == nil && !s.value(plainObject) || walk != nil && !walk() {
			return false
		}
		more, ok := s.comma(']')
		if !ok {
			return false
		}
		if !more {
			s.depth--
			return true
		}
	}
}

// comma walks what may follow an element: a comma or the closing bracket.
func (s *scanner) comma(closing byte) (more, ok bool) {
	s.space()
	if s.pos >= len(s.data) {
		return false, s.fail("unexpected end")
	}
	c := s.data[s.pos]
	if c != closing && c != ',' {
		return false, s.fail("expected a comma or the end of the value")
	}
	s.pos++
	if c == closing {
		return false, true
	}
	s.space()
	return true, true
}

// object walks an object and picks up what k says.
func (s *scanner) object(k objectKind) bool { return s.members(k, nil) }

// members walks an object. Where there is a function, it walks the values.
func (s *scanner) members(k objectKind, walk func(name []byte) bool) bool {
	if s.depth++; s.depth > MaxDepth {
		return s.fail("nested too deeply")
	}
	if s.objects++; s.objects > maxObjects {
		return s.fail("too many objects")
	}
	s.pos++ // {
	s.space()
	if s.pos < len(s.data) && s.data[s.pos] == '}' {
		s.pos++
		s.depth--
		return true
	}
	base := len(s.names)
	for {
		name, ok := s.name(base)
		if !ok {
			return false
		}
		if s.named++; s.named > maxMembers {
			return s.fail("too many members")
		}
		if walk == nil && !s.member(k, name) || walk != nil && !walk(name) {
			return false
		}
		more, ok := s.comma('}')
		if !ok {
			return false
		}
		if !more {
			s.closeNames(base)
			s.depth--
			return true
		}
	}
}

// member walks a member's value and picks it up if it is one to pick up.
func (s *scanner) member(k objectKind, name []byte) bool {
	if k == plainObject {
		return s.value(plainObject)
	}
	f, inner := fieldOf(k, name)
	start := s.pos
	if !s.value(inner) {
		return false
	}
	switch {
	case f != noField:
		s.on.at[f] = place{start, s.pos}
	case k == visitedObject:
		s.visit(name, s.data[start:s.pos])
	}
	return true
}

// name walks a name and its colon, and refuses one that the object has already.
func (s *scanner) name(base int) ([]byte, bool) {
	start := s.pos
	if !s.stringLiteral() {
		return nil, false
	}
	name := s.data[start+1 : s.pos-1]
	if s.escaped {
		unquoted, err := jsonx.AppendUnquote(nil, s.data[start:s.pos])
		if err != nil {
			return nil, s.fail("malformed name")
		}
		name = unquoted
	}
	if !s.addName(base, name) {
		s.pos = start
		return nil, s.fail("duplicate name")
	}
	s.space()
	if s.pos >= len(s.data) || s.data[s.pos] != ':' {
		return nil, s.fail("expected a colon")
	}
	s.pos++
	s.space()
	return name, true
}

// addName adds a name of the object whose names start at base; false when it is there already.
func (s *scanner) addName(base int, name []byte) bool {
	n := len(s.names) - base
	if n < fewNames {
		for i := base; i < len(s.names); i++ {
			if string(s.names[i].name) == string(name) {
				return false
			}
		}
		s.names = append(s.names, nameRef{name: name, base: int32(base)})
		return true
	}
	if n == fewNames { // the object has become a big one
		for i := base; i < len(s.names); i++ {
			s.insert(i)
		}
	}
	s.names = append(s.names, nameRef{name: name, base: int32(base)})
	return s.insert(len(s.names) - 1)
}

// insert puts names[i] into the table; false if its object has that name already.
func (s *scanner) insert(i int) bool {
	if (s.used+1)*2 > len(s.table) {
		s.grow()
	}
	ref := &s.names[i]
	mask := uint64(len(s.table) - 1)
	// The base is mixed in: one name in many nested objects would pile up.
	h := maphash.Bytes(hashSeed, ref.name) + uint64(ref.base)*0x9e3779b97f4a7c15
	for slot := h & mask; ; slot = (slot + 1) & mask {
		j := int(s.table[slot]) - 1
		if j < 0 {
			s.table[slot] = uint32(i + 1)
			ref.slot = int32(slot) + 1
			s.used++
			return true
		}
		if s.names[j].base == ref.base && string(s.names[j].name) == string(ref.name) {
			return false
		}
	}
}

// grow doubles the table and puts the names back in their order.
func (s *scanner) grow() {
	s.table = make([]uint32, max(64, 2*len(s.table)))
	s.used = 0
	for i := range s.names {
		if s.names[i].slot != 0 {
			s.insert(i)
		}
	}
}

// closeNames forgets the names of the innermost object. They leave the table
// in the reverse order of coming, so no probe sequence is broken.
func (s *scanner) closeNames(base int) {
	for i := len(s.names) - 1; i >= base && s.names[i].slot != 0; i-- {
		s.table[s.names[i].slot-1] = 0
		s.used--
	}
	clear(s.names[base:])
	s.names = s.names[:base]
}
