package window

import (
	"slices"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// lastNote is the note to the model that it answers for the last time.
const lastNote = "The budget of this run is used up, and no more tools can be called. " +
	"Answer now with what you have, and say what is missing."

// Last makes a request the last one of a run: without tools, and with a note that says so at its end.
func Last(req *llm.Request) *llm.Request {
	last := *req
	last.Tools, last.ToolChoice = nil, llm.ToolChoiceNone
	last.Messages = append(slices.Clip(req.Messages), llm.User(lastNote))
	return &last
}

// LastTokens is about how many tokens [Last] has of a request that has so many.
func LastTokens(req *llm.Request, tokens int) int {
	without := func(req llm.Request) int { return llm.EstimateTokens(&req) }
	return tokens - without(llm.Request{Tools: req.Tools}) + without(llm.Request{Messages: []llm.Message{llm.User(lastNote)}})
}

// FitLast makes the last request no larger than was held for it. What came since then
// is the last exchange: its results are left out as far as need be, and else all of it,
// since the request before it did fit.
func FitLast(req *llm.Request, input int) *llm.Request {
	if llm.EstimateTokens(req) <= input {
		return req
	}
	cut := *req
	cut.Messages = slices.Clone(req.Messages)
	for i := len(cut.Messages) - 1; i >= 0; i-- {
		m := &cut.Messages[i]
		if m.Role == llm.RoleAssistant {
			cut.Messages = slices.Delete(cut.Messages, i, len(cut.Messages)-1) // all but the note
			return &cut
		}
		m.Content = slices.Clone(m.Content)
		for j, block := range m.Content {
			if res, ok := block.(*mcp.ToolResultContent); ok {
				m.Content[j] = &mcp.ToolResultContent{ToolUseID: res.ToolUseID, IsError: res.IsError,
					Content: mcp.Contents{mcp.Text("[left out: the budget is used up]")}}
				if llm.EstimateTokens(&cut) <= input {
					return &cut
				}
			}
		}
	}
	return &cut
}
