package mcp

import (
	"encoding/json"
	"fmt"
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
	if !v.Has(FeatureElicitation) || p.IsURL() && !v.Has(FeatureURLElicitation) {
		return nil, Errorf(CodeInvalidParams, "revision %s has no such elicitation", v)
	}
	d := *p
	if !v.Has(FeatureURLElicitation) {
		d.Mode = ""
	}
	if !v.Has(FeatureElicitationIDs) {
		d.ElicitationID = ""
	}
	if !v.Has(FeatureCoreTasks) {
		d.Task = nil
	}
	return &d, nil
}

// ElicitResult answers elicitation/create.
type ElicitResult struct {
	Action  string                     `json:"action"`
	Content map[string]json.RawMessage `json:"content,omitzero"` // form values; nil when absent
	Meta    Meta                       `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
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
