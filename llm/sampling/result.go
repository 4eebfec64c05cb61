package sampling

import (
	"errors"
	"strings"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// ErrNoCall is an answer without a call where the server requires one: a
// model may be asked again, some servers of models do not heed it the first time.
var ErrNoCall = errors.New("the model calls no tool where one must be called")

// Values of stopReason that MCP leaves to us.
const (
	stopContentFilter = "contentFilter"
	stopRefusal       = "refusal"
)

// Result returns the answer for the server: resp must be that of Request(p). Whether
// it calls tools is seen from its calls, not from its reason; calls where
// none may be made are left out, and so is what follows a stop sequence that the
// provider did not heed. It has one block of text at least, or a call.
func Result(p *mcp.CreateMessageParams, resp *llm.Response) (*mcp.CreateMessageResult, error) {
	res := &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: resp.Model}
	text, cut := cutAt(resp.Text(), stops(p))
	calls := resp.Calls()
	if len(p.Tools) == 0 || mode(p) == mcp.ToolChoiceNone || cut && mode(p) != mcp.ToolChoiceRequired {
		calls = nil
	}
	if mode(p) == mcp.ToolChoiceRequired && len(calls) == 0 {
		return nil, ErrNoCall
	}
	if text != "" || len(calls) == 0 {
		res.Content = append(res.Content, mcp.Text(text))
	}
	own, used := ownNames(p), make(ids)
	for _, c := range calls {
		call := *c
		call.ID = used.unique(c.ID)
		if name, ok := own[c.Name]; ok {
			call.Name = name
		}
		res.Content = append(res.Content, &call)
	}
	switch {
	case len(calls) > 0:
		res.StopReason = mcp.StopToolUse
	case cut:
		res.StopReason = mcp.StopSequence
	default:
		res.StopReason = stopReason(resp.Finish)
	}
	return res, nil
}

// cutAt returns the text before the first of the stop sequences, and whether there is
// one.
func cutAt(text string, stops []string) (string, bool) {
	cut := len(text)
	for _, stop := range stops {
		if i := strings.Index(text[:cut], stop); i >= 0 {
			cut = i
		}
	}
	return text[:cut], cut < len(text)
}

// stopReason is the reason of an answer without calls.
func stopReason(reason llm.FinishReason) string {
	switch reason {
	case llm.FinishStop, llm.FinishToolCalls:
		return mcp.StopEndTurn
	case llm.FinishStopSequence:
		return mcp.StopSequence
	case llm.FinishLength:
		return mcp.StopMaxTokens
	case llm.FinishContentFilter:
		return stopContentFilter
	case llm.FinishRefusal:
		return stopRefusal
	}
	return string(reason) // the provider's own word: any string is allowed (SAMP-10)
}
