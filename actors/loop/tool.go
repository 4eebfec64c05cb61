package loop

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Tools is where the tools of a run come from. It is asked before every turn, in
// a task, and should answer from what is known already.
type Tools interface {
	// List returns the tools in a stable order, with unique names, and which
	// servers' tools are missing.
	List(ctx context.Context) ([]Tool, []runlog.Absent)
}

// Tool is something the model may call.
type Tool struct {
	llm.Tool
	Server string // its configured name; empty for a function of the program
	Origin string // where the server is, such as its command
	Hash   string // of the whole definition
	Source string // which server of that name it is: a hash of how it is defined; may be empty

	// What a gate goes by. ReadOnly is the server's own word, and worth nothing
	// unless Trusted, which is the user's (SECA-40).
	ReadOnly, Trusted, NeedsApproval bool

	// Safe says that a call may be made twice, as it has no effect, or the same one.
	Safe bool
	// Taint is what the tool has to do with the lethal trio (SECA-44). OpenWorld is the
	// server's own word that it deals with the outside.
	Taint     runlog.Taint
	OpenWorld bool
	// HandOff, if it is not nil, makes a call of the tool hand the conversation to
	// another agent, once the turn is over: to the one that the configuration
	// describes. Of it counts what [Config.takeOver] takes.
	HandOff func() *Config
	// Child names the run that a call with that key starts; nil for tools that start
	// none.
	Child func(key string) string

	// Validate refuses arguments, with an error the model can act on. Nil takes all
	// JSON objects.
	Validate func(args json.RawMessage) error
	// Do makes the call. Its error becomes a result with isError; an
	// [*UnknownError] says that the call may have had its effect.
	Do func(ctx context.Context, call *Call) (*mcp.CallToolResult, error)
	// Go makes the call in place of Do, where it is set, and keeps no goroutine while it
	// waits: it calls done once, on any goroutine.
	Go func(ctx context.Context, call *Call, done func(*mcp.CallToolResult, error))
	// Dispatches says that Go calls [Call.Dispatch] when a call has all that it needs and is
	// about to be sent: until then it is not recorded as dispatched, and was not made.
	Dispatches bool
}

// Bound returns the name of exactly this tool of exactly this server, see [runlog.Bound].
func (t *Tool) Bound() string { return runlog.Bound(t.Source, t.Hash) }

// Call is one call of a tool.
type Call struct {
	Run       string // the run's ID
	Key       string // its idempotency key
	Arguments json.RawMessage
	Progress  func(Progress) // never nil

	run   actors.Ref
	call  *call
	spend *spend.Spending // nil outside of a run
	left  time.Duration
}

// Budget returns the account of the run that makes the call: for what the call spends
// itself, such as the answers that its server samples, and as the parent of a
// sub-agent's account. It is nil outside of a run.
func (c *Call) Budget() *budget.Account {
	if c.spend == nil {
		return nil
	}
	return c.spend.Account()
}

// Charge settles a hold of [Call.Budget] with what was spent during the call, and has it
// written into the run's journal under the call's key. It may be called from any
// goroutine. What comes after the run's end is charged only.
func (c *Call) Charge(hold *budget.Hold, s runlog.Spent) {
	if c.spend == nil {
		hold.Settle(spend.Amount(&s))
		return
	}
	c.spend.Note(hold, c.Key, s)
	c.run.Send(noteSpent{})
}

// Left returns how much of its wall time the run had left when the call was made; zero
// outside of a run. A run that the call starts has no longer than that.
func (c *Call) Left() time.Duration { return c.left }

// UnknownError is a call of unknown outcome, such as one whose connection
// was lost after it had been sent.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string { return "the outcome of the call is unknown: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Err }

// TaintState is what a tree of runs has seen so far. Its zero value has seen nothing.
// Its methods may be called from any goroutine.
type TaintState struct{ seen atomic.Uint32 }

const (
	seenUntrusted = 1 << iota
	seenPrivate
)

// Seen returns what was seen. Outbound is never set.
func (s *TaintState) Seen() runlog.Taint {
	seen := s.seen.Load()
	return runlog.Taint{Untrusted: seen&seenUntrusted != 0, Private: seen&seenPrivate != 0}
}

// Lethal reports whether both halves were seen: then nothing may go out unasked.
func (s *TaintState) Lethal() bool { return s.seen.Load() == seenUntrusted|seenPrivate }

// add notes the result of a tool, and returns all that was seen.
func (s *TaintState) add(t runlog.Taint) runlog.Taint {
	if t.Untrusted {
		s.seen.Or(seenUntrusted)
	}
	if t.Private {
		s.seen.Or(seenPrivate)
	}
	return s.Seen()
}
