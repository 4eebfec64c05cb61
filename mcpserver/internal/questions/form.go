package questions

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/mcp"
)

// Forms are those that a server has asked before: handlers ask the same few again and again.
type Forms struct {
	Log   *slog.Logger
	known atomic.Pointer[map[formKey]*form.Form] // nil before the first; a new map takes its place
}

type formKey struct {
	schema  string
	version mcp.Version
}

// Bounds of the forms that are kept.
const (
	maxKnownForms = 64
	maxKnownForm  = 16 << 10 // bytes of a schema
)

// parse reads a form. Several questions share it, and it does not change.
func (k *Forms) parse(schema json.RawMessage, v mcp.Version) (*form.Form, error) {
	var known map[formKey]*form.Form
	if all := k.known.Load(); all != nil {
		known = *all
	}
	if f := known[formKey{string(schema), v}]; f != nil {
		return f, nil
	}
	f, err := form.Parse(schema, v)
	if err != nil || len(schema) > maxKnownForm {
		return f, err
	}
	next := map[formKey]*form.Form{{string(schema), v}: f}
	if len(known) < maxKnownForms { // else those in use come back
		maps.Copy(next, known)
	}
	k.known.Store(&next) // a form that another goroutine adds at the same time is parsed again
	return f, nil
}

// errSecret refuses a form that asks for a secret (ELIC-11, SECA-31).
var errSecret = errors.New("forms must not ask for passwords, keys or payment data; use ElicitURL")

// refuseSecrets refuses a form that asks for a secret (ELIC-11).
func refuseSecrets(f *form.Form) error {
	for _, field := range f.Fields {
		if field.Secret {
			return fmt.Errorf("the field %q: %w", field.Name, errSecret)
		}
	}
	return nil
}

// prepareForm checks the form and encodes its params.
func (q *Question) prepareForm(known *Forms, v mcp.Version) error {
	if q.Form.IsURL() || q.Form.URL != "" {
		return errors.New("it is a URL, not a form")
	}
	d := *q.Form
	d.Mode, d.Task = mcp.ElicitForm, nil
	if err := d.Validate(); err != nil {
		return err
	}
	// Missing refuses a client that cannot show the form, later.
	parse := v
	if !v.Has(mcp.FeatureElicitation) {
		parse = mcp.Latest
	}
	f, err := known.parse(d.RequestedSchema, parse)
	if err != nil {
		return err
	}
	if !q.Relayed {
		if err := refuseSecrets(f); err != nil {
			return err
		}
	}
	q.fields = f
	p, err := d.For(parse)
	if err != nil {
		return err
	}
	room := len(p.Message) + len(p.RequestedSchema) + 64 // of the names, and for some escapes
	if q.Params, err = p.AppendJSON(make([]byte, 0, room)); err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	return nil
}

// elicited takes the answer to a form or a URL question.
func (q *Question) elicited(raw json.RawMessage) error {
	r, err := mcp.DecodeElicitResult(raw)
	if err != nil {
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

// checkContent holds an accepted form against what was asked for. The client
// fills in defaults: a missing field was not given.
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
		q.log.Debug("an answer has fields that the form does not have; they are dropped", "key", q.Key, "fields", len(extra), "first", clip.Name(extra[0]))
	}
}
