package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
)

// maxKept bounds the tools that a client keeps encoded, in bytes.
const maxKept = 1 << 20

// toolList is a list of tools and its encoding. It shares no memory with a request.
type toolList struct {
	api     API
	tools   []llm.Tool
	encoded []byte
}

// encodedTools returns tools as an API has them. Turn after turn has the same ones: the
// client keeps the last list.
func (c *Client) encodedTools(tools []llm.Tool, api API) []byte {
	if last := c.tools.Load(); last != nil && last.api == api && slices.EqualFunc(last.tools, tools, sameTool) {
		return last.encoded
	}
	list := &toolList{api: api, tools: slices.Clone(tools)}
	for i, t := range tools {
		list.tools[i].InputSchema = bytes.Clone(t.InputSchema)
		list.encoded = c.appendTool(append(list.encoded, ','), t, api)
	}
	list.encoded[0] = '['
	list.encoded = append(list.encoded, ']')
	if len(list.encoded) <= maxKept {
		c.tools.Store(list)
	}
	return list.encoded
}

func sameTool(a, b llm.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.InputSchema, b.InputSchema)
}

// appendTool appends a tool. The Responses API takes a schema for a strict one, and changes it, unless it is told not to.
func (c *Client) appendTool(dst []byte, t llm.Tool, api API) []byte {
	open, end := `{"type":"function","function":{"name":`, "}}"
	if api == APIResponses {
		open, end = `{"type":"function","name":`, "}"
	}
	dst = jsonx.AppendQuote(append(dst, open...), t.Name)
	if t.Description != "" {
		dst = jsonx.AppendQuote(append(dst, `,"description":`...), t.Description)
	}
	switch {
	case c.opts.StrictTools && isStrict(t.InputSchema):
		dst = append(dst, `,"strict":true`...)
	case api == APIResponses:
		dst = append(dst, `,"strict":false`...)
	}
	dst = append(append(dst, `,"parameters":`...), parameters(t.InputSchema)...)
	return append(dst, end...)
}

// emptySchema is the schema of a tool that takes nothing.
var emptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

func parameters(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return emptySchema
	}
	return schema
}
