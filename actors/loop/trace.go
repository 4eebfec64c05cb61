package loop

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Trace is told of each turn and each tool call as it begins, and by the function that
// it returns of how it ended, which may be on another goroutine. The context that it
// returns is the one the work is done in, and must be derived from the one it is given.
// Its methods may be called from any goroutine, must not block, and are called in pairs:
// what has begun ends, also by a panic.
type Trace interface {
	// Turn is one turn of the model with all attempts. The response is nil with an error.
	Turn(ctx context.Context, t *TurnTrace) (context.Context, func(*llm.Response, error))
	// Tool is one call that is being made.
	Tool(ctx context.Context, t *ToolTrace) (context.Context, func(*mcp.CallToolResult, error))
}

// TurnTrace says what is asked of a model.
type TurnTrace struct {
	Turn    int
	Model   string       // provider and model
	Request *llm.Request // must not be changed, nor kept
}

// ToolTrace says what is called.
type ToolTrace struct {
	Key       string // of the call, unique
	ID        string // the model's
	Server    string // empty for a function of the program
	Tool      string
	Arguments json.RawMessage // must not be changed, nor kept
}

// traced carries out one turn inside of the trace.
func (s *streaming) traced(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
	if s.cfg.Trace == nil {
		return s.stream(ctx, req)
	}
	ctx, end := s.cfg.Trace.Turn(ctx, &TurnTrace{Turn: s.turn, Model: s.cfg.Model.Name(), Request: req})
	err = errPanicked
	defer func() { end(resp, err) }()
	resp, err = s.stream(ctx, req)
	return resp, err
}

// traced makes one call inside of the trace.
func (c *config) traced(ctx context.Context, cl *call, todo *Call) (res *mcp.CallToolResult, err error) {
	if c.Trace == nil {
		return cl.tool.Do(ctx, todo)
	}
	ctx, end := c.Trace.Tool(ctx, cl.trace())
	err = errPanicked
	defer func() { end(res, err) }()
	res, err = cl.tool.Do(ctx, todo)
	return res, err
}

// tracedGo is traced for a tool that keeps no goroutine.
func (c *config) tracedGo(ctx context.Context, cl *call, todo *Call, done func(*mcp.CallToolResult, error)) {
	if c.Trace == nil {
		cl.tool.Go(ctx, todo, done)
		return
	}
	ctx, end := c.Trace.Tool(ctx, cl.trace())
	cl.tool.Go(ctx, todo, func(res *mcp.CallToolResult, err error) {
		defer done(res, err)
		end(res, err)
	})
}

func (cl *call) trace() *ToolTrace {
	return &ToolTrace{Key: cl.key, ID: cl.id, Server: cl.tool.Server, Tool: cl.tool.Name, Arguments: cl.args}
}

// errPanicked ends what a panic has ended.
var errPanicked = errors.New("it panicked")
