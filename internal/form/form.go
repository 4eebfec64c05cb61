// Package form reads the forms that servers ask a person to fill in, and holds
// answers against them.
//
// The schemas of forms are a small part of JSON Schema: one object of strings,
// numbers, booleans and choices (ELIC-06, ELIC-07). [Parse] takes just that part
// and says of anything else what it is and where, because what cannot be shown
// and checked must not be answered (ELIC-10, SECA-48). The order of the fields is
// that of the schema's text.
//
// A [Form] may be used by any number of goroutines. Its texts are the server's:
// a face must clean them before it shows them.
package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/clip"
)

// ErrUnsupported is what every error of [Parse] is: the schema is outside the
// subset, or beyond a bound. A peer gets -32602 for it (ELIC-10).
var ErrUnsupported = errors.New("the form is not one that can be asked for")

// SchemaError says what is wrong with a form's schema.
type SchemaError struct {
	Property string // its name; "" is the form itself
	Reason   string
}

func (e *SchemaError) Error() string {
	if e.Property == "" {
		return ErrUnsupported.Error() + ": " + e.Reason
	}
	return fmt.Sprintf("%v: the property %q %s", ErrUnsupported, clip.Name(e.Property), e.Reason)
}

func (e *SchemaError) Unwrap() error { return ErrUnsupported }

// Form is a form to be filled in.
type Form struct {
	Fields []Field // in the order of the schema
}

// Field returns the field with that name, or nil.
func (f *Form) Field(name string) *Field {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return &f.Fields[i]
		}
	}
	return nil
}

// Defaults returns the values that the form is filled in with before a person has
// touched it (ELIC-09). The caller owns the map.
func (f *Form) Defaults() map[string]json.RawMessage {
	d := make(map[string]json.RawMessage)
	for i := range f.Fields {
		if v := f.Fields[i].Default; v != nil {
			d[f.Fields[i].Name] = v
		}
	}
	return d
}

// Problem is what is wrong with the value of one field.
type Problem struct {
	Field   string // its name
	Message string // such as: must have at least 3 characters, has 1
}

// ContentError lists what is wrong with an answer.
type ContentError struct {
	Problems []Problem // at least one; in the order of the form
}

func (e *ContentError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i == 10 {
			fmt.Fprintf(&b, "; and %d more", len(e.Problems)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%q %s", clip.Name(p.Field), p.Message)
	}
	return b.String()
}

// Complete returns the answer with the defaults of the fields that are not in it,
// so that {} becomes all the defaults, if that is a valid answer to the form
// (ELIC-09). Fields that the form does not have are left out (SECA-32): the schema does
// not forbid them, and [Form.Foreign] names them. The error is a [*ContentError].
// content is not changed.
func (f *Form) Complete(content map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	whole := f.Defaults()
	maps.Copy(whole, content)
	for _, name := range f.Foreign(content) {
		delete(whole, name)
	}
	var problems []Problem
	for i := range f.Fields {
		field := &f.Fields[i]
		switch v, ok := whole[field.Name]; {
		case ok:
			if err := field.Check(v); err != nil {
				problems = append(problems, Problem{field.Name, err.Error()})
			}
		case field.Required:
			problems = append(problems, Problem{field.Name, "is required"})
		}
	}
	if len(problems) > 0 {
		return nil, &ContentError{problems}
	}
	return whole, nil
}

// Foreign returns the names in an answer that are no fields of the form, sorted.
func (f *Form) Foreign(content map[string]json.RawMessage) []string {
	var names []string
	for name := range content {
		if f.Field(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
