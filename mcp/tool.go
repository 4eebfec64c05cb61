package mcp

import (
	"encoding/json"
	"fmt"
	"time"
)

// Tool describes a tool.
type Tool struct {
	Name         string           `json:"name"`
	Title        string           `json:"title,omitzero"`
	Description  string           `json:"description,omitzero"`
	InputSchema  json.RawMessage  `json:"inputSchema"`           // root type object; kept as it came
	OutputSchema json.RawMessage  `json:"outputSchema,omitzero"` // 2025-06-18 on; nil when absent
	Annotations  *ToolAnnotations `json:"annotations,omitzero"`
	Icons        []Icon           `json:"icons,omitzero"`
	Execution    *ToolExecution   `json:"execution,omitzero"` // 2025-11-25
	Meta         Meta             `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ToolAnnotations are a server's hints. They are untrusted and never the sole
// ground of consent.
type ToolAnnotations struct {
	Title           string `json:"title,omitzero"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitzero"`
	DestructiveHint *bool  `json:"destructiveHint,omitzero"` // nil means true
	IdempotentHint  bool   `json:"idempotentHint,omitzero"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitzero"` // nil means true

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ReadOnly reports whether the hints say that the tool changes nothing. a may be nil.
func (a *ToolAnnotations) ReadOnly() bool { return a != nil && a.ReadOnlyHint }

// Destructive reports whether the hints allow for destruction, which they do
// unless they say otherwise. a may be nil.
func (a *ToolAnnotations) Destructive() bool {
	return !a.ReadOnly() && (a == nil || a.DestructiveHint == nil || *a.DestructiveHint)
}

// Idempotent reports whether the hints say that repeating a call changes
// nothing more. a may be nil.
func (a *ToolAnnotations) Idempotent() bool { return a.ReadOnly() || a != nil && a.IdempotentHint }

// OpenWorld reports whether the hints allow for contact with the outside,
// which they do unless they say otherwise. a may be nil.
func (a *ToolAnnotations) OpenWorld() bool {
	return a == nil || a.OpenWorldHint == nil || *a.OpenWorldHint
}

// ToolExecution says how a tool may be run; 2025-11-25.
type ToolExecution struct {
	TaskSupport string `json:"taskSupport,omitzero"` // "" means forbidden

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Values of taskSupport.
const (
	TaskForbidden = "forbidden"
	TaskOptional  = "optional"
	TaskRequired  = "required"
)

// Validate checks that a tool has a name and an object as its input schema.
func (t *Tool) Validate() error {
	if err := required("tool", "name", t.Name != ""); err != nil {
		return err
	}
	if err := required(fmt.Sprintf("tool %q", t.Name), "inputSchema", len(t.InputSchema) > 0 && t.InputSchema[0] == '{'); err != nil {
		return err
	}
	return nil
}

// DisplayName returns the title, or else the annotated title, or else the name.
func (t *Tool) DisplayName() string {
	switch {
	case t.Title != "":
		return t.Title
	case t.Annotations != nil && t.Annotations.Title != "":
		return t.Annotations.Title
	}
	return t.Name
}

// ListParams are the params of every paged list.
type ListParams struct {
	// Cursor is nil on the first page. "" is a valid cursor.
	Cursor *string `json:"cursor,omitzero"`
	Meta   Meta    `json:"_meta,omitzero"`
}

// ListToolsResult is one page of tools.
type ListToolsResult struct {
	Tools      []Tool  `json:"tools"`
	NextCursor *string `json:"nextCursor,omitzero"` // nil at the end; "" is a cursor
	Meta       Meta    `json:"_meta,omitzero"`
	ResultType string  `json:"resultType,omitzero"` // set by the encoder
	TTLMs      *int64  `json:"ttlMs,omitzero"`
	CacheScope string  `json:"cacheScope,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that tools is there. It leaves the tools themselves to the
// caller, so that one bad tool does not hide the others.
func (r *ListToolsResult) Validate() error {
	return required("tools/list result", "tools", r.Tools != nil)
}

// TTL returns how long the page is fresh.
func (r *ListToolsResult) TTL() time.Duration { return ttl(r.TTLMs) }

// CallToolParams are the params of tools/call.
type CallToolParams struct {
	Name           string          `json:"name"`
	Arguments      json.RawMessage `json:"arguments,omitzero"` // an object; nil when absent
	Task           *TaskOptions    `json:"task,omitzero"`      // 2025-11-25
	InputResponses InputResponses  `json:"inputResponses,omitzero"`
	RequestState   *string         `json:"requestState,omitzero"`
	Meta           Meta            `json:"_meta,omitzero"`
}

// Validate checks that there is a name and that the arguments are an object.
func (p *CallToolParams) Validate() error {
	if err := required(MethodCallTool, "name", p.Name != ""); err != nil {
		return err
	}
	if len(p.Arguments) > 0 && p.Arguments[0] != '{' {
		return fmt.Errorf("%s: arguments is not an object", MethodCallTool)
	}
	return nil
}

// CallToolResult answers tools/call. [AppendCallToolResult] writes it.
type CallToolResult struct {
	Content           Contents        `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"` // nil when absent, which differs from null
	IsError           bool            `json:"isError,omitzero"`           // the tool ran and failed; the model reads why
	Meta              Meta            `json:"_meta,omitzero"`
	ResultType        string          `json:"resultType,omitzero"` // set by the encoder

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Text returns the text of the result; see [Contents.Text].
func (r *CallToolResult) Text() string { return r.Content.Text() }

// Validate checks that content is there; it may be empty.
func (r *CallToolResult) Validate() error {
	return required("tools/call result", "content", r.Content != nil)
}

// ErrorResult returns a result with isError and a text for the model.
func ErrorResult(format string, args ...any) *CallToolResult {
	return &CallToolResult{Content: Contents{Text(fmt.Sprintf(format, args...))}, IsError: true}
}

// For returns r as revision v may carry it: content blocks it lacks
// become text, and structured content is left out where it has none or must be
// an object and is not.
func (r *CallToolResult) For(v Version) *CallToolResult {
	d := *r
	d.Content = r.Content.For(v)
	if d.Content == nil {
		d.Content = Contents{}
	}
	if !structuredFits(r.StructuredContent, v) {
		d.StructuredContent = nil
	}
	d.ResultType = completeIn(v)
	return &d
}

// structuredFits reports whether v can carry the structured content.
func structuredFits(raw json.RawMessage, v Version) bool {
	return v.Has(FeatureAnyStructuredContent) || v.Has(FeatureStructuredContent) && firstByte(raw) == '{'
}

func firstByte(raw json.RawMessage) byte {
	for _, c := range raw {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// completeIn is the resultType of an ordinary result in revision v.
func completeIn(v Version) string {
	if v.Has(FeatureResultType) {
		return ResultComplete
	}
	return ""
}
