package mcp

import (
	"encoding/json"
	"fmt"
)

// MaxCompletions is how many values one answer may hold.
const MaxCompletions = 100

// Types of completion references.
const (
	RefPrompt   = "ref/prompt"
	RefResource = "ref/resource"
)

// CompleteParams are the params of completion/complete.
type CompleteParams struct {
	Ref      CompletionRef      `json:"ref"`
	Argument CompletionArgument `json:"argument"`
	Context  *CompletionContext `json:"context,omitzero"` // 2025-06-18 on
	Meta     Meta               `json:"_meta,omitzero"`
}

// CompletionRef names a prompt, or a resource by its URI or template.
type CompletionRef struct {
	Type  string `json:"type"`
	Name  string `json:"name,omitzero"`  // of a prompt
	Title string `json:"title,omitzero"` // of a prompt
	URI   string `json:"uri,omitzero"`   // of a resource

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// CompletionArgument is the argument to complete, with what was typed so far.
type CompletionArgument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// CompletionContext holds the arguments chosen before.
type CompletionContext struct {
	Arguments map[string]string `json:"arguments,omitzero"`
}

// Validate checks the reference and the argument's name.
func (p *CompleteParams) Validate() error {
	switch p.Ref.Type {
	case RefPrompt:
		if err := required(RefPrompt, "name", p.Ref.Name != ""); err != nil {
			return err
		}
	case RefResource:
		if err := required(RefResource, "uri", p.Ref.URI != ""); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s: unknown reference type %q", MethodComplete, p.Ref.Type)
	}
	return required(MethodComplete, "argument name", p.Argument.Name != "")
}

// CompleteResult answers completion/complete.
type CompleteResult struct {
	Completion Completion `json:"completion"`
	Meta       Meta       `json:"_meta,omitzero"`
	ResultType string     `json:"resultType,omitzero"` // set by the encoder

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Completion holds the values, best first.
type Completion struct {
	Values  []string `json:"values"`
	Total   *int64   `json:"total,omitzero"`
	HasMore bool     `json:"hasMore,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that values is there and not too long.
func (r *CompleteResult) Validate() error {
	if n := len(r.Completion.Values); n > MaxCompletions {
		return fmt.Errorf("%s result: %d values, at most %d are allowed", MethodComplete, n, MaxCompletions)
	}
	return required("completion/complete result", "values", r.Completion.Values != nil)
}
