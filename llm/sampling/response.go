package sampling

import (
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/llm/internal/rest"
	"github.com/troupe-dev/troupe/mcp"
)

// provider is the name of a client's model in errors.
const provider = "sampling"

// Response returns a client's answer as a turn of a model: res must answer Params(req).
// Ids of calls that are empty, or that the conversation has already, are replaced. The
// usage is estimated, since MCP does not tell it. The error is an [*llm.Error]: an
// answer that breaks the rules.
func Response(req *llm.Request, res *mcp.CreateMessageResult) (*llm.Response, error) {
	bad := func(err error, format string, args ...any) (*llm.Response, error) {
		return nil, &llm.Error{Provider: provider, Model: rest.Word(res.Model), Message: fmt.Sprintf(format, args...), Err: err}
	}
	if res.Role != mcp.RoleAssistant {
		return bad(llm.ErrBadResponse, "an answer of the role %.40q", res.Role)
	}
	resp := &llm.Response{Model: rest.Word(res.Model)}
	if text := render.Assistant(res.Content); text != "" {
		resp.Content = append(resp.Content, mcp.Text(text))
	}
	used := idsOf(req)
	for _, c := range res.Content {
		use, ok := c.(*mcp.ToolUseContent)
		if !ok {
			continue
		}
		var object map[string]jsonx.Value
		if len(use.Input) > 0 && (jsonx.Unmarshal(use.Input, &object) != nil || object == nil) {
			return bad(llm.ErrBadCall, "the arguments of a call of %.100q are not a JSON object", use.Name)
		}
		call := *use
		call.ID = used.unique(use.ID)
		resp.Content = append(resp.Content, &call)
	}
	calls := len(resp.Calls())
	switch {
	case calls > 0 && (len(req.Tools) == 0 || req.ToolChoice == llm.ToolChoiceNone):
		return bad(llm.ErrBadResponse, "an answer that calls tools where none may be called")
	case calls == 0 && res.StopReason == mcp.StopToolUse:
		return bad(llm.ErrBadResponse, "an answer that stopped to call a tool and calls none")
	case calls == 0 && req.ToolChoice == llm.ToolChoiceRequired:
		return bad(ErrNoCall, "")
	}
	resp.Finish = finish(res.StopReason, calls)
	resp.Usage = llm.Usage{Input: llm.EstimateTokens(req), Output: llm.EstimateTokens(&llm.Request{Messages: []llm.Message{resp.Message()}}), Estimated: true}
	return resp, nil
}

// finish is the reason for which a turn has ended.
func finish(reason string, calls int) llm.FinishReason {
	if calls > 0 {
		return llm.FinishToolCalls
	}
	switch reason {
	case "", mcp.StopEndTurn, mcp.StopSequence:
		return llm.FinishStop
	case mcp.StopMaxTokens:
		return llm.FinishLength
	case stopContentFilter:
		return llm.FinishContentFilter
	case stopRefusal:
		return llm.FinishRefusal
	}
	return llm.FinishReason(rest.Word(reason))
}
