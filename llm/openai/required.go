package openai

import (
	"context"
	"errors"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// lacksCall reports whether a turn has ended without the call that it must have: OpenAI
// holds to that, others take it for advice, or for none at all.
func (t *turn) lacksCall() bool {
	if t.req.ToolChoice != llm.ToolChoiceRequired || len(t.calls.list) > 0 || t.cut || t.refused {
		return false
	}
	switch finishReason(t.reason) {
	case llm.FinishLength, llm.FinishContentFilter:
		return false // there was none to be had
	}
	return true
}

// force asks once more, with a grammar that allows nothing but a call, and gives the call
// to t. A server that does not take such a grammar leaves the turn as it was.
func (c *Client) force(ctx context.Context, t *turn) error {
	req, err := rest.Forced(t.req, t.cost().Output)
	switch {
	case err != nil:
		return t.origin.Wrap(err)
	case req == nil:
		return nil
	}
	var text strings.Builder
	f := newTurn(t.origin, req, func(ev llm.Event) bool {
		if delta, ok := ev.(llm.TextDelta); ok {
			text.WriteString(delta.Text)
		}
		return text.Len() < rest.MaxForced
	})
	err = c.ask(ctx, f)
	if e, ok := errors.AsType[*llm.Error](err); ok && !e.Retryable && ctx.Err() == nil {
		return nil
	}
	if errors.Is(err, errLeft) { // it was not the reader who left, but we
		return t.origin.New(llm.ErrTooLarge, "a call of more than %d bytes", rest.MaxForced)
	}
	if err != nil {
		return err
	}
	t.addCost(f)
	var call rest.ForcedCall
	if jsonx.Unmarshal([]byte(text.String()), &call) != nil || call.Name == "" {
		return nil // it heeds no grammar, or its limit has cut it: the answer has no call
	}
	return t.calls.add(callDelta{Function: functionCall{Name: call.Name, Arguments: string(call.Arguments)}})
}

// addCost adds what another request for the same turn has cost.
func (t *turn) addCost(f *turn) {
	a, b := t.cost(), f.cost()
	t.usage = usage{PromptTokens: a.Input + b.Input, CompletionTokens: a.Output + b.Output}
	t.estimated = a.Estimated || b.Estimated
}
