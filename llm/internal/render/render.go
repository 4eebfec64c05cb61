// Package render turns MCP content into the text and images that chat APIs take.
package render

import (
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// NoOutput stands for a tool result without content: an empty one is refused by
// OpenAI and by Ollama, and go-openai would leave the field out.
const NoOutput = "(no output)"

// Text returns the text of one block, and false for a block that has none: images,
// audio, calls and results.
//
// A link is shown as its JSON, so that the model can name its URI; an embedded
// resource as its text, or as its JSON where it is binary.
func Text(c mcp.Content) (string, bool) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text, true
	case *mcp.ImageContent, *mcp.AudioContent, *mcp.ToolUseContent, *mcp.ToolResultContent:
		return "", false
	case *mcp.EmbeddedResource:
		if c.Resource.Text != "" {
			return c.Resource.Text, true
		}
		return JSON(c), true
	default:
		return JSON(c), true
	}
}

// ToolResult returns the text of a tool's result, never empty, and its images, for
// which neither API has a place in the result itself.
func ToolResult(r *mcp.ToolResultContent) (string, []*mcp.ImageContent) {
	var parts []string
	var images []*mcp.ImageContent
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.ImageContent:
			images = append(images, c)
			parts = append(parts, "(an image: "+c.MIMEType+")")
		case *mcp.AudioContent:
			parts = append(parts, "(audio that cannot be shown: "+c.MIMEType+")")
		default:
			if text, ok := Text(c); ok && text != "" {
				parts = append(parts, text)
			}
		}
	}
	text := strings.Join(parts, "\n")
	if text == "" && len(r.StructuredContent) > 0 {
		text = string(r.StructuredContent)
	}
	if text == "" {
		text = NoOutput
	}
	if r.IsError {
		text = "Error: " + text
	}
	return text, images
}

// Assistant returns the text of an assistant's message. Images and audio, which no
// API takes from the assistant, become a note.
func Assistant(cs mcp.Contents) string {
	var parts []string
	for _, c := range cs {
		switch c := c.(type) {
		case *mcp.ImageContent:
			parts = append(parts, "(an image: "+c.MIMEType+")")
		case *mcp.AudioContent:
			parts = append(parts, "(audio: "+c.MIMEType+")")
		default:
			if text, ok := Text(c); ok && text != "" {
				parts = append(parts, text)
			}
		}
	}
	return strings.Join(parts, "\n")
}

// JSON returns a block as its JSON, or "" if it has none.
func JSON(c mcp.Content) string {
	data, err := jsonx.Marshal(c)
	if err != nil {
		return ""
	}
	return string(data)
}

// Arguments returns a call's arguments: a missing one is the empty object, which
// servers insist on.
func Arguments(call *mcp.ToolUseContent) []byte {
	if len(call.Input) == 0 {
		return []byte("{}")
	}
	return call.Input
}
