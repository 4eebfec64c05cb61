package ollama

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// hasImages reports whether a message of the user or a result holds an image.
func hasImages(req *llm.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return m.Role == llm.RoleUser && slices.ContainsFunc(m.Content, func(c mcp.Content) bool {
			if r, ok := c.(*mcp.ToolResultContent); ok {
				return slices.ContainsFunc(r.Content, isImage)
			}
			return isImage(c)
		})
	})
}

func isImage(c mcp.Content) bool {
	_, ok := c.(*mcp.ImageContent)
	return ok
}

// withoutImages returns the request for a model that sees nothing: images in results
// become a note, since a tool's screenshot should not end a run, and one of the user's is
// an error, since the answer would be made up.
func withoutImages(req *llm.Request) (*llm.Request, error) {
	seen := *req
	seen.Messages = slices.Clone(req.Messages)
	for i, m := range seen.Messages {
		if m.Role != llm.RoleUser {
			continue
		}
		if slices.ContainsFunc(m.Content, isImage) {
			return nil, fmt.Errorf("%w: message %d has an image and the model takes none", llm.ErrUnsupported, i)
		}
		content := slices.Clone(m.Content)
		for j, c := range content {
			if r, ok := c.(*mcp.ToolResultContent); ok && slices.ContainsFunc(r.Content, isImage) {
				content[j] = noted(r)
			}
		}
		seen.Messages[i].Content = content
	}
	return &seen, nil
}

// noted returns a result with a note in the place of each image.
func noted(r *mcp.ToolResultContent) *mcp.ToolResultContent {
	n := *r
	n.Content = slices.Clone(r.Content)
	for i, c := range n.Content {
		if img, ok := c.(*mcp.ImageContent); ok {
			n.Content[i] = mcp.Text("(an image that this model cannot see: " + img.MIMEType + ")")
		}
	}
	return &n
}
