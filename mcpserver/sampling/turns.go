package sampling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/llm"
	wire "github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
)

// Name implements [llm.Model].
func (l *run) Name() string {
	if l.plan.Own {
		return l.handler.Model().Name()
	}
	return "sampling"
}

// Stream implements [llm.Model]: a turn is a question of the call, with a key of its own.
func (l *run) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		resp, err := l.turn(ctx, req)
		if err != nil {
			yield(nil, &turnError{err})
			return
		}
		if text := resp.Text(); text != "" && !yield(llm.TextDelta{Text: text}, nil) {
			return
		}
		for i, call := range resp.Calls() {
			if !yield(llm.ToolCall{Index: i, ID: call.ID, Name: call.Name, Arguments: call.Input}, nil) {
				return
			}
		}
		if yield(resp.Usage, nil) {
			yield(llm.Finish{Reason: resp.Finish, Model: resp.Model}, nil)
		}
	}
}

// turnError is why a question to the model has no answer. It has no Unwrap: to the actor
// that runs the loop it is no error of a model that it could do something about, such as
// asking again with a part of the conversation, which is the client's to keep whole.
type turnError struct{ err error }

func (e *turnError) Error() string { return e.err.Error() }

// turn asks the model once.
func (l *run) turn(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	p := l.question(req)
	key := l.key + "/" + strconv.Itoa(len(l.said)+1)
	ctx = withValues(ctx, l.values)
	var res *mcp.CreateMessageResult
	var usage llm.Usage
	if l.plan.Own {
		if l.handler.Model() == nil {
			return nil, errors.New("the server has no model any more")
		}
		a, err := l.handler.AskModel(ctx, key, p)
		if err != nil {
			return nil, err
		}
		if len(a.Usage) > 0 {
			if err := jsonx.Unmarshal(a.Usage, &usage); err != nil {
				return nil, fmt.Errorf("reading what the model has cost: %w", err)
			}
		}
		res = a.Result
	} else {
		one := mcpserver.SampleQuestion(key, p)
		if err := l.ask(ctx, one); err != nil {
			return nil, err
		}
		if one.Err != nil {
			return nil, one.Err
		}
		res = one.Sampled
	}
	asked := *req
	if p.ToolChoice != nil && p.ToolChoice.Mode == mcp.ToolChoiceRequired {
		asked.ToolChoice = llm.ToolChoiceRequired
	}
	resp, err := wire.Response(&asked, res)
	if err != nil {
		return nil, err
	}
	if l.plan.Own {
		resp.Usage = usage
	}
	l.answer, l.asked = res, p.Messages
	l.said = append(l.said, renamed(res.Content, resp.Calls()))
	return resp, nil
}

// question is what the model is asked in a turn: the first question, and the messages
// since, with the model's own as it has said them (SAMP-24, SAMP-25).
func (l *run) question(req *llm.Request) *mcp.CreateMessageParams {
	p := l.params
	p.Messages = slices.Clone(l.params.Messages)
	said := 0
	for _, m := range req.Messages[len(p.Messages):] {
		one := mcp.SamplingMessage{Role: m.Role, Content: m.Content}
		if m.Role == mcp.RoleAssistant {
			one.Content = l.said[said]
			said++
		}
		p.Messages = append(p.Messages, one)
	}
	if req.MaxTokens > 0 {
		p.MaxTokens = min(p.MaxTokens, int64(req.MaxTokens))
	}
	if said > 0 {
		p.ToolChoice = nil
	}
	if req.ToolChoice == llm.ToolChoiceNone {
		p.ToolChoice = nil
		if len(p.Tools) > 0 {
			p.ToolChoice = &mcp.ToolChoice{Mode: mcp.ToolChoiceNone}
		}
	}
	return &p
}

// renamed gives the calls in what a model has said the ids that they have in the loop,
// where no two are the same.
func renamed(content mcp.Contents, calls []*mcp.ToolUseContent) mcp.Contents {
	out := slices.Clone(content)
	for i, c := range out {
		if use, ok := c.(*mcp.ToolUseContent); ok && len(calls) > 0 {
			call := *use
			call.ID, calls = calls[0].ID, calls[1:]
			out[i] = &call
		}
	}
	return out
}

// Offer implements [loop.Tools].
func (l *run) Offer(context.Context) (*loop.Offer, []runlog.Absent) {
	all := make([]loop.Tool, len(l.tools))
	for i, t := range l.tools {
		all[i] = loop.Tool{
			Tool: llm.Tool{Name: t.def.Name, Description: t.def.Description, InputSchema: t.def.InputSchema},
			Do: func(ctx context.Context, call *loop.Call) (*mcp.CallToolResult, error) {
				return l.do(withValues(ctx, l.values), t, call)
			},
		}
	}
	return loop.NewOffer(all), nil
}

// allow lets every call be made: the tools are the program's own.
func allow(context.Context, *loop.Tool, json.RawMessage) guard.Verdict { return guard.Allow }

// maxNote is room for the note that a text was cut.
const maxNote = 200

// maxLoopResult bounds a result with its images, in bytes of JSON: all that a loop has
// so far travels with each question.
const maxLoopResult = 256 << 10

// do calls a tool, once: however it ends, that is its result, unless the call has ended.
func (l *run) do(ctx context.Context, t *Tool, call *loop.Call) (*mcp.CallToolResult, error) {
	out, done, err := once(ctx, l.handler, callKey+call.Key, func(ctx context.Context) (toolCall, error) {
		var asked atomic.Int32
		ctx = context.WithValue(ctx, asking.Asked{}, &asked)
		res, err := actors.Guard(func() (*mcp.CallToolResult, error) { return t.call(ctx, call.Arguments) })
		if err == nil {
			res, err = toolresult.Clip(res, l.opts.MaxResult)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return toolCall{}, context.Cause(ctx)
		case err != nil && l.handler.Cause() != nil:
			return toolCall{}, l.handler.Cause()
		case err != nil:
			res = l.toolFailed(t, err)
		}
		return toolCall{Result: sameAgain(res), Asked: asked.Load()}, nil
	})
	if done {
		l.handler.Skip(out.Asked)
	}
	return out.Result, err
}

// toolCall is what is kept of a call.
type toolCall struct {
	Result *mcp.CallToolResult `json:"r"`
	Asked  int32               `json:"n,omitzero"` // questions of the tool itself that were answered
}

// sameAgain is a result as it will be when it comes out of a ticket: what the model is
// asked next must be the same then.
func sameAgain(res *mcp.CallToolResult) *mcp.CallToolResult {
	raw, err := jsonx.Marshal(res)
	if err == nil && len(raw) > maxLoopResult {
		return mcp.ErrorResult("the tool's result is larger than %d bytes", maxLoopResult)
	}
	again := new(mcp.CallToolResult)
	if err != nil || jsonx.Unmarshal(raw, again) != nil {
		return mcp.ErrorResult("the tool's result cannot be written as JSON")
	}
	return again
}

// toolFailed is what the model reads of a tool's error. A panic's text is for the log.
func (l *run) toolFailed(t *Tool, err error) *mcp.CallToolResult {
	if p, ok := errors.AsType[*actors.PanicError](err); ok {
		l.handler.Log().Error("a loop's tool panicked", "name", l.handler.Name(), "tool", t.def.Name, "error", p, "stack", string(p.Stack))
	}
	return toolresult.OfError(err)
}

// valued is a context with the values of another one.
type valued struct {
	context.Context
	values context.Context
}

// withValues gives a task of the loop the values that its handler has.
func withValues(ctx, values context.Context) context.Context { return valued{ctx, values} }

// Value implements [context.Context].
func (v valued) Value(key any) any {
	if value := v.Context.Value(key); value != nil { // package context finds its own here
		return value
	}
	return v.values.Value(key)
}
