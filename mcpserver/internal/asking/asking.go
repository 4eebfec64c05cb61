// Package asking is the door between mcpserver and its packages sampling and connect: what a
// loop with a model needs of the handler that waits for it, what the handler needs of a model
// of the server's own, and where a server's actors live. None of it is for others.
package asking

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/mcp"
)

// Model is a model of the server's own, which one server opens.
type Model interface {
	// Check reports a setting that makes no sense.
	Check() error
	// Open puts the model under the supervision of an actor of that name.
	Open(sys *actors.System, name string) (OpenModel, error)
}

// OpenModel answers for clients that have no model.
type OpenModel interface {
	Name() string
	// Answer runs one turn for a client.
	Answer(ctx context.Context, client string, p *mcp.CreateMessageParams) (Answer, error)
	// Close ends the turns. It does not wait longer than ctx.
	Close(ctx context.Context)
}

// Answer is what the own model has answered, as it is kept for a handler that runs again.
type Answer struct {
	Result *mcp.CreateMessageResult `json:"result,omitzero"`
	Usage  json.RawMessage          `json:"usage,omitzero"` // the model's, opaque to the server
	// Client says that the client was asked instead.
	Client bool `json:"client,omitzero"`
}

// Handler is a handler's call, to what runs in it.
type Handler interface {
	Name() string // of the tool, prompt or resource
	Log() *slog.Logger
	Grace() time.Duration
	Cause() error // why the handler is to end, nil while it is not
	// Within returns ctx, which ends with the call too.
	Within(ctx context.Context) (_ context.Context, stop func())
	// Once does what must not be done twice, under a key of any length. Done says that it
	// was done before.
	Once(ctx context.Context, key string, f func(ctx context.Context) (json.RawMessage, error)) (result json.RawMessage, done bool, err error)
	// Skip passes over recorded answers, which belong to work that was done once.
	Skip(answers int32)
	// Model is the server's own, nil without.
	Model() OpenModel
	// AskModel asks that, once for the key.
	AskModel(ctx context.Context, key string, p *mcp.CreateMessageParams) (Answer, error)
	// HasModel reports whether the client has a model for the question, and Missing what it
	// lacks.
	HasModel(p *mcp.CreateMessageParams) bool
	Missing(p *mcp.CreateMessageParams) error
	// Turns bounds the turns of a loop by the rounds that are left of so many, where the
	// client is asked in rounds.
	Turns(ctx context.Context, turns, rounds int) (int, error)
	// Remark adds a text to the result of a tool. It is asked for once, when the handler has
	// returned a result; "" adds none, as do other handlers.
	Remark(text func() string)
	// LoopID names a loop of the server, and Start runs start in the Receive of its parent.
	// If ctx ends before, cancel is called after start.
	LoopID() string
	Start(ctx context.Context, start func(*actors.Context) error, cancel func(error)) error
}

// Of returns the handler's call of a [mcpserver.Requester]. The error says that the handler
// cannot ask. It is set by mcpserver.
var Of func(requester any) (Handler, error)

// Tool is a tool's definition, and what follows from it and the types of its function.
type Tool interface {
	Definition() *mcp.Tool
	Defaults() []byte // of the arguments, as one object; nil without
	Input() *schema.Schema
	Result(out any) (*mcp.CallToolResult, error)
}

// NewTool makes one. It is set by mcpserver.
var NewTool func(t *mcp.Tool, in, out reflect.Type) (Tool, error)

// SystemOf returns the actor system of a [mcpserver.Server]. It is set by mcpserver.
var SystemOf func(server any) *actors.System

// Asked is the key of a counter, an [*atomic.Int32], in the context of what is done once: of
// the questions answered in it, which are not asked again then.
type Asked struct{}

// MaxKey bounds the key of a question, in bytes.
const MaxKey = 256
