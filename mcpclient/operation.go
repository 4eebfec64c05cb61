package mcpclient

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// Operation is a request to a server as its caller sees it: with all attempts, rounds of
// questions and the wait for its task. It must not be changed, nor kept.
type Operation struct {
	Server string // its configured name
	Method string
	Name   string // of the tool or prompt, or the resource's URI; empty where there is none
	// Version is the revision that is spoken.
	Version mcp.Version
	// Transport is "pipe", "tcp" (HTTP and streams) or "inproc".
	Transport string
	Address   string // scheme and host of a URL; empty for other servers
}

// TraceFunc is told of each operation as it begins, and by the function that it returns
// of how it ended. The context that it returns is the one the operation is made in, and
// must be derived from the one it is given: [Options].TraceContext finds there what goes
// into the request (META-04). Both are called in pairs, on the caller's goroutine, but that
// of how it ended on another one where the caller does not wait, and must not block. ToolError says that a tool ran and failed.
type TraceFunc func(ctx context.Context, op *Operation) (_ context.Context, end func(toolError bool, err error))

// doFor carries out a logical request for its caller.
func (c *Client) doFor(ctx context.Context, req *call.Request, o *CallOptions) (raw json.RawMessage, retried bool, err error) {
	if c.opts.Trace == nil {
		return c.doTagged(ctx, req, o)
	}
	ctx, end := c.opts.Trace(ctx, c.operation(req))
	err = errPanicked
	defer func() { end(err == nil && req.Method == mcp.MethodCallTool && failedTool(raw), err) }()
	raw, retried, err = c.doTagged(ctx, req, o)
	return raw, retried, err
}

// goFor is doFor for a caller that does not wait. The request is changed, and kept.
func (c *Client) goFor(ctx context.Context, req *call.Request, o *CallOptions, done func(json.RawMessage, error)) {
	if c.opts.Trace == nil {
		c.goTagged(ctx, req, o, done)
		return
	}
	var end func(bool, error)
	_, err := actors.Guard(func() (_ struct{}, _ error) { ctx, end = c.opts.Trace(ctx, c.operation(req)); return })
	if err != nil {
		done(nil, err)
		return
	}
	tool := req.Method == mcp.MethodCallTool
	c.goTagged(ctx, req, o, func(raw json.RawMessage, err error) {
		defer done(raw, err)
		end(err == nil && tool && failedTool(raw), err)
	})
}

var errPanicked = errors.New("it panicked")

func (c *Client) operation(req *call.Request) *Operation {
	op := &Operation{Server: c.server.Name, Method: req.Method, Name: req.Name, Transport: "pipe"}
	if info := c.info.Load(); info != nil {
		op.Version = info.Version
	}
	switch {
	case c.server.URL != "":
		op.Transport, op.Address = "tcp", c.server.origin()
	case c.server.Connect != nil:
		op.Transport = "inproc"
	case c.server.Command == "":
		op.Transport = "tcp"
	}
	return op
}

// failedTool reports whether the result of a tool says that it failed.
func failedTool(raw json.RawMessage) bool {
	res, err := mcp.DecodeCallToolResult(raw)
	return err == nil && res.IsError
}
