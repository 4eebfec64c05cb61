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
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// Forms are those that a server has asked before: handlers ask the same few again and again.
type Forms struct {
	Log   *slog.Logger
	known atomic.Pointer[map[formKey]*knownForm] // nil before the first; a new map takes its place
}

// knownForm is a form and its schema in the shortest form of JSON. Several questions share it, and it does not change.
type knownForm struct {
	*form.Form
	schema json.RawMessage
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

// parse reads a form.
func (k *Forms) parse(schema json.RawMessage, v mcp.Version) (*knownForm, error) {
	var known map[formKey]*knownForm
	if all := k.known.Load(); all != nil {
		known = *all
	}
	if f := known[formKey{string(schema), v}]; f != nil {
		return f, nil
	}
	parsed, err := form.Parse(schema, v)
	if err != nil {
		return nil, err
	}
	short := jsonx.Appender{}
	if short.Raw(schema); short.Bad {
		return nil, errors.New("the schema is not valid JSON")
	}
	f := &knownForm{parsed, short.Buf}
	if len(schema) > maxKnownForm {
		return f, nil
	}
	next := map[formKey]*knownForm{{string(schema), v}: f}
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
		if err := refuseSecrets(f.Form); err != nil {
			return err
		}
	}
	q.fields = f.Form
	p, err := d.For(parse)
	if err != nil {
		return err
	}
	q.Params, err = f.encode(p)
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	return nil
}

// encode encodes the params of the form without a look at the schema, where p has nothing else.
func (f *knownForm) encode(p *mcp.ElicitParams) ([]byte, error) {
	room := len(p.Message) + len(f.schema) + 64 // of the names, and for some escapes
	if p.Task == nil && p.Meta == nil && len(p.Extra) == 0 && p.ElicitationID == "" {
		a := jsonx.Appender{Buf: append(make([]byte, 0, room), '{')}
		a.SomeText("mode", p.Mode)
		a.Text("message", p.Message)
		a.Name("requestedSchema")
		a.Encoded(f.schema)
		a.Close('}')
		if !a.Bad {
			return a.Buf, nil
		}
	}
	return p.AppendJSON(make([]byte, 0, room))
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
