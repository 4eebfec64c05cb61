package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Tracer observes runs, their turns and their calls. The runtime calls a method when one
// begins, and the function that the method returns when it has ended. All work below has
// the context that the method returns, which must be derived from the one it is given: that of a
// run's turns and calls has the values of the run's, and that of a sub-agent's run those
// of the call that has started it. The methods may be called from any goroutine, must not
// block, and each beginning has its end. Requests to servers go to
// [mcpclient.HostOptions].Trace. Package agent/telemetry is one, for OpenTelemetry.
type Tracer interface {
	// Run is a whole run. The context is the one of [Agent.Start], whose end does not end
	// the run's. The result is nil for a run that could not begin.
	Run(ctx context.Context, r *RunTrace) (context.Context, func(*Result, error))
	// Turn is one turn of the model with all attempts. The response is nil with an error.
	Turn(ctx context.Context, t *TurnTrace) (context.Context, func(*llm.Response, error))
	// Tool is one call that is being made.
	Tool(ctx context.Context, t *ToolTrace) (context.Context, func(*mcp.CallToolResult, error))
}

// RunTrace describes the run that begins.
type RunTrace struct {
	ID, Agent string
	Path      []string // agents from the root to this one
	Parent    string   // the run that has started it; empty for none
	Model     string
}

// TurnTrace describes the request to a model.
type TurnTrace struct {
	Turn    int          // from one
	Model   string       // provider and model
	Request *llm.Request // must not be changed, nor kept
}

// ToolTrace describes a tool call.
type ToolTrace struct {
	Key       string // of the call, unique
	ID        string // the model's
	Server    string // empty for a function of the program
	Tool      string
	Arguments json.RawMessage // must not be changed, nor kept
}

// tracing is one run on its way, nil without a [Tracer].
type tracing struct {
	tracer Tracer
	log    *slog.Logger
	about  RunTrace
	ctx    context.Context // of the start; then of the run
	end    func(*Result, error)
	once   sync.Once // for end
}

// begin reports that the run begins. A panic is not the actor's that all runs are children of.
func (t *tracing) begin() {
	if t == nil {
		return
	}
	t.guard(func() { t.ctx, t.end = t.tracer.Run(t.ctx, &t.about) })
}

// over reports the outcome of the run, once. Without an outcome it has not begun.
func (t *tracing) over(out *loop.Outcome, err error) {
	if t == nil {
		return
	}
	t.once.Do(func() {
		switch {
		case t.end == nil: // its beginning has panicked
		case out == nil:
			t.guard(func() { t.end(nil, err) })
		default:
			t.guard(func() { t.end(resultOfRun(t.about.ID, out), errorOf("", out.Err)) })
		}
	})
}

func (t *tracing) guard(f func()) {
	if _, err := actors.Guard(func() (struct{}, error) { f(); return struct{}{}, nil }); err != nil {
		t.log.Error("the Tracer panicked", "run", t.about.ID, "error", err)
	}
}

// Turn implements [loop.Trace].
func (t *tracing) Turn(ctx context.Context, turn int, model string, req *llm.Request) (context.Context, func(*llm.Response, error)) {
	return t.tracer.Turn(within{ctx, t.ctx}, &TurnTrace{Turn: turn, Model: model, Request: req})
}

// Tool implements [loop.Trace].
func (t *tracing) Tool(ctx context.Context, call *loop.Call) (context.Context, func(*mcp.CallToolResult, error)) {
	tool := call.Tool()
	return t.tracer.Tool(within{ctx, t.ctx}, &ToolTrace{Key: call.Key, ID: call.ID(), Server: tool.Server, Tool: tool.Name, Arguments: call.Arguments})
}

// within is a context with the values of another one behind its own.
type within struct {
	context.Context
	values context.Context
}

// Value implements [context.Context].
func (w within) Value(key any) any {
	if v := w.Context.Value(key); v != nil {
		return v
	}
	return w.values.Value(key)
}
