package schema

import (
	"encoding/json"
	"slices"
)

// dialects is a set of dialects.
type dialects uint8

const (
	in7 dialects = 1 << iota
	in2019
	in2020
)

var dialectBits = map[string]dialects{draft7: in7, draft2019: in2019, draft2020: in2020}

// partial are the keywords that not all dialects have. Elsewhere they are ignored, as
// any other name is that is not a keyword.
var partial = map[string]dialects{
	"$anchor": in2019 | in2020, "$defs": in2019 | in2020, "deprecated": in2019 | in2020, "contentSchema": in2019 | in2020,
	"dependentRequired": in2019 | in2020, "dependentSchemas": in2019 | in2020, "minContains": in2019 | in2020, "maxContains": in2019 | in2020,
	"unevaluatedItems": in2019 | in2020, "unevaluatedProperties": in2019 | in2020,
	"additionalItems": in7 | in2019, "$recursiveRef": in2019 | in2020,
	"prefixItems": in2020, "$dynamicRef": in2020, "$dynamicAnchor": in2020,
}

// knows reports whether a name is, or may be, a keyword of the document's dialect.
func (d *document) knows(key string) bool {
	in, some := partial[key]
	return !some || in&dialectBits[d.dialect] != 0
}

// wellFormed holds the keywords of a subschema against the form that their values must
// have; resolve does so for references.
func (c *checker) wellFormed(n *node, keys []string) error {
	for _, key := range keys {
		v, form := n.object[key], c.formOf(key)
		if form == nil {
			continue
		}
		if reason := form.wrong(v); reason != "" {
			return fault(ErrMalformed, n.ptr+appendToken("", key), "%s", reason)
		}
		if _, schemas := schemaMap[key]; !schemas || key == "dependencies" {
			continue
		}
		members, _ := v.(map[string]any)
		var bad []string
		for name, v := range members {
			if !isSchema(v) {
				bad = append(bad, name)
			}
		}
		if bad != nil {
			name := slices.Min(bad)
			return fault(ErrMalformed, n.ptr+appendToken("/"+key, name), "%s", schemaForm.wrong(members[name]))
		}
	}
	return nil
}

// formOf is the form of a keyword in this dialect, nil if there is none to be checked.
func (c *checker) formOf(key string) *form {
	switch {
	case !c.knows(key) || slices.Contains(references, key):
		return nil
	case key == "items" && c.dialect == draft2020:
		return schemaForm
	case key == "enum":
		return listForm // no value is in an empty one, which is allowed
	}
	return forms[key]
}

// form is what the value of a keyword must be, in all dialects.
type form struct {
	types types
	must  string // be, besides
	fits  func(any) bool
}

// wrong says what a value must be instead, "" if it has the form.
func (f *form) wrong(v any) string {
	t, name := typeOf(v)
	if f.types&t == 0 {
		return msgType(f.types.names(), name)
	}
	if f.fits != nil && !f.fits(v) {
		return "must be " + f.must
	}
	return ""
}

func typeOf(v any) (types, string) {
	switch v := v.(type) {
	case bool:
		return typeBoolean, "boolean"
	case string:
		return typeString, "string"
	case []any:
		return typeArray, "array"
	case map[string]any:
		return typeObject, "object"
	case json.Number:
		if d, _ := parseDecimal([]byte(v)); !d.integral() {
			return typeNumber, "a number with a fraction"
		}
		return typeInteger | typeNumber, "number"
	}
	return typeNull, "null"
}

var (
	schemaForm = &form{types: typeObject | typeBoolean}
	listForm   = &form{types: typeArray}
)

var forms = formsByKeyword(map[*form][]string{
	{types: typeString}:                      {"title", "description", "$comment", "$id", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "pattern", "format", "contentEncoding", "contentMediaType"},
	{types: typeBoolean}:                     {"readOnly", "writeOnly", "deprecated", "uniqueItems"},
	listForm:                                 {"examples"},
	{typeArray, "array of values", isFilled}: {"enum"},
	{typeArray, "array of different names", isNames}: {"required"},
	{types: typeNumber}:                   {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
	{typeNumber, "more than 0", isAbove0}: {"multipleOf"},
	{typeInteger, "at least 0", isFrom0}:  {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"},
	{typeString | typeArray, `one of "null", "boolean", "object", "array", "string", "integer" and "number", or an array of different ones`, isTypes}: {"type"},
	schemaForm: {"not", "if", "then", "else", "additionalProperties", "additionalItems", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"},
	{typeArray, "array of schemas", isSchemas}: {"allOf", "anyOf", "oneOf", "prefixItems"},
	{typeObject | typeBoolean | typeArray, "a schema or an array of schemas", func(v any) bool { return isSchema(v) || isSchemas(v) }}: {"items"},
	{types: typeObject}: {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"},
	{typeObject, "object of arrays of different names", func(v any) bool { return isDependencies(v, false) }}:           {"dependentRequired"},
	{typeObject, "object of schemas or arrays of different names", func(v any) bool { return isDependencies(v, true) }}: {"dependencies"},
})

func formsByKeyword(groups map[*form][]string) map[string]*form {
	all := map[string]*form{}
	for form, keys := range groups {
		for _, key := range keys {
			all[key] = form
		}
	}
	return all
}

func isSchema(v any) bool { return schemaForm.wrong(v) == "" }

func isFilled(v any) bool {
	list, _ := v.([]any)
	return len(list) > 0
}

func isSchemas(v any) bool {
	list, _ := v.([]any)
	return isFilled(v) && !slices.ContainsFunc(list, func(v any) bool { return !isSchema(v) })
}

func isTypes(v any) bool {
	_, ok := typesOf(v)
	return ok
}

func isNames(v any) bool {
	list, ok := v.([]any)
	seen := map[any]bool{}
	for _, v := range list {
		if _, text := v.(string); !text || seen[v] {
			return false
		}
		seen[v] = true
	}
	return ok
}

func isAbove0(v any) bool { return boundOf(v).value.sign() > 0 }
func isFrom0(v any) bool  { return boundOf(v).value.sign() >= 0 }

func isDependencies(v any, schemas bool) bool {
	m, ok := v.(map[string]any)
	for _, v := range m {
		if !isNames(v) && !(schemas && isSchema(v)) {
			return false
		}
	}
	return ok
}
