package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// operation is what is measured: a tool's call, or a sign of life.
type operation struct {
	tool string // "" is a sign of life
	args json.RawMessage
	opts *mcpclient.CallOptions
}

// Kinds of failures.
const (
	FailTimeout    = "timeout"    // no answer in time
	FailConnection = "connection" // lost, or none; an HTTP status
	FailProtocol   = "protocol"   // an error of the protocol, or an answer that is of no use
	FailTool       = "tool"       // a result with isError
	FailCancelled  = "cancelled"  // we have taken it back
)

// errTool is a result with isError.
var errTool = errors.New("the tool failed")

// newOperation finds out what to call.
func newOperation(ctx context.Context, c *mcpclient.Client, o *Options) (*operation, error) {
	op := &operation{tool: o.Tool, args: o.Arguments, opts: &mcpclient.CallOptions{Max: o.Timeout, Idle: o.Timeout, AnyOutput: true}}
	if op.tool != "" && op.args != nil {
		return op, nil
	}
	if info, err := c.Info(ctx); err != nil || op.tool == "" && info.Capabilities.Tools == nil {
		return op, err
	}
	tools, err := c.ListTools(ctx)
	if err != nil {
		return nil, err
	}
	name := op.tool
	if name == "" {
		name = "echo"
	}
	i := slices.IndexFunc(tools, func(t mcp.Tool) bool { return t.Name == name })
	switch {
	case i < 0 && op.tool == "":
		return op, nil
	case i < 0:
		return nil, fmt.Errorf("%w: it has no tool %q; it has %s", ErrOptions, name, namesOf(tools))
	}
	op.tool = name
	if op.args == nil {
		op.args, err = argumentsFor(tools[i].InputSchema, o.Payload)
	}
	return op, err
}

func namesOf(tools []mcp.Tool) string {
	var names []string
	for i := range tools[:min(len(tools), 20)] {
		names = append(names, tools[i].Name)
	}
	return strings.Join(names, ", ")
}

// argumentsFor makes up what a schema requires. The first text has so many bytes.
func argumentsFor(schema json.RawMessage, payload int) (json.RawMessage, error) {
	var s struct {
		Properties map[string]struct {
			Type any   `json:"type"`
			Enum []any `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if len(schema) > 0 {
		if err := json.Unmarshal(schema, &s); err != nil {
			return nil, fmt.Errorf("%w: making up arguments: %w; give them with --args", ErrOptions, err)
		}
	}
	args := make(map[string]any)
	text := strings.Repeat("x", payload)
	for _, name := range s.Required {
		p := s.Properties[name]
		if len(p.Enum) > 0 {
			args[name] = p.Enum[0]
			continue
		}
		switch p.Type {
		case "string":
			args[name], text = text, "x"
		case "integer", "number":
			args[name] = 1
		case "boolean":
			args[name] = true
		case "array":
			args[name] = []any{}
		case "object":
			args[name] = map[string]any{}
		default:
			return nil, fmt.Errorf("%w: making up the argument %q: its type is %v; give the arguments with --args", ErrOptions, name, p.Type)
		}
	}
	return jsonx.Marshal(args)
}

func (op *operation) call(ctx context.Context, c *mcpclient.Client) error {
	if op.tool == "" {
		ctx, cancel := context.WithTimeoutCause(ctx, op.opts.Max, call.ErrTimeout)
		defer cancel()
		return c.Ping(ctx)
	}
	res, err := c.CallTool(ctx, op.tool, op.args, op.opts)
	if err == nil && res.IsError {
		err = fmt.Errorf("%w: %.200s", errTool, res.Content.Text())
	}
	return err
}

// kindOf says what kind of failure an error is, "" for none.
func kindOf(ctx context.Context, err error) string {
	var wire *mcp.Error
	var transport *call.TransportError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errTool):
		return FailTool
	case errors.Is(err, call.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return FailTimeout
	case ctx.Err() != nil:
		return FailCancelled
	case errors.As(err, &wire), errors.Is(err, call.ErrInvalidResponse):
		return FailProtocol
	case errors.As(err, &transport), errors.Is(err, call.ErrConnectionLost):
		return FailConnection
	}
	if server, ok := errors.AsType[*mcpclient.ServerError](err); ok && server.Method == "" {
		return FailConnection
	}
	return FailProtocol
}
