package schema

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Binder decodes arguments into one Go type, as [jsonx.Unmarshal] does. Structs
// of plain fields, as most are, take it a third of the time. It does not change
// and may be used from any goroutine.
type Binder struct {
	fields []boundField // nil if the type is not such a struct
}

// boundField is a field of type string, bool, float or integer, or []string, which
// is what reflect.Slice stands for.
type boundField struct {
	name  string
	index int
	kind  reflect.Kind
}

// NewBinder returns a binder for t.
func NewBinder(t reflect.Type) *Binder { return &Binder{plainFields(t)} }

// Decode decodes data into v, a pointer to the binder's type. The caller must know
// that data is strict JSON, by mcp.Scan: it is not checked again.
func (b *Binder) Decode(data []byte, v any) error {
	if b.fields != nil && b.object(data, reflect.ValueOf(v).Elem()) {
		return nil
	}
	return jsonx.Unmarshal(data, v) // sets again what was set already
}

// DecodeValid is [Schema.Validate] and [Binder.Decode], in one pass where it can be. With
// an error, v may be set in part.
func (b *Binder) DecodeValid(s *Schema, data []byte, v any) error {
	if b.fields == nil || s.counted || !s.plan.checkObject || at(data, 0) != '{' {
		if err := s.Validate(data); err != nil {
			return err
		}
		return b.Decode(data, v)
	}
	both := s.walk(data, true)
	both.binder, both.into = b, reflect.ValueOf(v).Elem()
	if !both.run(s.plan) {
		return s.explain(data)
	}
	if both.binder == nil {
		return jsonx.Unmarshal(data, v)
	}
	return nil
}

// plainFields returns the fields of a struct that the quick way can do, nil if
// there is one that it cannot.
func plainFields(t reflect.Type) []boundField {
	if t.Kind() != reflect.Struct || t.NumField() == 0 || hasMethods(t) {
		return nil
	}
	var fields []boundField
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		if !f.IsExported() && !f.Anonymous && !tagged {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		if !f.IsExported() || f.Anonymous || !isPlain(f.Type) || !isPlainName(name) ||
			options != "" && options != "omitempty" && options != "omitzero" {
			return nil
		}
		for _, other := range fields {
			if other.name == name {
				return nil
			}
		}
		fields = append(fields, boundField{name, i, f.Type.Kind()})
	}
	return fields
}

// hasMethods reports whether a type may have its own mind about JSON.
func hasMethods(t reflect.Type) bool { return reflect.PointerTo(t).NumMethod() > 0 }

func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return t.PkgPath() == ""
	}
	return t == reflect.TypeFor[[]string]()
}

// isPlainName keeps off the tags that have a grammar of their own.
func isPlainName(name string) bool {
	for _, c := range []byte(name) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_') {
			return false
		}
	}
	return true
}

// object decodes an object; false is for what only the codec can do or refuse.
func (b *Binder) object(data []byte, into reflect.Value) bool {
	d := decoder{data: data, i: skipSpace(data, 0)}
	if at(data, d.i) != '{' {
		return false
	}
	for hint := 0; d.next('}'); hint++ { // members mostly come in the order of the fields
		name, ok := d.plainText()
		if !ok || !d.next(0) {
			return false
		}
		end := skipValue(data, d.i)
		if end < 0 {
			return false
		}
		if !b.member(into, name, hint, data[d.i:end]) {
			return false
		}
		d.i = end
	}
	return true
}

// member decodes one member, if there is a field for it.
func (b *Binder) member(into reflect.Value, name []byte, hint int, raw []byte) bool {
	f := b.find(name, hint)
	return f == nil || setPlain(into.Field(f.index), f.kind, raw)
}

func (b *Binder) find(name []byte, hint int) *boundField {
	if hint < len(b.fields) && b.fields[hint].name == string(name) {
		return &b.fields[hint]
	}
	for i := range b.fields {
		if b.fields[i].name == string(name) {
			return &b.fields[i]
		}
	}
	return nil
}

// plainText moves behind a string literal without escapes and returns its inside.
func (d *decoder) plainText() ([]byte, bool) {
	end := stringEnd(d.data, d.i)
	if at(d.data, d.i) != '"' || end < 0 {
		return nil, false
	}
	inside := d.data[d.i+1 : end-1]
	d.i = end
	return inside, !escaped(inside)
}

// setPlain decodes one value into a field.
func setPlain(field reflect.Value, kind reflect.Kind, raw []byte) bool {
	if string(raw) == "null" {
		field.SetZero()
		return true
	}
	switch kind {
	case reflect.String:
		s, ok := textOf(raw)
		field.SetString(s)
		return ok
	case reflect.Slice:
		return setTexts(field.Addr().Interface().(*[]string), raw)
	case reflect.Bool:
		field.SetBool(raw[0] == 't')
		return raw[0] == 't' || raw[0] == 'f'
	}
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return false
	}
	return setNumber(field, kind, raw)
}

func setNumber(field reflect.Value, kind reflect.Kind, raw []byte) bool {
	if n, ok := plainInt(raw); ok && kind < reflect.Uint && !field.OverflowInt(n) { // most are, and it takes little of a small stack
		field.SetInt(n)
		return true
	}
	bits := field.Type().Bits()
	switch {
	case kind == reflect.Float32 || kind == reflect.Float64:
		x, err := strconv.ParseFloat(string(raw), bits)
		field.SetFloat(x)
		return err == nil
	case kind >= reflect.Uint:
		n, err := strconv.ParseUint(string(raw), 10, bits)
		field.SetUint(n)
		return err == nil
	}
	n, err := strconv.ParseInt(string(raw), 10, bits)
	field.SetInt(n)
	return err == nil
}

// textOf returns what a string literal says.
func textOf(raw []byte) (string, bool) {
	switch {
	case raw[0] != '"':
		return "", false
	case escaped(raw):
		s, err := jsonx.AppendUnquote(nil, raw)
		return string(s), err == nil
	}
	return string(raw[1 : len(raw)-1]), true
}

// setTexts decodes an array of strings. They share one copy of the array.
func setTexts(into *[]string, raw []byte) bool {
	if raw[0] != '[' {
		return false
	}
	list, all := make([]string, 0, 2), string(raw)
	d := decoder{data: raw}
	for d.next(']') {
		start := d.i + 1
		if _, ok := d.plainText(); !ok {
			return false
		}
		list = append(list, all[start:d.i-1])
	}
	*into = list
	return true
}
