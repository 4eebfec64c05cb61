package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// parser reads one schema. The text has been checked to be valid JSON without
// duplicate names.
type parser struct {
	version  mcp.Version
	options  int // so far
	patterns int
}

// constraints are the keywords of all dialects that restrict a value or lead
// elsewhere. What is none of them is a note and may stand anywhere.
var constraints = map[string]bool{
	"$ref": true, "$dynamicRef": true, "$recursiveRef": true, "$defs": true, "definitions": true,
	"allOf": true, "anyOf": true, "oneOf": true, "not": true, "if": true, "then": true, "else": true,
	"type": true, "enum": true, "const": true, "enumNames": true, "default": true, "format": true,
	"properties": true, "required": true, "additionalProperties": true, "patternProperties": true, "propertyNames": true,
	"minProperties": true, "maxProperties": true, "dependencies": true, "dependentSchemas": true, "dependentRequired": true,
	"unevaluatedProperties": true, "unevaluatedItems": true,
	"items": true, "prefixItems": true, "additionalItems": true, "contains": true, "minContains": true, "maxContains": true,
	"minItems": true, "maxItems": true, "uniqueItems": true,
	"minLength": true, "maxLength": true, "pattern": true, "contentSchema": true,
	"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true,
	"$dynamicAnchor": true, "$recursiveAnchor": true, "$vocabulary": true,
}

// only refuses a constraint that is not allowed there.
func only(list []jsonx.Member, allowed ...string) error {
	for _, m := range list {
		if constraints[m.Name] && !slices.Contains(allowed, m.Name) {
			return fmt.Errorf("has %q, which forms do not have there", m.Name)
		}
	}
	return nil
}

func (p *parser) form(raw json.RawMessage) (*Form, error) {
	root, ok := jsonx.Members(raw)
	refuse := func(format string, args ...any) (*Form, error) {
		return nil, &SchemaError{Reason: fmt.Sprintf(format, args...)}
	}
	if !ok {
		return refuse("its schema is not an object")
	}
	if err := only(root, "type", "properties", "required", "additionalProperties"); err != nil {
		return refuse("its schema %v", err)
	}
	if kind, _ := jsonx.Text(find(root, "type")); kind != "object" {
		return refuse(`its schema is not of the type "object"`)
	}
	if s := find(root, "$schema"); s != nil && s[0] != '"' {
		return refuse("its $schema is not a string")
	}
	// No field can be added to the answer anyway, so true and false are the same.
	if a := find(root, "additionalProperties"); a != nil && a[0] != 't' && a[0] != 'f' {
		return refuse("it has values for further properties")
	}
	properties, ok := jsonx.Members(find(root, "properties"))
	if !ok {
		return refuse("its schema has no properties")
	}
	if len(properties) > maxFields {
		return refuse("it has %d fields, more than %d", len(properties), maxFields)
	}
	f := &Form{Fields: make([]Field, 0, len(properties))}
	for _, m := range properties {
		field, err := p.field(m)
		if err != nil {
			return nil, &SchemaError{Property: m.Name, Reason: err.Error()}
		}
		f.Fields = append(f.Fields, *field)
	}
	return f, p.required(f, find(root, "required"))
}

func (p *parser) required(f *Form, raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	names, ok := texts(raw)
	if !ok {
		return &SchemaError{Reason: "its list of required properties is not one of strings"}
	}
	for _, name := range names {
		field := f.Field(name)
		if field == nil {
			return &SchemaError{Property: name, Reason: "is required but not there"}
		}
		field.Required = true
	}
	return nil
}

// field reads one property. Its error ends the sentence "the property … ".
func (p *parser) field(m jsonx.Member) (*Field, error) {
	switch {
	case m.Name == "":
		return nil, errors.New("has no name")
	case len(m.Name) > maxName:
		return nil, fmt.Errorf("has a name of more than %d bytes", maxName)
	}
	list, ok := jsonx.Members(m.Value)
	if !ok {
		return nil, errors.New("is not a schema with a type")
	}
	f := &Field{Name: m.Name}
	for _, s := range []struct {
		name string
		to   *string
	}{{"title", &f.Title}, {"description", &f.Description}} {
		if raw := find(list, s.name); raw != nil {
			if *s.to, ok = jsonx.Text(raw); !ok {
				return nil, fmt.Errorf("has a %s that is not a string", s.name)
			}
		}
	}
	if err := p.kind(f, list); err != nil {
		return nil, err
	}
	if err := f.compile(); err != nil {
		return nil, err
	}
	if err := f.readDefault(find(list, "default")); err != nil {
		return nil, err
	}
	f.Secret = f.Kind.typed() && (LooksSecret(f.Name) || LooksSecret(f.Title) || LooksSecret(f.Description))
	return f, nil
}

func (p *parser) kind(f *Field, list []jsonx.Member) error {
	kind, ok := jsonx.Text(find(list, "type"))
	if !ok {
		return errors.New("has no type, or several")
	}
	switch kind {
	case "string":
		switch {
		case find(list, "enum") != nil:
			return p.choice(f, list)
		case find(list, "oneOf") != nil:
			return p.titledChoice(f, list)
		}
		return p.text(f, list)
	case "number", "integer":
		f.Kind = Number
		if kind == "integer" {
			f.Kind = Integer
		}
		return f.readNumber(list)
	case "boolean":
		f.Kind = Boolean
		return only(list, "type", "default")
	case "array":
		return p.choices(f, list)
	}
	return fmt.Errorf("is of the type %q, which forms do not have", clip.Name(kind))
}

// choice reads the string with an enum and, in the old way, enumNames.
func (p *parser) choice(f *Field, list []jsonx.Member) error {
	f.Kind = Choice
	if err := only(list, "type", "default", "enum", "enumNames"); err != nil {
		return err
	}
	values, ok := texts(find(list, "enum"))
	if !ok {
		return errors.New("has options that are not strings")
	}
	titles := values
	if raw := find(list, "enumNames"); raw != nil {
		if titles, ok = texts(raw); !ok || len(titles) != len(values) {
			return errors.New("does not have one name of enumNames for each option")
		}
	}
	for i, v := range values {
		f.Options = append(f.Options, Option{v, titles[i]})
	}
	return p.checkOptions(f)
}

// titled reads options of the form {const, title}.
func titled(raw json.RawMessage) ([]Option, error) {
	var list []json.RawMessage
	if jsonx.Unmarshal(raw, &list) != nil {
		return nil, errors.New("has options that are not a list")
	}
	options := make([]Option, 0, len(list))
	for _, raw := range list {
		option, ok := jsonx.Members(raw)
		if !ok {
			return nil, errors.New("has an option that is not an object")
		}
		if err := only(option, "const"); err != nil {
			return nil, fmt.Errorf("has an option that %w", err)
		}
		value, ok := jsonx.Text(find(option, "const"))
		title, hasTitle := jsonx.Text(find(option, "title"))
		if !ok || !hasTitle {
			return nil, errors.New("has an option without a string as const, or without a title")
		}
		options = append(options, Option{value, title})
	}
	return options, nil
}

func (p *parser) titledChoice(f *Field, list []jsonx.Member) (err error) {
	f.Kind = Choice
	if !p.version.Has(mcp.FeatureURLElicitation) { // it came at the same time
		return fmt.Errorf("has %q, which revision %s does not have", "oneOf", p.version)
	}
	if err := only(list, "type", "default", "oneOf"); err != nil {
		return err
	}
	if f.Options, err = titled(find(list, "oneOf")); err != nil {
		return err
	}
	return p.checkOptions(f)
}

// choices reads the array of strings from a list of options.
func (p *parser) choices(f *Field, list []jsonx.Member) (err error) {
	f.Kind = Choices
	if !p.version.Has(mcp.FeatureURLElicitation) { // it came at the same time
		return fmt.Errorf("is of the type %q, which revision %s does not have in forms", "array", p.version)
	}
	if err := only(list, "type", "default", "items", "minItems", "maxItems"); err != nil {
		return err
	}
	if f.MinItems, f.MaxItems, err = counts(list, "minItems", "maxItems"); err != nil {
		return err
	}
	items, ok := jsonx.Members(find(list, "items"))
	if !ok {
		return errors.New("is a list without a schema for what may be in it")
	}
	kind, hasKind := jsonx.Text(find(items, "type"))
	if find(items, "anyOf") != nil {
		if err := only(items, "type", "anyOf"); err != nil {
			return fmt.Errorf("is a list whose schema %w", err)
		}
		if hasKind && kind != "string" {
			return errors.New("is a list of something else than strings")
		}
		if f.Options, err = titled(find(items, "anyOf")); err != nil {
			return err
		}
	} else {
		if err := only(items, "type", "enum"); err != nil {
			return fmt.Errorf("is a list whose schema %w", err)
		}
		values, ok := texts(find(items, "enum"))
		if !ok || kind != "string" {
			return errors.New("is a list, but not one of strings to choose from")
		}
		for _, v := range values {
			f.Options = append(f.Options, Option{v, v})
		}
	}
	if f.MinItems > len(f.Options) {
		return fmt.Errorf("asks for %d of %d options", f.MinItems, len(f.Options))
	}
	return p.checkOptions(f)
}

func (p *parser) checkOptions(f *Field) error {
	p.options += len(f.Options)
	switch {
	case len(f.Options) == 0:
		return errors.New("has no options")
	case p.options > maxOptions:
		return fmt.Errorf("brings the form to more than %d options", maxOptions)
	}
	seen := make(map[string]bool, len(f.Options))
	for _, o := range f.Options {
		if seen[o.Value] {
			return fmt.Errorf("has the option %q twice", clip.Name(o.Value))
		}
		seen[o.Value] = true
	}
	return nil
}

func (p *parser) text(f *Field, list []jsonx.Member) (err error) {
	f.Kind = String
	if err := only(list, "type", "default", "format", "minLength", "maxLength", "pattern"); err != nil {
		return err
	}
	if f.MinLength, f.MaxLength, err = counts(list, "minLength", "maxLength"); err != nil {
		return err
	}
	ok := true
	if raw := find(list, "format"); raw != nil {
		if f.Format, ok = jsonx.Text(raw); !ok || formats[f.Format] == nil {
			return fmt.Errorf("has the format %s; forms have email, uri, date and date-time", clip.Name(string(raw)))
		}
	}
	if raw := find(list, "pattern"); raw != nil {
		if f.Pattern, ok = jsonx.Text(raw); !ok {
			return errors.New("has a pattern that is not a string")
		}
		if p.patterns++; p.patterns > maxPatterns {
			return fmt.Errorf("brings the form to more than %d patterns", maxPatterns)
		}
	}
	return nil
}

func (f *Field) readNumber(list []jsonx.Member) error {
	if err := only(list, "type", "default", "minimum", "maximum"); err != nil {
		return err
	}
	for _, b := range []struct {
		name string
		to   *string
	}{{"minimum", &f.Min}, {"maximum", &f.Max}} {
		raw := find(list, b.name)
		if raw == nil {
			continue
		}
		if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
			return fmt.Errorf("has a %s that is not a number", b.name)
		}
		*b.to = string(raw)
	}
	return nil
}

// compile makes the checks of a field from what has been read of it: nothing else
// of the peer's schema gets to the validator.
func (f *Field) compile() error {
	s := map[string]any{"type": f.Kind.jsonType()}
	switch f.Kind {
	case String:
		s["minLength"] = f.MinLength
		if f.MaxLength >= 0 {
			s["maxLength"] = f.MaxLength
		}
		if f.Pattern != "" {
			s["pattern"] = f.Pattern
		}
	case Number, Integer:
		if f.Min != "" {
			s["minimum"] = jsonx.Value(f.Min)
		}
		if f.Max != "" {
			s["maximum"] = jsonx.Value(f.Max)
		}
	case Choice:
		s["enum"] = f.values()
	case Choices:
		s["items"] = map[string]any{"type": "string", "enum": f.values()}
		s["minItems"] = f.MinItems
		if f.MaxItems >= 0 {
			s["maxItems"] = f.MaxItems
		}
	}
	raw, err := jsonx.Marshal(s)
	if err != nil {
		return fmt.Errorf("cannot be checked: %w", err)
	}
	if f.schema, err = schema.Compile(raw, &schema.Options{MaxProblems: 3, Lenient: true}); err != nil {
		var e *schema.Error
		if errors.As(err, &e) {
			return fmt.Errorf("cannot be checked: %s", e.Reason)
		}
		return err
	}
	if f.Min != "" && f.schema.Validate([]byte(f.Min)) != nil && f.Kind == Number {
		return errors.New("cannot be filled in: minimum is more than maximum")
	}
	return nil
}

// readDefault refuses a default of another type. One of the right type that the
// field's own bounds do not allow, such as "" for an address, is no default: it
// could not be sent.
func (f *Field) readDefault(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	ok := false
	switch f.Kind {
	case String, Choice:
		_, ok = jsonx.Text(raw)
	case Number, Integer:
		ok = raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
	case Boolean:
		ok = raw[0] == 't' || raw[0] == 'f'
	case Choices:
		_, ok = texts(raw)
	}
	if !ok {
		return fmt.Errorf("has a default that is not of the type %s", f.Kind.jsonType())
	}
	if f.Check(raw) == nil {
		f.Default = slices.Clone(raw)
	}
	return nil
}

// Parse reads the schema of a form as revision v has it; the options with a title
// of their own and the choice of several came with 2025-11-25. Every error is a
// [*SchemaError].
func Parse(schema json.RawMessage, v mcp.Version) (*Form, error) {
	if !v.Has(mcp.FeatureElicitation) {
		return nil, &SchemaError{Reason: fmt.Sprintf("revision %q has none", string(v))}
	}
	if len(schema) > maxSchema {
		return nil, &SchemaError{Reason: fmt.Sprintf("its schema is longer than %d bytes", maxSchema)}
	}
	if !jsonx.Valid(schema) {
		return nil, &SchemaError{Reason: "its schema is not valid JSON"}
	}
	p := parser{version: v}
	f, err := p.form(schema)
	if err != nil {
		return nil, err
	}
	return f, nil
}
