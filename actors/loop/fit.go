package loop

import (
	"slices"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// withoutCalls takes the calls out of an answer that may have none, and reports whether
// there were any.
func withoutCalls(resp *llm.Response) bool {
	if len(resp.Calls()) == 0 {
		return false
	}
	resp.Content = slices.DeleteFunc(slices.Clone(resp.Content), func(c mcp.Content) bool {
		_, call := c.(*mcp.ToolUseContent)
		return call
	})
	if resp.Finish == llm.FinishToolCalls {
		resp.Finish = llm.FinishStop
	}
	return true
}
