package openai

import (
	"encoding/json"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// What the strict mode bounds: a schema beyond it is refused there.
const (
	strictDepth = 10
	strictProps = 5000
)

// isStrict reports whether a schema is one that the strict mode takes, in which the
// answer is held to it while it is made: an object, all properties of all objects
// required and no others allowed, and none of the keywords that the mode does not know.
// Any other schema is sent as advice: it would be refused, and is checked by us anyway.
func isStrict(schema json.RawMessage) bool {
	var top node
	if jsonx.Unmarshal(schema, &top) != nil || len(top["anyOf"]) > 0 {
		return false
	}
	c := strictCheck{}
	return plainType(top["type"]) == "object" && c.node(top, 0)
}

// node is a schema: its keywords in their own text.
type node map[string]jsonx.Value

type strictCheck struct{ props int }

// unknownToStrict are keywords that the strict mode refuses.
var unknownToStrict = []string{
	"allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
	"propertyNames", "unevaluatedProperties", "unevaluatedItems", "prefixItems", "contains", "minContains", "maxContains",
	"minProperties", "maxProperties", "uniqueItems", "minLength", "maxLength", "default",
}

// strictFormats are the formats of strings that it knows.
var strictFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}

func (c *strictCheck) node(n node, depth int) bool {
	if depth > strictDepth {
		return false
	}
	for _, keyword := range unknownToStrict {
		if _, ok := n[keyword]; ok {
			return false
		}
	}
	if f, ok := n["format"]; ok && !slices.Contains(strictFormats, plainType(f)) {
		return false
	}
	if !c.object(n, depth) || !c.each(n["$defs"], depth) || !c.each(n["definitions"], depth) {
		return false
	}
	if items, ok := n["items"]; ok && !c.raw(items, depth) {
		return false
	}
	var branches []jsonx.Value
	if anyOf, ok := n["anyOf"]; ok && jsonx.Unmarshal(anyOf, &branches) != nil {
		return false
	}
	for _, b := range branches {
		if !c.raw(b, depth) {
			return false
		}
	}
	return true
}

// object checks the properties, if the node is of an object or may be.
func (c *strictCheck) object(n node, depth int) bool {
	_, has := n["properties"]
	if !has && plainType(n["type"]) != "object" {
		return true
	}
	var props map[string]jsonx.Value
	var required []string
	if has && jsonx.Unmarshal(n["properties"], &props) != nil || string(n["additionalProperties"]) != "false" {
		return false
	}
	if r, ok := n["required"]; ok && jsonx.Unmarshal(r, &required) != nil {
		return false
	}
	missing := make(map[string]bool, len(props))
	for name := range props {
		missing[name] = true
	}
	for _, name := range required {
		delete(missing, name)
	}
	if c.props += len(props); c.props > strictProps || len(missing) > 0 {
		return false
	}
	for _, p := range props {
		if !c.raw(p, depth) {
			return false
		}
	}
	return true
}

// each checks the schemas of a keyword that holds them by name.
func (c *strictCheck) each(raw jsonx.Value, depth int) bool {
	if len(raw) == 0 {
		return true
	}
	var named map[string]jsonx.Value
	if jsonx.Unmarshal(raw, &named) != nil {
		return false
	}
	for _, n := range named {
		if !c.raw(n, depth) {
			return false
		}
	}
	return true
}

func (c *strictCheck) raw(raw jsonx.Value, depth int) bool {
	var n node
	return raw.Kind() == '{' && jsonx.Unmarshal(raw, &n) == nil && c.node(n, depth+1)
}

// plainType returns the name of a type; of a list, "object" if that is in it.
func plainType(raw jsonx.Value) string {
	var name string
	if jsonx.Unmarshal(raw, &name) == nil {
		return name
	}
	var list []string
	if jsonx.Unmarshal(raw, &list) == nil && slices.Contains(list, "object") {
		return "object"
	}
	return ""
}
