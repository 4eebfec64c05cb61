package mirror

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
)

// annotation is the keyword of a property that is repeated (HDR-20).
const annotation = "x-mcp-header"

// maxParams bounds the annotations of one schema.
const maxParams = 100

// ErrAnnotation says that a schema's annotations break HDR-21: the tool is to be
// left out (HDR-22).
var ErrAnnotation = errors.New("invalid " + annotation)

// Param is an argument that is repeated in a header.
type Param struct {
	Header string   // without Mcp-Param-
	Path   []string // of properties, from the root of the arguments; not empty
}

// Params returns what a tool's input schema has repeated, in the order of the
// headers' names; nil is the usual case. The error wraps [ErrAnnotation].
func Params(schema json.RawMessage) ([]Param, error) {
	if !bytes.Contains(schema, []byte(annotation)) && !bytes.Contains(schema, []byte(`\u`)) {
		return nil, nil
	}
	var root any
	if err := mcp.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("reading the input schema: %w", err)
	}
	w := walker{names: map[string]bool{}}
	if err := w.schema(root, nil, true); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnnotation, err)
	}
	slices.SortFunc(w.params, func(a, b Param) int { return strings.Compare(a.Header, b.Header) })
	return w.params, nil
}

// inner are the keywords, other than properties, with schemas in them: an
// annotation there has no one place in the arguments.
var inner = map[string]bool{
	"items": true, "prefixItems": true, "additionalItems": true, "unevaluatedItems": true, "contains": true,
	"additionalProperties": true, "patternProperties": true, "unevaluatedProperties": true, "propertyNames": true,
	"oneOf": true, "anyOf": true, "allOf": true, "not": true, "if": true, "then": true, "else": true,
	"$defs": true, "definitions": true, "dependentSchemas": true, "dependencies": true, "contentSchema": true,
}

// manyNamed are those among them that are objects of schemas: their names are no
// keywords.
var manyNamed = map[string]bool{"patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true, "dependencies": true}

// walker collects the annotations of a schema. The decoder has bounded its depth.
type walker struct {
	params []Param
	names  map[string]bool // of headers, in lower case
}

// schema looks at one schema. Direct says that only properties lead to it.
func (w *walker) schema(v any, path []string, direct bool) error {
	s, ok := v.(map[string]any)
	if !ok {
		if list, ok := v.([]any); ok { // oneOf and the like
			return w.each(list, path)
		}
		return nil // true, false, or nothing we know
	}
	if name, ok := s[annotation]; ok {
		if err := w.annotated(s, name, path, direct); err != nil {
			return err
		}
	}
	for keyword, v := range s {
		var err error
		switch {
		case keyword == "properties":
			err = w.named(v, path, direct)
		case manyNamed[keyword]:
			err = w.named(v, path, false)
		case inner[keyword]:
			err = w.schema(v, path, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) each(list []any, path []string) error {
	for _, v := range list {
		if err := w.schema(v, path, false); err != nil {
			return err
		}
	}
	return nil
}

// named looks at an object of schemas.
func (w *walker) named(v any, path []string, direct bool) error {
	members, _ := v.(map[string]any)
	for name, s := range members {
		if err := w.schema(s, append(path[:len(path):len(path)], name), direct); err != nil {
			return err
		}
	}
	return nil
}

// annotated checks one annotation (HDR-21) and keeps it.
func (w *walker) annotated(s map[string]any, value any, path []string, direct bool) error {
	at := strings.Join(path, ".")
	name, ok := value.(string)
	switch {
	case !direct || len(path) == 0:
		return fmt.Errorf("at %.100q: properties alone must lead to it", at)
	case !ok || !IsToken(name):
		return fmt.Errorf("at %.100q: %.100q is not the name of a header", at, fmt.Sprint(value))
	case w.names[strings.ToLower(name)]:
		return fmt.Errorf("at %.100q: %.100q is there twice", at, name)
	case !scalar(s["type"]):
		return fmt.Errorf("at %.100q: the type must be string, integer or boolean", at)
	case len(w.params) == maxParams:
		return fmt.Errorf("more than %d of them", maxParams)
	}
	w.names[strings.ToLower(name)] = true
	w.params = append(w.params, Param{Header: name, Path: path})
	return nil
}

// scalar reports whether a type, or each of a list of types, has values that can be
// repeated; null may be one of a list.
func scalar(v any) bool {
	switch v := v.(type) {
	case string:
		return v == "string" || v == "integer" || v == "boolean"
	case []any:
		some := false
		for _, t := range v {
			if t != "null" && (!scalar(t) || isList(t)) {
				return false
			}
			some = some || t != "null"
		}
		return some
	}
	return false
}

func isList(v any) bool { _, ok := v.([]any); return ok }

// IsToken reports whether s can be a part of a header's name (RFC 9110, 5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			continue
		}
		return false
	}
	return s != ""
}
