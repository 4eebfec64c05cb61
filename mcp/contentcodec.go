package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// typed is a content block on the wire: its fields and the type that tells
// which block it is.
type typed[T any] struct {
	Type string `json:"type"`
	Body T      `json:",inline,embed"`
}

// The blocks without their methods, so that the codec sees plain structs.
type (
	textBody       TextContent
	imageBody      ImageContent
	audioBody      AudioContent
	linkBody       ResourceLink
	embeddedBody   EmbeddedResource
	toolUseBody    ToolUseContent
	toolResultBody ToolResultContent
)

func marshalTyped[T any](typ string, body T) ([]byte, error) {
	return jsonx.Marshal(typed[T]{typ, body})
}

// unmarshalTyped decodes a block of the given type and checks that the members
// named are there.
func unmarshalTyped[T any](raw []byte, typ string, body *T, needs ...string) error {
	if err := needMembers(raw, typ+" content", needs...); err != nil {
		return err
	}
	var t typed[T]
	if err := jsonx.Unmarshal(raw, &t); err != nil {
		return fmt.Errorf("reading %s content: %w", typ, err)
	}
	if t.Type != typ {
		return fmt.Errorf("reading %s content: the type is %q", typ, t.Type)
	}
	*body = t.Body
	return nil
}

// MarshalJSON writes the block with its type.
func (c *TextContent) MarshalJSON() ([]byte, error) { return marshalTyped(TypeText, textBody(*c)) }

// UnmarshalJSON reads the block; text must be there.
func (c *TextContent) UnmarshalJSON(raw []byte) error {
	return unmarshalTyped(raw, TypeText, (*textBody)(c), "text")
}

// MarshalJSON writes the block with its type.
func (c *ImageContent) MarshalJSON() ([]byte, error) { return marshalTyped(TypeImage, imageBody(*c)) }

// UnmarshalJSON reads the block; data and mimeType must be there.
func (c *ImageContent) UnmarshalJSON(raw []byte) error {
	return unmarshalTyped(raw, TypeImage, (*imageBody)(c), "data", "mimeType")
}

// MarshalJSON writes the block with its type.
func (c *AudioContent) MarshalJSON() ([]byte, error) { return marshalTyped(TypeAudio, audioBody(*c)) }

// UnmarshalJSON reads the block; data and mimeType must be there.
func (c *AudioContent) UnmarshalJSON(raw []byte) error {
	return unmarshalTyped(raw, TypeAudio, (*audioBody)(c), "data", "mimeType")
}

// MarshalJSON writes the block with its type.
func (c *ResourceLink) MarshalJSON() ([]byte, error) {
	return marshalTyped(TypeResourceLink, linkBody(*c))
}

// UnmarshalJSON reads the block; uri and name must be there.
func (c *ResourceLink) UnmarshalJSON(raw []byte) error {
	return unmarshalTyped(raw, TypeResourceLink, (*linkBody)(c), "uri", "name")
}

// MarshalJSON writes the block with its type.
func (c *EmbeddedResource) MarshalJSON() ([]byte, error) {
	return marshalTyped(TypeResource, embeddedBody(*c))
}

// UnmarshalJSON reads the block; resource must be there.
func (c *EmbeddedResource) UnmarshalJSON(raw []byte) error {
	return unmarshalTyped(raw, TypeResource, (*embeddedBody)(c), "resource")
}

// MarshalJSON writes the block with its type. Nil input is written as {}.
func (c *ToolUseContent) MarshalJSON() ([]byte, error) {
	body := toolUseBody(*c)
	if body.Input == nil {
		body.Input = json.RawMessage("{}")
	}
	return marshalTyped(TypeToolUse, body)
}

// UnmarshalJSON reads the block; id, name and an object as input must be there.
func (c *ToolUseContent) UnmarshalJSON(raw []byte) error {
	err := unmarshalTyped(raw, TypeToolUse, (*toolUseBody)(c), "id", "name", "input")
	if err == nil && c.Input[0] != '{' {
		return errors.New("reading tool_use content: input is not an object")
	}
	return err
}

// MarshalJSON writes the block with its type.
func (c *ToolResultContent) MarshalJSON() ([]byte, error) {
	return marshalTyped(TypeToolResult, toolResultBody(*c))
}

// UnmarshalJSON reads the block; toolUseId and content must be there. Tool
// blocks inside of its content have no defined meaning and stay raw, so that
// decoding does not recurse as deep as a peer likes.
func (c *ToolResultContent) UnmarshalJSON(raw []byte) error {
	var wire toolResultWire
	if err := unmarshalTyped(raw, TypeToolResult, &wire, "toolUseId", "content"); err != nil {
		return err
	}
	content, err := decodeContents(wire.Content, true)
	if err != nil {
		return fmt.Errorf("reading tool_result content: %w", err)
	}
	*c = ToolResultContent{
		ToolUseID: wire.ToolUseID, Content: content, StructuredContent: wire.StructuredContent,
		IsError: wire.IsError, Meta: wire.Meta, Extra: wire.Extra,
	}
	return nil
}

// toolResultWire is a ToolResultContent with its content still raw.
type toolResultWire struct {
	ToolUseID         string                     `json:"toolUseId"`
	Content           json.RawMessage            `json:"content"`
	StructuredContent json.RawMessage            `json:"structuredContent,omitzero"`
	IsError           bool                       `json:"isError,omitzero"`
	Meta              Meta                       `json:"_meta,omitzero"`
	Extra             map[string]json.RawMessage `json:",inline,embed"`
}

// MarshalJSON writes the block as it came.
func (c *UnknownContent) MarshalJSON() ([]byte, error) {
	if c.Raw == nil {
		return jsonx.Marshal(typed[struct{}]{Type: c.Type})
	}
	return c.Raw, nil
}

// UnmarshalJSON keeps the block.
func (c *UnknownContent) UnmarshalJSON(raw []byte) error {
	typ, err := contentType(raw)
	if err != nil {
		return err
	}
	c.Type, c.Raw = typ, bytes.Clone(raw)
	return nil
}

// MarshalJSON writes an array.
func (cs Contents) MarshalJSON() ([]byte, error) { return cs.AppendJSON(nil) }

// AppendJSON appends what MarshalJSON returns. On an error it returns dst unchanged. How deep raw
// parts nest it does not bound.
func (cs Contents) AppendJSON(dst []byte) ([]byte, error) {
	a := jsonx.Appender{Buf: append(dst, '[')}
	for _, c := range cs {
		if err := appendContent(&a, c); err != nil {
			return dst, err
		}
	}
	return append(a.Buf, ']'), nil
}

// appendContent appends a block as an element of an array: quickly where it is of a kind that
// conversations are made of, and has no more than its own members.
func appendContent(a *jsonx.Appender, c Content) error {
	start := len(a.Buf)
	if appendPlain(a, c) && !a.Bad {
		return nil
	}
	a.Buf, a.Bad = a.Buf[:start], false
	raw, err := marshalContent(c)
	a.Encoded(raw)
	return err
}

// appendPlain appends a block, and reports whether it is one that it knows.
func appendPlain(a *jsonx.Appender, c Content) bool {
	switch c := c.(type) {
	case *TextContent:
		if c == nil || c.Annotations != nil || c.Meta != nil || len(c.Extra) > 0 {
			return false
		}
		beginBlock(a, TypeText)
		a.Text("text", c.Text)
	case *ToolUseContent:
		if c == nil || c.Meta != nil || len(c.Extra) > 0 {
			return false
		}
		beginBlock(a, TypeToolUse)
		a.Text("id", c.ID)
		a.Text("name", c.Name)
		if c.Input == nil {
			a.Value("input", []byte("{}"))
		} else {
			a.Value("input", c.Input)
		}
	case *ToolResultContent:
		if c == nil || c.Meta != nil || len(c.Extra) > 0 {
			return false
		}
		beginBlock(a, TypeToolResult)
		a.Text("toolUseId", c.ToolUseID)
		a.Name("content")
		a.Open('[')
		for _, inner := range c.Content {
			if !appendPlain(a, inner) {
				return false
			}
		}
		a.Close(']')
		a.SomeValue("structuredContent", c.StructuredContent)
		a.SomeBool("isError", c.IsError)
	default:
		return false
	}
	a.Close('}')
	return true
}

func beginBlock(a *jsonx.Appender, typ string) {
	a.Open('{')
	a.Text("type", typ)
}

func marshalContent(c Content) ([]byte, error) {
	if c == nil {
		return nil, errors.New("writing content: a nil block")
	}
	raw, err := jsonx.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing %s content: %w", c.ContentType(), err)
	}
	return raw, nil
}

// UnmarshalJSON reads an array, or a single block.
func (cs *Contents) UnmarshalJSON(raw []byte) error {
	list, err := decodeContents(raw, false)
	if err == nil {
		*cs = list
	}
	return err
}

func decodeContents(raw []byte, inToolResult bool) (Contents, error) {
	list := Contents{}
	add := func(element []byte) error {
		c, err := decodeContent(element, inToolResult)
		if err != nil {
			return fmt.Errorf("content block %d: %w", len(list), err)
		}
		list = append(list, c)
		return nil
	}
	var err error
	if len(raw) > 0 && raw[0] == '{' {
		err = add(raw)
	} else {
		err = eachElement(raw, add)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// DecodeContent reads one content block. A block of a type we do not know
// becomes an [*UnknownContent]; one that lacks a required member is
// an error.
func DecodeContent(raw []byte) (Content, error) { return decodeContent(raw, false) }

func decodeContent(raw []byte, inToolResult bool) (Content, error) {
	typ, err := contentType(raw)
	if err != nil {
		return nil, err
	}
	c := newContent(typ)
	if inToolResult && (typ == TypeToolUse || typ == TypeToolResult) {
		c = new(UnknownContent)
	}
	if err := jsonx.Unmarshal(raw, c); err != nil {
		return nil, err
	}
	return c, nil
}

func newContent(typ string) Content {
	switch typ {
	case TypeText:
		return new(TextContent)
	case TypeImage:
		return new(ImageContent)
	case TypeAudio:
		return new(AudioContent)
	case TypeResource:
		return new(EmbeddedResource)
	case TypeResourceLink:
		return new(ResourceLink)
	case TypeToolUse:
		return new(ToolUseContent)
	case TypeToolResult:
		return new(ToolResultContent)
	}
	return new(UnknownContent)
}

// contentType returns the type member of a block.
func contentType(raw []byte) (string, error) {
	member, err := findMember(raw, "type")
	if err != nil {
		return "", fmt.Errorf("reading content: %w", err)
	}
	typ, ok := stringOf(member)
	if !ok {
		return "", errors.New("reading content: a block without a type")
	}
	return typ, nil
}
