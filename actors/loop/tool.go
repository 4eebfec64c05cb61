package loop

import (
	"context"
	"encoding/json"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Tools is where the tools of a run come from. It is asked before every turn, in
// a task, and should answer from what is known already.
type Tools interface {
	// List returns the tools in a stable order, with unique names, and which
	// servers' tools are missing.
	List(ctx context.Context) ([]Tool, []Absent)
}

// Absent is a server whose tools a run does without.
type Absent struct {
	Server string `json:"server"`
	Reason string `json:"reason"`
}

// Tool is something the model may call.
type Tool struct {
	llm.Tool
	Server string // its configured name; empty for a function of the program
	Origin string // where the server is, such as its command
	Hash   string // of the whole definition

	// What a gate goes by. ReadOnly is the server's own word, and worth nothing
	// unless Trusted, which is the user's (SECA-40).
	ReadOnly, Trusted, NeedsApproval bool

	// Validate refuses arguments, with an error the model can act on. Nil takes all
	// JSON objects.
	Validate func(args json.RawMessage) error
	// Do makes the call. Its error becomes a result with isError; an
	// [*UnknownError] says that the call may have had its effect.
	Do func(ctx context.Context, call *Call) (*mcp.CallToolResult, error)
}

// Call is one call of a tool.
type Call struct {
	Run       string // the run's ID
	Key       string // its idempotency key
	Arguments json.RawMessage
	Progress  func(Progress) // never nil

	run  actors.Ref
	call *call
}

// UnknownError is a call whose outcome nobody knows, such as one whose connection
// was lost after it had been sent.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string { return "the outcome of the call is unknown: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Err }
