package questions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
)

// FormSchema infers the schema of a form from a struct.
func FormSchema(t reflect.Type) (json.RawMessage, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("a form is a struct, not %s", t)
	}
	raw, err := schema.For(t)
	if err != nil {
		return nil, err
	}
	var root struct {
		Properties jsonx.Value `json:"properties"`
		Required   []string    `json:"required"`
	}
	if err := jsonx.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", t, err)
	}
	fields, err := plainFields(root.Properties)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", t, err)
	}
	out := map[string]any{"type": "object", "properties": fields}
	if len(root.Required) > 0 {
		out["required"] = root.Required
	}
	return jsonx.Marshal(out)
}

// plainFields returns the fields with plain types, in the order in which a form shows them.
func plainFields(properties []byte) (jsonx.Value, error) {
	if len(properties) == 0 {
		return jsonx.Value("{}"), nil
	}
	out := []byte{'{'}
	dec := json.NewDecoder(bytes.NewReader(properties))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var field map[string]jsonx.Value
		if err := dec.Decode(&field); err != nil {
			return nil, err
		}
		plainType(field)
		one, err := jsonx.Marshal(field)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsonx.AppendQuote(out, name.(string)), ':')
		out = append(out, one...)
	}
	return append(out, '}'), nil
}

// plainType makes ["null","string"] a plain "string": a form leaves out what JSON may leave
// null in a struct.
func plainType(field map[string]jsonx.Value) {
	var types []string
	if jsonx.Unmarshal(field["type"], &types) != nil {
		return
	}
	for _, one := range types {
		if one != "null" {
			field["type"] = jsonx.Value(jsonx.AppendQuote(nil, one))
		}
	}
}
