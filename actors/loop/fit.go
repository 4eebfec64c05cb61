package loop

import (
	"slices"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Fit returns what a model would see of a result with so many bytes of text, as a
// result that can be written as JSON: for who keeps results of their own.
func Fit(r *mcp.CallToolResult, limit int) (*mcp.CallToolResult, error) {
	r, err := presentable(r)
	if r == nil || err != nil {
		return r, err
	}
	c := cutForModel("", r, limit)
	return &mcp.CallToolResult{Content: c.Content, StructuredContent: c.StructuredContent, IsError: c.IsError}, nil
}

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
