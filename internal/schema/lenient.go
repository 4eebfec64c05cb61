package schema

import (
	"errors"
	"maps"
	"slices"
)

// maxSkipped bounds the keywords that [Schema.Skipped] names.
const maxSkipped = 20

// mend takes from a subschema what cannot be checked: a keyword whose value has
// not the form that the dialect asks for, a pattern that RE2 does not know, an
// enum without values.
func (c *checker) mend(n *node) error {
	for _, key := range slices.Sorted(maps.Keys(n.object)) {
		reason, err := c.unfit(n, key)
		if err != nil {
			return err
		}
		if reason == "" {
			continue
		}
		c.skip(n.ptr+appendToken("", key), reason, !loose[key])
		delete(n.object, key)
		if key == "properties" || key == "patternProperties" { // every property would be additional
			delete(n.object, "additionalProperties")
		}
	}
	if c.weak {
		weaken(n.object)
	}
	return nil
}

// loose are keywords that constrain nothing.
var loose = map[string]bool{
	"title": true, "description": true, "$comment": true, "contentEncoding": true, "contentMediaType": true,
	"readOnly": true, "writeOnly": true, "deprecated": true, "examples": true,
}

// skip notes a keyword that is left out. A schema that lacks a constraint is weakened.
func (c *checker) skip(ptr, reason string, constrains bool) {
	c.weakens = c.weakens || constrains
	c.dropped[ptr] = true
	if len(c.skipped) < maxSkipped {
		c.skipped = append(c.skipped, fault(ErrSkipped, ptr, "%s", reason))
	}
}

// weaken takes from a subschema the keywords that refuse more once another one is
// missing: the opposite of a schema that accepts more accepts less.
func weaken(o map[string]any) {
	for _, key := range []string{"not", "if", "then", "else", "maxContains", "unevaluatedProperties", "unevaluatedItems"} {
		delete(o, key)
	}
	if one, ok := o["oneOf"]; ok {
		if _, both := o["anyOf"]; !both {
			o["anyOf"] = one
		}
		delete(o, "oneOf")
	}
}

// unfit says why a keyword of a subschema cannot be checked, "" if it can. Members
// of properties and patternProperties are judged one by one.
func (c *checker) unfit(n *node, key string) (string, error) {
	v := n.object[key]
	switch key {
	case "pattern":
		if s, ok := v.(string); ok {
			return reasonOf(c.pattern(n.ptr+"/pattern", s))
		}
	case "patternProperties":
		if m, ok := v.(map[string]any); ok {
			return "", c.mendPatterns(n.ptr+"/"+key, m)
		}
	}
	if members, ok := v.(map[string]any); ok {
		if _, known := schemaMap[key]; known && key != "dependencies" {
			c.mendMembers(n.ptr+"/"+key, members)
			return "", nil
		}
	}
	if form, known := forms[key]; known && !form.fits(v) {
		return "it is not " + form.name, nil
	}
	return "", nil
}

// reasonOf makes a reason of a pattern that RE2 does not know. One that is too large
// stays an error: many of them would cost too much to look at.
func reasonOf(err error) (string, error) {
	var e *Error
	if errors.As(err, &e) && e.Err == ErrPattern {
		return e.Reason, nil
	}
	return "", err
}

// mendPatterns leaves out the entries whose pattern cannot be checked. One that
// matches every name stands for them: what they match is no additional property.
func (c *checker) mendPatterns(ptr string, entries map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		reason, err := reasonOf(c.pattern(ptr, name))
		if err != nil {
			return err
		}
		if reason == "" && !isSchema(entries[name]) {
			reason = "it is not a schema"
		}
		if reason != "" {
			c.skip(appendToken(ptr, name), reason, true)
			delete(entries, name)
			entries[""] = true
		}
	}
	return nil
}

// mendMembers lets a property be anything whose schema is none.
func (c *checker) mendMembers(ptr string, members map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !isSchema(members[name]) {
			c.skip(appendToken(ptr, name), "it is not a schema", true)
			members[name] = true
		}
	}
}

func isSchema(v any) bool {
	switch v.(type) {
	case map[string]any, bool:
		return true
	}
	return false
}

// form is what the value of a keyword must be, in all dialects.
type form struct {
	name string
	fits func(any) bool
}

var forms = formsByKeyword(map[*form][]string{
	{"a string", isText}:         {"title", "description", "$comment", "$id", "$anchor", "$ref", "$dynamicRef", "pattern", "format", "contentEncoding", "contentMediaType"},
	{"true or false", isBool}:    {"readOnly", "writeOnly", "deprecated", "uniqueItems"},
	{"a list", isList}:           {"examples"},
	{"a list of values", isEnum}: {"enum"},
	{"a list of different names", func(v any) bool { return isList(v) && stringList(v) }}:           {"required"},
	{"a number", func(v any) bool { _, ok := boundOf(v); return ok }}:                               {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
	{"a number above zero", isStep}:                                                                 {"multipleOf"},
	{"a whole number from 0", isCount}:                                                              {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"},
	{"a type or a list of types", func(v any) bool { _, ok := typesOf(v); return ok }}:              {"type"},
	{"a schema", isSchema}:                                                                          {"not", "if", "then", "else", "additionalProperties", "additionalItems", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"},
	{"a list of schemas", isSchemas}:                                                                {"allOf", "anyOf", "oneOf", "prefixItems"},
	{"a schema or a list of schemas", func(v any) bool { return isSchema(v) || isSchemas(v) }}:      {"items"},
	{"an object of schemas", isMap}:                                                                 {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"},
	{"an object of lists of names", func(v any) bool { return isDependencies(v, false) }}:           {"dependentRequired"},
	{"an object of schemas or lists of names", func(v any) bool { return isDependencies(v, true) }}: {"dependencies"},
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

func isText(v any) bool { _, ok := v.(string); return ok }
func isBool(v any) bool { _, ok := v.(bool); return ok }
func isList(v any) bool { _, ok := v.([]any); return ok }
func isMap(v any) bool  { _, ok := v.(map[string]any); return ok }

func isEnum(v any) bool {
	list, _ := v.([]any)
	return len(list) > 0
}

func isSchemas(v any) bool {
	list, _ := v.([]any)
	return len(list) > 0 && !slices.ContainsFunc(list, func(v any) bool { return !isSchema(v) })
}

func isCount(v any) bool {
	b, ok := boundOf(v)
	return ok && b.value.sign() >= 0 && b.value.integral()
}

func isStep(v any) bool {
	b, ok := boundOf(v)
	return ok && b.value.sign() > 0
}

func isDependencies(v any, schemas bool) bool {
	m, ok := v.(map[string]any)
	for _, v := range m {
		if isList(v) && stringList(v) || schemas && isSchema(v) {
			continue
		}
		return false
	}
	return ok
}
