package llm

import (
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/mcp"
)

// What things cost beside their text, in tokens: roughly what the chat templates of
// common models add.
const (
	tokensPerMessage = 4
	tokensPerTool    = 8
	tokensPerImage   = 1000
)

// EstimateTokens returns about how many input tokens a request has, for budgets that
// must be reserved before a call. Four bytes count as a token, which is near for
// English and for JSON; for scripts with three bytes to a letter the true number can be
// twice as high. An image counts as 1000.
func EstimateTokens(req *Request) int {
	n := EstimateText(req.System) + tokensPerMessage
	for _, m := range req.Messages {
		n += tokensPerMessage + estimateContents(m.Content)
	}
	for _, t := range req.Tools {
		n += tokensPerTool + EstimateBytes(len(t.Name)+len(t.Description)+len(t.InputSchema))
	}
	return n + EstimateBytes(len(req.Schema))
}

// EstimateText returns about how many tokens a text has.
func EstimateText(s string) int { return EstimateBytes(len(s)) }

// EstimateBytes returns about how many tokens n bytes of text have.
func EstimateBytes(n int) int { return (n + 3) / 4 }

func estimateContents(cs mcp.Contents) int {
	n := 0
	for _, c := range cs {
		switch c := c.(type) {
		case *mcp.TextContent:
			n += EstimateText(c.Text)
		case *mcp.ImageContent:
			n += tokensPerImage
		case *mcp.ToolUseContent:
			n += tokensPerMessage + EstimateBytes(len(c.Name)+len(c.Input))
		case *mcp.ToolResultContent:
			n += tokensPerMessage + estimateContents(c.Content)
			if len(c.Content) == 0 {
				n += EstimateBytes(len(c.StructuredContent))
			}
		default: // resources and what is unknown go as their JSON
			n += EstimateText(render.JSON(c))
		}
	}
	return n
}
