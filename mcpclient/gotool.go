package mcpclient

import (
	"context"
	"encoding/json"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// GoTool is [Client.CallTool] for a caller that does not wait: of calls that are under
// way, thousands may be, none holds a goroutine. It returns when the request has been
// handed over, which may wait: for the connection, for the turn of a server that asks, or
// for a person who has to confirm the tool. Done is called once with the outcome, maybe
// before GoTool returns, on a goroutine of the runtime or the caller's; it may block. When
// ctx ends the call is cancelled. A panic in a function of the caller, such as Progress, is
// the call's error, an [*actors.PanicError]. The options must not be changed before done.
func (c *Client) GoTool(ctx context.Context, name string, args json.RawMessage, opts *CallOptions, done func(*mcp.CallToolResult, error)) {
	if opts == nil {
		opts = &noOptions
	}
	g := &goTool{client: c, name: name, done: done}
	if _, err := actors.Guard(func() (struct{}, error) { return struct{}{}, g.prepare(ctx, args, opts) }); err != nil {
		done(nil, err)
		return
	}
	c.goFor(ctx, &g.req, opts, g.answered)
}

// goTool is a call of a tool that nobody waits for.
type goTool struct {
	client *Client
	name   string
	output *schema.Schema
	req    call.Request
	done   func(*mcp.CallToolResult, error)
}

func (g *goTool) prepare(ctx context.Context, args json.RawMessage, opts *CallOptions) error {
	output, task, err := g.client.prepareTool(ctx, &g.req, g.name, args, opts)
	if err != nil {
		return err
	}
	g.output = output
	if task {
		return g.client.failed(mcp.MethodCallTool, g.client.withTask(&g.req, opts))
	}
	return nil
}

func (g *goTool) answered(raw json.RawMessage, err error) {
	g.done(actors.Guard(func() (*mcp.CallToolResult, error) { return g.client.toolResult(g.name, g.output, raw, err) }))
}
