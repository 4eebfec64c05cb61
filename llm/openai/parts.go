package openai

import (
	"encoding/base64"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/mcp"
)

func callsOf(content mcp.Contents) (calls []*mcp.ToolUseContent) {
	for _, c := range content {
		if call, ok := c.(*mcp.ToolUseContent); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

// resultsOf are the results in a message, by their calls.
func resultsOf(content mcp.Contents) map[string]*mcp.ToolResultContent {
	results := make(map[string]*mcp.ToolResultContent, len(content))
	for _, c := range content {
		if r, ok := c.(*mcp.ToolResultContent); ok {
			results[r.ToolUseID] = r
		}
	}
	return results
}

func isResult(c mcp.Content) bool {
	_, ok := c.(*mcp.ToolResultContent)
	return ok
}

// parts are how an API writes the parts of a message.
type parts struct{ text, image, imageEnd string }

var chatParts = parts{`{"type":"text","text":`, `{"type":"image_url","image_url":{"url":"data:`, `"}},`}

// appendUser appends a message of the user: one text as a string, everything else as parts.
func appendUser(dst []byte, content mcp.Contents, p *parts) (_ []byte, err error) {
	dst = append(dst, `{"role":"user","content":`...)
	start, n, only := len(dst), 0, " " // the text of a message that has no other part
	dst = append(dst, '[')
	for _, c := range content {
		switch c := c.(type) {
		case *mcp.ImageContent:
			if n == 1 && only != "" {
				dst = p.appendText(dst, only)
			}
			if dst, err = p.appendImage(dst, c); err != nil {
				return nil, err
			}
			n, only = n+1, ""
		case *mcp.AudioContent:
			return nil, fmt.Errorf("%w: audio (%s) cannot be sent", llm.ErrUnsupported, c.MIMEType)
		default:
			text, ok := render.Text(c)
			if !ok || text == "" {
				continue
			}
			if n == 1 && only != "" {
				dst = p.appendText(dst, only)
			}
			if n++; n == 1 {
				only = text
				continue
			}
			dst, only = p.appendText(dst, text), ""
		}
	}
	if only != "" {
		return append(jsonx.AppendQuote(dst[:start], only), '}'), nil
	}
	dst[len(dst)-1] = ']' // in place of a comma
	return append(dst, '}'), nil
}

// appendText appends a part of a message and a comma.
func (p *parts) appendText(dst []byte, text string) []byte {
	return append(jsonx.AppendQuote(append(dst, p.text...), text), "},"...)
}

// appendImage appends an image of one of the four types that vision models take, and a comma.
func (p *parts) appendImage(dst []byte, c *mcp.ImageContent) ([]byte, error) {
	switch c.MIMEType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, fmt.Errorf("%w: an image of type %q cannot be sent", llm.ErrUnsupported, c.MIMEType)
	}
	dst = append(append(dst, p.image...), c.MIMEType...)
	dst = base64.StdEncoding.AppendEncode(append(dst, ";base64,"...), c.Data)
	return append(dst, p.imageEnd...), nil
}
