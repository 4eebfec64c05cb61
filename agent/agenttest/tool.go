package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// FakeTool is a tool of a [FakeServer]: make it with [Tool] or [ToolFunc]. Its methods
// change and return it, and are for before it is used.
type FakeTool struct {
	def mcp.Tool
	add func(t *FakeTool, f *FakeServer, s *mcpserver.Server) error

	replies []Reply
	calls   atomic.Int64 // so far: which reply is next; the last one stays
}

// Tool returns a tool that takes any arguments and plays the replies, one for each call,
// and the last one from then on. Without any it answers with an empty text.
func Tool(name string, replies ...Reply) *FakeTool {
	if len(replies) == 0 {
		replies = []Reply{Text("")}
	}
	return &FakeTool{def: mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, replies: replies, add: addScript}
}

// ToolFunc returns a tool that runs a handler as package mcpserver has them, which may ask
// the client's person, sample its model and report progress. Schemas come from the types.
func ToolFunc[In, Out any](name string, handle func(ctx context.Context, req *mcpserver.ToolRequest, in In) (Out, error)) *FakeTool {
	return &FakeTool{def: mcp.Tool{Name: name}, add: func(t *FakeTool, f *FakeServer, s *mcpserver.Server) error {
		def := t.def
		return mcpserver.AddTool(s, &def, func(ctx context.Context, req *mcpserver.ToolRequest, in In) (Out, error) {
			f.record(req)
			return handle(ctx, req, in)
		})
	}}
}

// Described sets the tool's description.
func (t *FakeTool) Described(text string) *FakeTool {
	t.def.Description = text
	return t
}

// ReadOnly has the server say that the tool only reads, and nothing outside of it.
func (t *FakeTool) ReadOnly() *FakeTool {
	t.def.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	return t
}

// Input sets the JSON schema of the arguments.
func (t *FakeTool) Input(schema string) *FakeTool {
	t.def.InputSchema = json.RawMessage(schema)
	return t
}

func (t *FakeTool) addTo(f *FakeServer, s *mcpserver.Server) error { return t.add(t, f, s) }

// addScript adds a tool that plays its replies.
func addScript(t *FakeTool, f *FakeServer, s *mcpserver.Server) error {
	def := t.def
	return mcpserver.AddTool(s, &def, func(ctx context.Context, req *mcpserver.ToolRequest, _ json.RawMessage) (*mcp.CallToolResult, error) {
		f.record(req)
		return t.next().play(ctx, f)
	})
}

func (t *FakeTool) next() Reply {
	return t.replies[min(t.calls.Add(1), int64(len(t.replies)))-1]
}

// Reply is the behaviour of a scripted tool in one call.
type Reply struct {
	after  time.Duration
	result *mcp.CallToolResult
	err    error
	drop   bool // the connection
	hang   bool
}

// Text answers with a text.
func Text(text string) Reply {
	return Reply{result: &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(text)}}}
}

// JSON answers with a structured result, and its JSON as text. A value that cannot be written as
// JSON is an error of the call.
func JSON(v any) Reply {
	raw, err := jsonx.Marshal(v)
	if err != nil {
		return Reply{err: err}
	}
	return Reply{result: &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(string(raw))}, StructuredContent: raw}}
}

// Result answers with this result as it is.
func Result(r *mcp.CallToolResult) Reply { return Reply{result: r} }

// ToolError answers with a result with isError: the tool ran and failed, and the model
// reads why.
func ToolError(text string) Reply { return Result(mcp.ErrorResult("%s", text)) }

// Fail answers with an error of the protocol.
func Fail(code int64, message string) Reply {
	return Reply{err: &mcp.Error{Code: code, Message: message}}
}

// Slow waits before another reply.
func Slow(d time.Duration, then Reply) Reply {
	then.after += d
	return then
}

// Hang never answers; it ends when the call is cancelled.
func Hang() Reply { return Reply{hang: true} }

// Drop breaks all connections to the server and answers nothing.
func Drop() Reply { return Reply{drop: true} }

func (r Reply) play(ctx context.Context, f *FakeServer) (*mcp.CallToolResult, error) {
	if err := pause.For(ctx, r.after); err != nil {
		return nil, err
	}
	switch {
	case r.drop:
		f.Drop()
		return nil, errDropped
	case r.hang:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case r.result == nil && r.err == nil:
		return nil, errors.New("the script's reply is empty")
	}
	return r.result, r.err
}
