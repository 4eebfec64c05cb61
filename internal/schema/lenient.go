package schema

import (
	"errors"
	"slices"
)

// maxSkipped bounds the keywords that [Schema.Skipped] names.
const maxSkipped = 20

// mend takes from a subschema what cannot be checked: a keyword whose value has
// not the form that the dialect asks for, a pattern that RE2 does not know, an
// enum without values.
func (c *checker) mend(n *node) error {
	for _, key := range sortedNames(n.object) {
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
	if c.sent {
		c.yield(n)
	}
	if c.weak {
		weaken(n.object)
	}
	return nil
}

// yield takes from a subschema what is the receiver's to decide, see [Options].Sent.
func (c *checker) yield(n *node) {
	if _, ok := n.object["format"]; ok {
		c.skip(n.ptr+"/format", "it may be an annotation only", true)
		delete(n.object, "format")
	}
	required, _ := n.object["required"].([]any)
	properties, _ := n.object["properties"].(map[string]any)
	filled := func(name any) bool {
		text, _ := name.(string)
		property, _ := properties[text].(map[string]any)
		_, ok := property["default"]
		return ok
	}
	if slices.ContainsFunc(required, filled) {
		c.skip(n.ptr+"/required", "the receiver may fill in a default", true)
		n.object["required"] = slices.DeleteFunc(required, filled)
	}
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
	if form := forms[key]; form != nil {
		return form.wrong(v), nil
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
	for _, name := range sortedNames(entries) {
		reason, err := reasonOf(c.pattern(ptr, name))
		if err != nil {
			return err
		}
		if reason == "" {
			reason = schemaForm.wrong(entries[name])
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
	for _, name := range sortedNames(members) {
		if reason := schemaForm.wrong(members[name]); reason != "" {
			c.skip(appendToken(ptr, name), reason, true)
			members[name] = true
		}
	}
}
