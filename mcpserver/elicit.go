package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// Elicit asks a person to fill in a form with the fields of T, a struct of strings,
// numbers and booleans; the tags json and jsonschema give names and descriptions, and
// what is omitempty, omitzero or a pointer may be left out. The error is [ErrDeclined], [ErrDismissed], or one of [Request.Ask].
//
//	who, err := mcpserver.Elicit[Name](ctx, req, "name", "What is your name?")
//
// Forms must not ask for secrets: a field that looks like one is an error. Use
// [Request.ElicitURL].
func Elicit[T any](ctx context.Context, req Requester, key, message string) (T, error) {
	var answer T
	q := req.asking()
	raw, err := formSchema(reflect.TypeFor[T]())
	if err != nil {
		return answer, fmt.Errorf("asking the client %q: %w", key, err)
	}
	one := FormQuestion(key, &mcp.ElicitParams{Message: message, RequestedSchema: raw})
	if err := q.ask(ctx, one); err != nil {
		return answer, err
	}
	content, err := jsonx.Marshal(one.Elicited.Content)
	if err == nil {
		err = jsonx.Unmarshal(content, &answer)
	}
	if err != nil {
		return answer, &AnswerError{Key: key, Err: err}
	}
	return answer, nil
}

// formSchema infers the schema of a form. What JSON may leave null in a struct is left
// out of a form.
func formSchema(t reflect.Type) (json.RawMessage, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("a form is a struct, not %s", t)
	}
	raw, err := schema.For(t)
	if err != nil {
		return nil, err
	}
	var root struct {
		Type       string                            `json:"type"`
		Properties jsonx.Value                       `json:"properties,omitzero"`
		Required   []string                          `json:"required,omitempty"`
		Rest       map[string]jsonx.Value            `json:",inline,embed"`
		fields     map[string]map[string]jsonx.Value `json:"-"`
	}
	if err := jsonx.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", t, err)
	}
	if root.Properties == nil {
		root.Properties = jsonx.Value("{}")
	}
	if err := jsonx.Unmarshal(root.Properties, &root.fields); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", t, err)
	}
	for _, field := range root.fields {
		plainType(field)
	}
	ordered, err := inOrder(root.Properties, root.fields)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"type": "object", "properties": ordered}
	if len(root.Required) > 0 {
		out["required"] = root.Required
	}
	return jsonx.Marshal(out)
}

// plainType makes ["null","string"] a plain "string", and takes away bounds that only
// say what a Go number can hold.
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

// inOrder encodes the fields in the order in which they stand in raw: a form is shown
// in the order of its text.
func inOrder(raw jsonx.Value, fields map[string]map[string]jsonx.Value) (jsonx.Value, error) {
	out := []byte{'{'}
	for _, name := range names(raw) {
		one, err := jsonx.Marshal(fields[name])
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsonx.AppendQuote(out, name), ':')
		out = append(out, one...)
	}
	return append(out, '}'), nil
}

// names returns the names of an object's members, in their order.
func names(object []byte) []string {
	var all []string
	dec := json.NewDecoder(strings.NewReader(string(object)))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return all
		}
		text, _ := name.(string)
		all = append(all, text)
	}
	return all
}

// ElicitForm asks a person to fill in a form whose schema is p's, verbatim. A
// refusal is a result: see its Action. The content of an accepted form fits the schema:
// no field is missing that is required, none is there that was not
// asked for, and none was filled in by us.
func (q *Request) ElicitForm(ctx context.Context, key string, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	one := FormQuestion(key, p)
	err := q.ask(ctx, one)
	if one.Elicited != nil && (errors.Is(err, ErrDeclined) || errors.Is(err, ErrDismissed)) {
		return one.Elicited, nil
	}
	return one.Elicited, err
}

// errSecret refuses a form that asks for a secret (ELIC-11, SECA-31).
var errSecret = errors.New("forms must not ask for passwords, keys or payment data; use ElicitURL")

// prepareForm checks the form and returns its params.
func (q *Question) prepareForm(known *forms, v mcp.Version) (any, error) {
	if q.form.IsURL() || q.form.URL != "" {
		return nil, errors.New("it is a URL, not a form")
	}
	d := *q.form
	d.Mode, d.Task = mcp.ElicitForm, nil
	if err := d.Validate(); err != nil {
		return nil, err
	}
	// A client that cannot show the form is told apart from one that can: by its
	// capabilities, later.
	parse := v
	if !v.Has(mcp.FeatureElicitation) {
		parse = mcp.Latest
	}
	f, err := known.parse(d.RequestedSchema, parse)
	if err != nil {
		return nil, err
	}
	if !q.relayed {
		if err := refuseSecrets(f); err != nil {
			return nil, err
		}
	}
	q.fields = f
	p, err := d.For(parse)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// elicited takes the answer to a form or a URL question.
func (q *Question) elicited(raw json.RawMessage) error {
	r := new(mcp.ElicitResult)
	if err := mcp.Unmarshal(raw, r); err != nil {
		return err
	}
	switch r.Action {
	case mcp.ActionDecline:
		q.Err = ErrDeclined
	case mcp.ActionCancel:
		q.Err = ErrDismissed
	default:
		if q.fields != nil {
			if err := checkContent(q.fields, r.Content); err != nil {
				return err
			}
			q.dropForeign(r.Content)
		}
	}
	q.Elicited = r
	return nil
}

// checkContent holds an accepted form against what was asked for. Defaults are the
// client's to fill in: what is not there was not given.
func checkContent(f *form.Form, content map[string]json.RawMessage) error {
	var problems []form.Problem
	for i := range f.Fields {
		field := &f.Fields[i]
		value, there := content[field.Name]
		switch {
		case there:
			if err := field.Check(value); err != nil {
				problems = append(problems, form.Problem{Field: field.Name, Message: err.Error()})
			}
		case field.Required:
			problems = append(problems, form.Problem{Field: field.Name, Message: "is required"})
		}
	}
	if len(problems) > 0 {
		return &form.ContentError{Problems: problems}
	}
	return nil
}

// dropForeign takes from an answer what the form does not ask for: the schema allows
// it, and the handler must not see it (SECA-32).
func (q *Question) dropForeign(content map[string]json.RawMessage) {
	extra := q.fields.Foreign(content)
	for _, name := range extra {
		delete(content, name)
	}
	if len(extra) > 0 {
		q.log.Debug("an answer has fields that the form does not have; they are dropped", "key", q.key, "fields", len(extra), "first", shorten(extra[0]))
	}
}
