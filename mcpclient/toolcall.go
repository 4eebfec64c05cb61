package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/params"
)

// noOptions are those of a call without any. They are never changed.
var noOptions CallOptions

// CallTool calls a tool by the server's own name for it. A tool that ran and
// failed is a result with IsError; everything else that goes wrong is a
// [*ServerError].
func (c *Client) CallTool(ctx context.Context, name string, args json.RawMessage, opts *CallOptions) (*mcp.CallToolResult, error) {
	if opts == nil {
		opts = &noOptions
	}
	// The steps before and after the wait have functions of their own: thousands of calls
	// may wait, each on a stack with what is here.
	var own call.Request
	output, task, err := c.tools.prepareTool(ctx, &own, name, args, opts)
	if err != nil {
		return nil, err
	}
	req := &own
	if task {
		if req, opts, err = c.tools.copiedWithTask(req, opts); err != nil {
			return nil, err
		}
	}
	raw, err := c.requests.do(ctx, req, opts)
	return c.tools.toolResult(name, output, raw, err)
}

// ToolCall is a tool call under way that no goroutine waits for. It has exactly one
// outcome. Its methods may be used from any goroutine.
type ToolCall struct {
	reply     actors.Reply[*mcp.CallToolResult]
	req       call.Request
	cancelled canceller
	then      atomic.Pointer[func(*mcp.CallToolResult, error)] // nil before OnDone, and after it was called
}

// Done returns a channel that is closed when the call has its outcome.
func (t *ToolCall) Done() <-chan struct{} { return t.reply.Done() }

// Result returns the outcome, as [Client.CallTool] does; before there is one, nil and nil.
func (t *ToolCall) Result() (*mcp.CallToolResult, error) { return t.reply.Result() }

// Cancel ends the call, whose error is then [context.Canceled], unless it has its outcome.
func (t *ToolCall) Cancel() { t.cancelled.cancel() }

// OnDone has f called once with the outcome: at once if there is one, else on a goroutine
// of the runtime. F may block. A call has one such function; a further one replaces it.
func (t *ToolCall) OnDone(f func(*mcp.CallToolResult, error)) {
	t.then.Store(&f)
	if t.reply.Completed() {
		t.report()
	}
}

func (t *ToolCall) complete(res *mcp.CallToolResult, err error) {
	t.reply.Complete(res, err)
	t.cancelled.forget()
	t.report()
}

func (t *ToolCall) report() {
	if f := t.then.Swap(nil); f != nil {
		(*f)(t.reply.Result())
	}
}

// StartTool is [Client.CallTool] for a caller that does not wait: thousands of calls may be
// under way, and none holds a goroutine. It returns when the request has been handed over,
// which may take as long as the connection takes. When ctx ends the call is cancelled. A panic
// in a function of the caller, such as Progress, is the call's error, an [*actors.PanicError].
// The options must not be changed before the call has its outcome.
func (c *Client) StartTool(ctx context.Context, name string, args json.RawMessage, opts *CallOptions) *ToolCall {
	t := new(ToolCall)
	t.begin(ctx, args, func() (*Client, string, *CallOptions, error) { return c, name, opts, nil })
	return t
}

// begin finds the tool, by its client and name, and starts the call with the options that are found.
func (t *ToolCall) begin(ctx context.Context, args json.RawMessage, find func() (*Client, string, *CallOptions, error)) {
	var c *Client
	var opts *CallOptions
	var name string
	var output *schema.Schema
	_, err := actors.Guard(func() (_ struct{}, err error) {
		task := false
		if c, name, opts, err = find(); err == nil {
			opts = cmp.Or(opts, &noOptions)
			output, task, err = c.tools.prepareTool(ctx, &t.req, name, args, opts)
		}
		if task {
			err = c.tools.withTask(&t.req, opts)
		}
		return struct{}{}, err
	})
	if err != nil {
		t.complete(nil, err)
		return
	}
	c.requests.start(ctx, &t.req, opts, &t.cancelled, func(raw json.RawMessage, err error) {
		t.complete(actors.Guard(func() (*mcp.CallToolResult, error) { return c.tools.toolResult(name, output, raw, err) }))
	})
}

// prepareTool makes the request of a call, and returns the schema of its result and whether the
// call may become a task.
func (c toolCalls) prepareTool(ctx context.Context, req *call.Request, name string, args json.RawMessage, opts *CallOptions) (output *schema.Schema, task bool, err error) {
	if err := c.requests.require(ctx, mcp.MethodCallTool); err != nil {
		return nil, false, err
	}
	if !c.server.allows(name) {
		return nil, false, c.failed(mcp.MethodCallTool, fmt.Errorf("%w: %s is not allowed by the configuration", ErrUnknownTool, name))
	}
	params, err := params.Tool(name, args)
	if err != nil {
		return nil, false, c.failed(mcp.MethodCallTool, &notSentError{err})
	}
	if output, err = c.tools.outputOf(name, opts); err != nil {
		return nil, false, c.failed(mcp.MethodCallTool, err)
	}
	task, err = c.tools.canBeTask(ctx, name, opts)
	if err != nil {
		return nil, false, c.failed(mcp.MethodCallTool, err)
	}
	*req = call.Request{
		Method: mcp.MethodCallTool, Params: params, Name: name, Meta: opts.meta(),
		Idle: opts.Idle, Max: opts.Max, OnProgress: opts.onProgress(), Safe: opts.Safe,
	}
	return output, task, nil
}

// toolResult reads what a call has come to.
func (c toolCalls) toolResult(name string, output *schema.Schema, raw json.RawMessage, err error) (*mcp.CallToolResult, error) {
	if errors.Is(err, mcp.ErrInvalidParams) {
		c.tools.suspectTools()
	}
	if err != nil {
		return nil, err
	}
	res, err := mcp.DecodeCallToolResult(raw)
	if err != nil {
		return nil, c.failed(mcp.MethodCallTool, &call.ResponseError{Method: mcp.MethodCallTool, Err: err})
	}
	if err := checkOutput(name, output, res); err != nil {
		return nil, c.failed(mcp.MethodCallTool, err)
	}
	return res, nil
}

// decode reads a result that has been scanned already.
func decode(raw json.RawMessage, into interface{ Validate() error }) error {
	if err := jsonx.Unmarshal(raw, into); err != nil {
		return err
	}
	return into.Validate()
}

// CallToolTask calls a tool as a task, and returns when there is one: it fails with
// [ErrUnsupported] where the server of 2025-11-25, or the tool, has none. In
// 2026-07-28 the server decides, if the program has opted in to the Tasks extension
// with [Options].Extensions: if it answers at once, the task returned has ended
// already. Legacy servers before 2025-11-25 have no tasks.
func (c *Client) CallToolTask(ctx context.Context, name string, args json.RawMessage, opts *TaskOptions) (*Task, error) {
	o := *cmp.Or(opts, new(TaskOptions))
	var created *Task
	o.task = &taskWish{ttl: o.TTL, created: func(t *Task) { created = t }}
	res, err := c.CallTool(ctx, name, args, &o.CallOptions)
	switch {
	case errors.Is(err, errHandedOver):
		return created, nil
	case err != nil:
		return nil, err
	}
	t := &Task{client: c, tool: name}
	t.last.Store(&TaskState{Status: mcp.TaskCompleted})
	t.done.Store(&ended{result: res})
	return t, nil
}
