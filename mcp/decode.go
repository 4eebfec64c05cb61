package mcp

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// validator is a type that can say whether a decoded value is complete.
type validator interface{ Validate() error }

// Unmarshal decodes what a peer sent into v: strictly (names are
// case-sensitive; duplicate names, invalid UTF-8 and bytes behind the value are
// errors; nesting is bounded), and complete: if v has a Validate method, its
// error is returned. Unknown members are kept or ignored.
func Unmarshal(data []byte, v any) error {
	if err := strict(data); err != nil { // it also bounds the depth, before anything recurses
		return err
	}
	if err := jsonx.Unmarshal(data, v); err != nil {
		return err
	}
	if v, ok := v.(validator); ok {
		return v.Validate()
	}
	return nil
}

// strict returns an error for data that is not one JSON value by the rules of [Scan].
func strict(data []byte) error {
	w := workspaces.Get().(*workspace)
	defer w.release()
	s := &w.scanner
	s.data = data
	if !s.document(plainObject) {
		return fmt.Errorf("invalid JSON at byte %d: %s", s.pos, s.fault)
	}
	return nil
}

// Marshal encodes v, a value of this package or one that contains such values.
// The result is one line.
func Marshal(v any) ([]byte, error) { return jsonx.Marshal(v) }

// MissingError says that a required member is absent, null or of no use.
type MissingError struct {
	In     string // what lacks it
	Member string
}

func (e *MissingError) Error() string { return fmt.Sprintf("%s without %s", e.In, e.Member) }

// required returns a [*MissingError] unless the member is there.
func required(in, member string, there bool) error {
	if there {
		return nil
	}
	return &MissingError{In: in, Member: member}
}

var errNotObject = errors.New("not an object")

// eachMember walks the members of an object. The value is a part of raw.
func eachMember(raw []byte, each func(name, value []byte)) error {
	s := scanner{data: raw}
	s.space()
	if s.pos >= len(raw) || raw[s.pos] != '{' {
		return errNotObject
	}
	s.visit = each
	if !s.document(visitedObject) {
		return fmt.Errorf("invalid JSON at byte %d: %s", s.pos, s.fault)
	}
	return nil
}

// eachElement walks the elements of an array. The element is a part of raw.
func eachElement(raw []byte, each func(element []byte) error) error {
	s := scanner{data: raw}
	s.space()
	if s.pos >= len(raw) || raw[s.pos] != '[' {
		return errors.New("not an array")
	}
	var failed error
	ok := s.elements(func(element []byte) bool {
		failed = each(element)
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	if !ok || !s.end() {
		return fmt.Errorf("invalid JSON at byte %d: %s", s.pos, s.fault)
	}
	return nil
}

// findMember returns the raw value of one member; nil when absent.
func findMember(raw []byte, name string) (value []byte, err error) {
	err = eachMember(raw, func(n, v []byte) {
		if string(n) == name {
			value = v
		}
	})
	return value, err
}

// needMembers checks that an object has the members, none of them null.
func needMembers(raw []byte, in string, names ...string) error {
	seen := 0
	err := eachMember(raw, func(n, v []byte) {
		for i, name := range names {
			if string(n) == name && string(v) != "null" {
				seen |= 1 << i
			}
		}
	})
	if err != nil {
		return fmt.Errorf("reading %s: %w", in, err)
	}
	for i, name := range names {
		if seen&(1<<i) == 0 {
			return &MissingError{In: in, Member: name}
		}
	}
	return nil
}
