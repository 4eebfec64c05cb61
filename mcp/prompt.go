package mcp

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Prompt describes a prompt.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	Arguments   []PromptArgument `json:"arguments,omitzero"`
	Icons       []Icon           `json:"icons,omitzero"`
	Meta        Meta             `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that a prompt and its arguments have names.
func (p *Prompt) Validate() error {
	if err := required("prompt", "name", p.Name != ""); err != nil {
		return err
	}
	for _, a := range p.Arguments {
		if err := required(fmt.Sprintf("argument of prompt %q", p.Name), "name", a.Name != ""); err != nil {
			return err
		}
	}
	return nil
}

// PromptArgument is an argument of a prompt. Its values are strings.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ListPromptsResult is one page of prompts.
type ListPromptsResult struct {
	Prompts    []Prompt `json:"prompts"`
	NextCursor *string  `json:"nextCursor,omitzero"` // nil at the end; "" is a cursor
	Meta       Meta     `json:"_meta,omitzero"`
	ResultType string   `json:"resultType,omitzero"` // set by the encoder
	TTLMs      *int64   `json:"ttlMs,omitzero"`
	CacheScope string   `json:"cacheScope,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that prompts is there, not each of them.
func (r *ListPromptsResult) Validate() error {
	return required("prompts/list result", "prompts", r.Prompts != nil)
}

// TTL returns how long the page is fresh.
func (r *ListPromptsResult) TTL() time.Duration { return ttl(r.TTLMs) }

// GetPromptParams are the params of prompts/get.
type GetPromptParams struct {
	Name           string            `json:"name"`
	Arguments      map[string]string `json:"arguments,omitzero"` // strings only
	InputResponses InputResponses    `json:"inputResponses,omitzero"`
	RequestState   *string           `json:"requestState,omitzero"`
	Meta           Meta              `json:"_meta,omitzero"`
}

// Validate checks that there is a name.
func (p *GetPromptParams) Validate() error { return required(MethodGetPrompt, "name", p.Name != "") }

// GetPromptResult answers prompts/get.
type GetPromptResult struct {
	Description string          `json:"description,omitzero"`
	Messages    []PromptMessage `json:"messages"`
	Meta        Meta            `json:"_meta,omitzero"`
	ResultType  string          `json:"resultType,omitzero"` // set by the encoder

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that messages is there.
func (r *GetPromptResult) Validate() error {
	return required("prompts/get result", "messages", r.Messages != nil)
}

// PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    Role    `json:"role"`
	Content Content `json:"content"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// UnmarshalJSON reads a message; a role and one content block must be there.
func (m *PromptMessage) UnmarshalJSON(raw []byte) error {
	if err := needMembers(raw, "prompt message", "role", "content"); err != nil {
		return err
	}
	var w struct {
		Role    Role                       `json:"role"`
		Content json.RawMessage            `json:"content"`
		Extra   map[string]json.RawMessage `json:",inline,embed"`
	}
	if err := jsonx.Unmarshal(raw, &w); err != nil {
		return fmt.Errorf("reading a prompt message: %w", err)
	}
	if !w.Role.Valid() {
		return fmt.Errorf("reading a prompt message: unknown role %q", w.Role)
	}
	content, err := DecodeContent(w.Content)
	if err != nil {
		return fmt.Errorf("reading a prompt message: %w", err)
	}
	*m = PromptMessage{Role: w.Role, Content: content, Extra: w.Extra}
	return nil
}
