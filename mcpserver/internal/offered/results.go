package offered

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/mcp"
)

// ResourceResult makes a result of what a handler of a resource returned, see
// mcpserver.ResourceOut; nil if that is a nil result.
func ResourceResult(out any) *mcp.ReadResourceResult {
	switch v := out.(type) {
	case string:
		return OneContent(textOrBlob(v))
	case []byte:
		if v == nil {
			v = []byte{}
		}
		return OneContent(mcp.ResourceContents{Blob: v})
	case mcp.ResourceContents:
		return OneContent(v)
	case []mcp.ResourceContents:
		return &mcp.ReadResourceResult{Contents: v}
	case *mcp.ReadResourceResult:
		return v
	}
	return nil // there is no other type
}

// OneContent returns a result with one part.
func OneContent(c mcp.ResourceContents) *mcp.ReadResourceResult {
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{c}}
}

// textOrBlob returns contents that are a text if they are UTF-8 (RES-08).
func textOrBlob(s string) mcp.ResourceContents {
	if utf8.ValidString(s) {
		return mcp.ResourceContents{Text: s}
	}
	return mcp.ResourceContents{Blob: []byte(s)}
}

// Completed returns a copy of a result whose contents all have a URI and a MIME type.
func Completed(result *mcp.ReadResourceResult, uri, mimeType string) *mcp.ReadResourceResult {
	c := *result
	c.Contents = slices.Clone(result.Contents)
	if c.Contents == nil {
		c.Contents = []mcp.ResourceContents{}
	}
	for i := range c.Contents {
		one := &c.Contents[i]
		if one.URI == "" {
			one.URI = uri
		}
		if one.MIMEType == "" {
			one.MIMEType = mimeType
		}
	}
	return &c
}

// PromptResult makes a result of what a handler of a prompt returned, see mcpserver.PromptOut; nil
// if that is a nil result.
func PromptResult(out any) *mcp.GetPromptResult {
	switch v := out.(type) {
	case string:
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text(v)}}}
	case []mcp.PromptMessage:
		return &mcp.GetPromptResult{Messages: v}
	case *mcp.GetPromptResult:
		return v
	}
	return nil // there is no other type
}

// Completion makes a completion of at most a hundred values of what a handler returned, see
// mcpserver.CompletionOut.
func Completion(out any) mcp.Completion {
	var c mcp.Completion
	switch v := out.(type) {
	case []string:
		total := int64(len(v))
		c.Values, c.Total = v, &total
	case *mcp.Completion:
		if v != nil {
			c = *v
		}
	}
	if len(c.Values) > mcp.MaxCompletions {
		c.Values, c.HasMore = c.Values[:mcp.MaxCompletions], true
	}
	if c.Values == nil {
		c.Values = []string{}
	}
	return c
}

// Rank returns the choices that match a text, best first, see mcpserver.Rank.
func Rank(typed string, choices []string) []string {
	typed = strings.ToLower(typed)
	var ranks [3][]string
	for _, choice := range choices {
		lower := strings.ToLower(choice)
		switch {
		case strings.HasPrefix(lower, typed):
			ranks[0] = append(ranks[0], choice)
		case strings.Contains(lower, typed):
			ranks[1] = append(ranks[1], choice)
		case hasInOrder(lower, typed):
			ranks[2] = append(ranks[2], choice)
		}
	}
	return slices.Concat(ranks[:]...)
}

// hasInOrder reports whether s has the characters of part, maybe with others between.
func hasInOrder(s, part string) bool {
	for _, r := range part {
		_, rest, ok := strings.Cut(s, string(r))
		if !ok {
			return false
		}
		s = rest
	}
	return true
}
