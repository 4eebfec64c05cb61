package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Modes of elicitation. Absent means form.
const (
	ElicitForm = "form"
	ElicitURL  = "url" // 2025-11-25 on
)

// Actions of an elicitation result. A refusal is a result, not an error.
const (
	ActionAccept  = "accept"
	ActionDecline = "decline" // an explicit no
	ActionCancel  = "cancel"  // dismissed without a choice
)

// ElicitParams are the params of elicitation/create, of both modes.
type ElicitParams struct {
	Mode            string          `json:"mode,omitzero"`            // "" means form
	Message         string          `json:"message"`                  // why, for the user
	RequestedSchema json.RawMessage `json:"requestedSchema,omitzero"` // form: a flat object schema
	URL             string          `json:"url,omitzero"`             // url mode
	ElicitationID   string          `json:"elicitationId,omitzero"`   // url mode, 2025-11-25
	Task            *TaskOptions    `json:"task,omitzero"`            // 2025-11-25
	Meta            Meta            `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// IsURL reports whether the mode is url.
func (p *ElicitParams) IsURL() bool { return p.Mode == ElicitURL }

// Validate checks that the mode is known and has what it needs. It does not
// judge the URL or the form's properties.
func (p *ElicitParams) Validate() error {
	switch p.Mode {
	case "", ElicitForm:
		return required("form elicitation", "requestedSchema", firstByte(p.RequestedSchema) == '{')
	case ElicitURL:
		return required("URL elicitation", "url", p.URL != "")
	}
	return fmt.Errorf("%s: unknown mode %q", MethodElicit, p.Mode)
}

// For returns p as revision v may carry it: the mode is written only where it
// exists, and an elicitation id only in 2025-11-25. An error, -32602, says that
// v has no such elicitation.
func (p *ElicitParams) For(v Version) (*ElicitParams, error) {
	d := *p // inlined: where the copy does not outlive the caller it takes no memory
	return d.limitTo(v)
}

// limitTo changes p into p.For(v).
func (p *ElicitParams) limitTo(v Version) (*ElicitParams, error) {
	if !v.Has(FeatureElicitation) || p.IsURL() && !v.Has(FeatureURLElicitation) {
		return nil, Errorf(CodeInvalidParams, "revision %s has no such elicitation", v)
	}
	if !v.Has(FeatureURLElicitation) {
		p.Mode = ""
	}
	if !v.Has(FeatureElicitationIDs) {
		p.ElicitationID = ""
	}
	if !v.Has(FeatureCoreTasks) {
		p.Task = nil
	}
	return p, nil
}

// AppendJSON appends what MarshalJSON returns. On an error it returns dst unchanged. How deep the
// schema nests it does not bound.
func (p *ElicitParams) AppendJSON(dst []byte) ([]byte, error) {
	if p.Task == nil && p.Meta == nil && len(p.Extra) == 0 {
		a := jsonx.Appender{Buf: append(dst, '{')}
		a.SomeText("mode", p.Mode)
		a.Text("message", p.Message)
		a.SomeValue("requestedSchema", p.RequestedSchema)
		a.SomeText("url", p.URL)
		a.SomeText("elicitationId", p.ElicitationID)
		a.Close('}')
		if !a.Bad {
			return a.Buf, nil
		}
	}
	raw, err := p.MarshalJSON()
	if err != nil {
		return dst, err
	}
	return append(dst, raw...), nil
}

// ElicitResult answers elicitation/create.
type ElicitResult struct {
	Action  string                     `json:"action"`
	Content map[string]json.RawMessage `json:"content,omitzero"` // form values; nil when absent
	Meta    Meta                       `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// DecodeElicitResult reads the answer to elicitation/create as [Unmarshal] does, and several
// times quicker where it has no members beside action and content.
func DecodeElicitResult(raw []byte) (*ElicitResult, error) {
	if r := decodePlainAnswer(raw); r != nil {
		return r, nil
	}
	r := new(ElicitResult)
	if err := Unmarshal(raw, r); err != nil {
		return nil, err
	}
	return r, nil
}

// decodePlainAnswer returns nil for an answer with other members, and for one with a fault.
func decodePlainAnswer(raw []byte) *ElicitResult {
	w := workspaces.Get().(*workspace)
	defer w.release()
	s := &w.scanner
	s.data = raw
	r := new(ElicitResult)
	s.space()
	if !s.at('{') || !s.members(plainObject, func(name []byte) bool { return s.answerMember(name, r) }) || !s.end() || r.Validate() != nil {
		return nil
	}
	return r
}

// answerMember walks the value of one member of an answer.
func (s *scanner) answerMember(name []byte, r *ElicitResult) bool {
	switch string(name) {
	case "action":
		text, ok := s.text()
		r.Action = internAction(text)
		return ok
	case "content":
		if !s.at('{') {
			return false
		}
		r.Content = make(map[string]json.RawMessage)
		own := bytes.Clone(s.data) // one copy for all values
		return s.members(plainObject, func(name []byte) bool {
			start := s.pos
			ok := s.value(plainObject)
			r.Content[string(name)] = own[start:s.pos:s.pos]
			return ok
		})
	}
	return false
}

func internAction(text []byte) string {
	for _, action := range [...]string{ActionAccept, ActionDecline, ActionCancel} {
		if string(text) == action {
			return action
		}
	}
	return string(text)
}

// Validate checks that the action is one of the three and that the values are
// strings, numbers, booleans or arrays of strings.
func (r *ElicitResult) Validate() error {
	switch r.Action {
	case ActionAccept, ActionDecline, ActionCancel:
	default:
		return fmt.Errorf("elicitation result: unknown action %q", r.Action)
	}
	for name, raw := range r.Content {
		if !isFormValue(raw) {
			return fmt.Errorf("elicitation result: %q is not a form value", name)
		}
	}
	return nil
}

func isFormValue(raw json.RawMessage) bool {
	switch firstByte(raw) {
	case 0, '{', 'n':
		return false
	case '[':
		strings := true
		err := eachElement(raw, func(element []byte) error {
			strings = strings && firstByte(element) == '"'
			return nil
		})
		return err == nil && strings
	}
	return true
}

// ElicitationCompleteParams are the params of
// notifications/elicitation/complete; 2025-11-25.
type ElicitationCompleteParams struct {
	ElicitationID string `json:"elicitationId"`
	Meta          Meta   `json:"_meta,omitzero"`
}

// Validate checks that there is an id.
func (p *ElicitationCompleteParams) Validate() error {
	return required(NotificationElicitationComplete, "elicitationId", p.ElicitationID != "")
}
