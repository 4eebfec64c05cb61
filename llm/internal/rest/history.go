package rest

import (
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// HasCalls reports whether the conversation has any.
func HasCalls(req *llm.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return slices.ContainsFunc(m.Content, func(c mcp.Content) bool {
			_, ok := c.(*mcp.ToolUseContent)
			return ok
		})
	})
}

// RefusesHistory reports whether a server has refused a conversation because it has calls, and the request no tools.
func RefusesHistory(err *llm.Error, req *llm.Request) bool {
	text := strings.ToLower(err.Message)
	if len(req.Tools) > 0 || !strings.Contains(text, "tool") {
		return false
	}
	for _, words := range []string{"must be defined", "must define", "without `tools", "must be provided", "tools are required"} {
		if strings.Contains(text, words) {
			return HasCalls(req)
		}
	}
	return false
}

// WithTools returns the request with the tools that its conversation has called, none of which may be called now, in place of none.
func WithTools(req *llm.Request) *llm.Request {
	tools := toolsOf(req)
	if len(req.Tools) > 0 || len(tools) == 0 {
		return req
	}
	with := *req
	with.Tools, with.ToolChoice = tools, llm.ToolChoiceNone
	return &with
}

// toolsOf are the tools that a conversation has called: what they take is not known any more.
func toolsOf(req *llm.Request) (tools []llm.Tool) {
	known := make(map[string]bool)
	for _, m := range req.Messages {
		for _, c := range m.Content {
			if call, ok := c.(*mcp.ToolUseContent); ok && !known[call.Name] {
				known[call.Name] = true
				tools = append(tools, llm.Tool{Name: call.Name})
			}
		}
	}
	return tools
}
