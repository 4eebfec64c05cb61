package mcp

import (
	"encoding/json"
	"strings"
)

// Content is one block of content. Its dynamic type is one of *[TextContent],
// *[ImageContent], *[AudioContent], *[ResourceLink], *[EmbeddedResource],
// *[ToolUseContent], *[ToolResultContent] and *[UnknownContent].
type Content interface {
	// ContentType returns the type member of the block, such as "text".
	ContentType() string
}

// Annotations tell for whom content is and how much it matters.
type Annotations struct {
	Audience     []Role   `json:"audience,omitzero"`
	Priority     *float64 `json:"priority,omitzero"`     // 0 to 1; nil when absent
	LastModified string   `json:"lastModified,omitzero"` // ISO 8601; 2025-06-18 on

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Role is the author of a message.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Valid reports whether r is one of the two roles.
func (r Role) Valid() bool { return r == RoleUser || r == RoleAssistant }

// TextContent is text.
type TextContent struct {
	Text        string       `json:"text"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ImageContent is a picture.
type ImageContent struct {
	Data        []byte       `json:"data"` // decoded; base64 on the wire
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// AudioContent is sound; 2025-03-26 on.
type AudioContent struct {
	Data        []byte       `json:"data"` // decoded; base64 on the wire
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ResourceLink points to a resource, which need not be listed; 2025-06-18 on.
type ResourceLink struct {
	URI         string       `json:"uri"`
	Name        string       `json:"name"`
	Title       string       `json:"title,omitzero"`
	Description string       `json:"description,omitzero"`
	MIMEType    string       `json:"mimeType,omitzero"`
	Size        *int64       `json:"size,omitzero"` // bytes
	Annotations *Annotations `json:"annotations,omitzero"`
	Icons       []Icon       `json:"icons,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// EmbeddedResource is a resource with its contents.
type EmbeddedResource struct {
	Resource    ResourceContents `json:"resource"`
	Annotations *Annotations     `json:"annotations,omitzero"`
	Meta        Meta             `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ToolUseContent is a model's wish to call a tool; in sampling messages only,
// 2025-11-25 on.
type ToolUseContent struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"` // an object; nil is written as {}
	Meta  Meta            `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ToolResultContent answers a [ToolUseContent]; in sampling messages only,
// 2025-11-25 on.
type ToolResultContent struct {
	ToolUseID         string          `json:"toolUseId"`
	Content           Contents        `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"` // nil when absent
	IsError           bool            `json:"isError,omitzero"`
	Meta              Meta            `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// UnknownContent is a block of a type we do not know. It is kept and written
// again as it came.
type UnknownContent struct {
	Type string
	Raw  json.RawMessage // the whole block
}

// Types of content blocks.
const (
	TypeText         = "text"
	TypeImage        = "image"
	TypeAudio        = "audio"
	TypeResource     = "resource"
	TypeResourceLink = "resource_link"
	TypeToolUse      = "tool_use"
	TypeToolResult   = "tool_result"
)

func (*TextContent) ContentType() string       { return TypeText }
func (*ImageContent) ContentType() string      { return TypeImage }
func (*AudioContent) ContentType() string      { return TypeAudio }
func (*ResourceLink) ContentType() string      { return TypeResourceLink }
func (*EmbeddedResource) ContentType() string  { return TypeResource }
func (*ToolUseContent) ContentType() string    { return TypeToolUse }
func (*ToolResultContent) ContentType() string { return TypeToolResult }
func (c *UnknownContent) ContentType() string  { return c.Type }

// Text returns a text block.
func Text(s string) *TextContent { return &TextContent{Text: s} }

// Contents is a list of content blocks. It decodes from an array, and from a
// single block as sampling messages may have it; it encodes as an
// array.
type Contents []Content

// Text returns the text blocks, joined by newlines.
func (cs Contents) Text() string {
	var texts []string
	for _, c := range cs {
		if t, ok := c.(*TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}
