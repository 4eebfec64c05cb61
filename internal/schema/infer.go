package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// For infers the 2020-12 schema of a Go type, as the official Go SDK does:
// a struct becomes an object that takes no other properties, its field names
// are those of JSON, and a tag `jsonschema:"text"` is the description of a
// field. A field is required unless it is omitempty, omitzero or (not so in
// the SDK) a pointer; pointers, slices and maps of unknown length may be null
// where JSON allows it.
//
// A type with a text form is a string, one with a JSON form of its own is
// anything, and bytes are a base64 string. The same type always gives the same
// bytes. Channels, functions, complex numbers, and types that contain
// themselves have no schema; the error names the field.
func For(t reflect.Type) (json.RawMessage, error) {
	if t == nil {
		return nil, fmt.Errorf("inferring a schema: there is no type")
	}
	c := collector{special: map[reflect.Type]*jsonschema.Schema{}}
	if err := c.visit(t, nil, nil); err != nil {
		return nil, fmt.Errorf("inferring the schema of %s: %w", t, err)
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: c.special})
	if err != nil {
		return nil, fmt.Errorf("inferring the schema of %s: %w", t, err)
	}
	relax(t, s, c.special)
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("inferring the schema of %s: %w", t, err)
	}
	if string(raw) == "true" { // the schema of any
		raw = json.RawMessage("{}")
	}
	return raw, nil
}

// libraryTypes are known to jsonschema-go.
var libraryTypes = []reflect.Type{
	reflect.TypeFor[time.Time](), reflect.TypeFor[slog.Level](),
	reflect.TypeFor[big.Int](), reflect.TypeFor[big.Rat](), reflect.TypeFor[big.Float](),
}

// collector looks at every type within a type: for what has no schema, and for
// what jsonschema-go would describe by its Go form instead of its JSON form.
type collector struct {
	special map[reflect.Type]*jsonschema.Schema
}

func (c *collector) visit(t reflect.Type, path []string, within []reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if slices.Contains(within, t) {
		return inferFault(path, "%s contains itself; use json.RawMessage or any for the inner one", t)
	}
	if c.special[t] != nil || slices.Contains(libraryTypes, t) {
		return nil
	}
	if s := specialSchema(t); s != nil {
		c.special[t] = s
		return nil
	}
	if t.Name() != "" {
		within = append(slices.Clip(within), t)
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return inferFault(path, `%s has no JSON form; leave the field out with the tag json:"-"`, t)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return inferFault(path, "a map needs string keys, and %s has not", t)
		}
		return c.visit(t.Elem(), append(slices.Clip(path), "[*]"), within)
	case reflect.Slice, reflect.Array:
		return c.visit(t.Elem(), append(slices.Clip(path), "[]"), within)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous || jsonName(f) == "" {
				continue
			}
			if err := c.visit(f.Type, append(slices.Clip(path), "."+f.Name), within); err != nil {
				return err
			}
		}
	}
	return nil
}

func inferFault(path []string, format string, args ...any) error {
	where := strings.Join(path, "")
	if where == "" {
		return fmt.Errorf(format, args...)
	}
	return fmt.Errorf("field %s: %s", where, fmt.Sprintf(format, args...))
}

// specialSchema is the schema of a type whose JSON form is not that of its kind.
func specialSchema(t reflect.Type) *jsonschema.Schema {
	can := func(iface reflect.Type) bool { return t.Implements(iface) || reflect.PointerTo(t).Implements(iface) }
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t == reflect.TypeFor[jsonx.Value]():
		return &jsonschema.Schema{}
	case t == reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case t.Kind() == reflect.Interface:
		return nil
	case can(reflect.TypeFor[json.Marshaler]()):
		return &jsonschema.Schema{}
	case can(reflect.TypeFor[encoding.TextMarshaler]()):
		return &jsonschema.Schema{Type: "string"}
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem().Kind() == reflect.Uint8:
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	}
	return nil
}

// jsonName is the name of a field in JSON, "" if it has none.
func jsonName(f reflect.StructField) string {
	tag := f.Tag.Get("json")
	if !f.IsExported() || tag == "-" {
		return ""
	}
	if name, _, _ := strings.Cut(tag, ","); name != "" {
		return name
	}
	return f.Name
}

// relax makes pointers optional, and fields of an embedded pointer.
func relax(t reflect.Type, s *jsonschema.Schema, special map[reflect.Type]*jsonschema.Schema) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s == nil || special[t] != nil || slices.Contains(libraryTypes, t) {
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		relax(t.Elem(), s.Items, special)
	case reflect.Map:
		relax(t.Elem(), s.AdditionalProperties, special)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name := jsonName(f)
			if f.Anonymous || name == "" {
				continue
			}
			relax(f.Type, s.Properties[name], special)
			if f.Type.Kind() == reflect.Pointer || throughPointer(t, f.Index) {
				s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
			}
		}
	}
}

// throughPointer reports whether a field is promoted from an embedded pointer.
func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		f := t.Field(i)
		if t = f.Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}
