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

// What numbers of a server can be true: no turn has more than so many tokens, and a token
// has no more than so many bytes, in the middle of a text that is not short.
const (
	maxTurnTokens    = 1 << 30
	maxBytesPerToken = 32
	shortText        = 256
)

// Plausible returns u with estimates in place of impossible numbers, and then
// Estimated: a number that is missing, negative, beyond a billion, or far too small for
// what was asked and answered. Input is the estimate of the request's tokens, and bytes
// are those of the answer, thinking and calls included. Budgets count nothing else: a
// server that is wrong, or lies, would not be bounded by them.
func (u Usage) Plausible(input, bytes int) Usage {
	if u.Input <= 0 || u.Input > maxTurnTokens || u.Input < input/maxBytesPerToken {
		u.Input, u.Estimated = min(max(0, input), maxTurnTokens), true
	}
	if u.Output < 0 || u.Output > maxTurnTokens || u.Output == 0 && bytes > 0 || u.Output < (bytes-shortText)/maxBytesPerToken {
		u.Output, u.Estimated = EstimateBytes(bytes), true
	}
	return u
}

// EstimateTokens returns about how many input tokens a request has, for budgets that
// must be reserved before a call. Four bytes count as a token, which is near for
// English and for JSON; for scripts with three bytes to a letter the true number can be
// twice as high. An image counts as 1000.
func EstimateTokens(req *Request) int {
	n := EstimateText(req.System) + tokensPerMessage
	for _, m := range req.Messages {
		n += tokensPerMessage + estimateContents(m.Content) + EstimateBytes(stateSize(m.State))
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
