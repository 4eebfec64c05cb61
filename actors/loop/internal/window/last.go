package window

import (
	"slices"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// The reasons to answer for the last time, as the model reads them.
const (
	BudgetUsed = "The budget of this run is used up"
	Repeated   = "You have turned in circles, though you were told"
)

// lastNote is the note to the model that it answers for the last time.
func lastNote(why string) llm.Message {
	return llm.User(why + ", and no more tools can be called. Answer now with what you have, and say what is missing.")
}

// Last makes a request the last one of a run: no tool may be called, and a note at its end says so. The tools stay, for
// servers that want those of the calls in the conversation, and so that what they have kept of its beginning is of use.
func Last(req *llm.Request, why string) *llm.Request {
	last := *req
	last.ToolChoice = llm.ToolChoiceNone
	last.Messages = append(slices.Clip(req.Messages), lastNote(why))
	return &last
}

// LastTokens is about how many tokens [Last] has of a request that has so many, at the end of the budget.
func LastTokens(tokens int) int {
	note := llm.Request{Messages: []llm.Message{lastNote(BudgetUsed)}}
	return tokens + llm.EstimateTokens(&note) - llm.EstimateTokens(new(llm.Request))
}

// FitLast makes the last request no larger than was held for it. What came since then
// is the last exchange: its results are left out as far as need be, and else all of it,
// since the request before it did fit; and the tools, if there are more of them by now.
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
			break
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
	if llm.EstimateTokens(&cut) > input {
		cut.Tools = nil
	}
	return &cut
}
