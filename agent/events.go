package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Event is something that happened in a run: one of the types below.
type Event interface {
	// Head returns the run of the event, its place there and its time.
	Head() Header
	// EventType names the type, such as "tool_started"; it does not change.
	EventType() string
}

// Header is the part that all events have.
type Header struct {
	RunID string `json:"runId"`
	// Seq is the number of the event in the run's journal. An event that is not written
	// there ([Text], [Thinking], [ToolProgress], [ModelRetried], [TurnRestarted], [StoreStalled])
	// and one of another run ([Nested]) has the number of the last one before it; so
	// numbers never fall, and may repeat.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	Path []string  `json:"path,omitempty"` // agents from the root to the one that runs
}

// Head returns h.
func (h Header) Head() Header { return h }

// The events.
type (
	// RunStarted is the first event.
	RunStarted struct {
		Header
		Agent  string `json:"agent,omitempty"`
		Model  string `json:"model"`
		Prompt string `json:"prompt"`
	}
	// ToolsListed lists the tools that the model may call from now on. It comes again
	// when they change.
	ToolsListed struct {
		Header
		Tools  []string `json:"tools"`
		Absent []Absent `json:"absent,omitempty"` // servers whose tools are missing
	}
	// Text is a piece of the model's answer. The pieces of a turn make up its text;
	// how it is cut depends on how fast they are read.
	Text struct {
		Header
		Turn  int    `json:"turn"`
		Delta string `json:"delta"`
	}
	// Thinking is a piece of the model's reasoning.
	Thinking struct {
		Header
		Turn  int    `json:"turn"`
		Delta string `json:"delta"`
	}
	// ModelTurn ends a turn of the model.
	ModelTurn struct {
		Header
		Turn   int              `json:"turn"` // from one
		Model  string           `json:"model,omitempty"`
		Finish llm.FinishReason `json:"finish"`
		Usage  Usage            `json:"usage"`
		Calls  int              `json:"calls"` // how many tool calls it asks for
	}
	// ToolStarted begins a call.
	ToolStarted struct {
		Header
		Key       string          `json:"key"`              // of the call, unique
		Server    string          `json:"server,omitempty"` // empty for a function of the program
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
		// Run is the run that the call is, of a sub-agent; empty for other tools.
		Run string `json:"run,omitempty"`
	}
	// ToolProgress is the progress of a call. Only the newest matters: a slow reader
	// gets that one, and a late reader none.
	ToolProgress struct {
		Header
		Key     string  `json:"key"`
		Tool    string  `json:"tool"`
		Done    float64 `json:"done"`
		Total   float64 `json:"total,omitzero"` // zero where unknown
		Message string  `json:"message,omitempty"`
	}
	// ToolResult ends a call. Made is false for one that was refused, declined or
	// did not fit the limits: it has no [ToolStarted].
	ToolResult struct {
		Header
		Key     string              `json:"key"`
		Server  string              `json:"server,omitempty"`
		Tool    string              `json:"tool"`
		Made    bool                `json:"made"`
		Late    bool                `json:"late,omitzero"`    // it came when the run was ending
		Unknown bool                `json:"unknown,omitzero"` // it may have taken effect or not
		Result  *mcp.CallToolResult `json:"result"`           // whole; the model may have seen less
	}
	// Ask is a question that waits for a human: may this call be made? Or, while a
	// call runs, a question of its server: see Question. Answer it, or leave it to
	// another reader.
	Ask struct {
		Header
		ID        string          `json:"id"`
		Kind      string          `json:"kind"`             // such as [KindTool]
		Server    string          `json:"server,omitempty"` // its configured name, never one that it has given itself
		Origin    string          `json:"origin,omitempty"` // where it is, such as its command
		Trust     string          `json:"trust"`            // "program", "trusted" or "untrusted"
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"` // exactly as they would be sent
		Hash      string          `json:"hash"`      // of the parts that are shown: server, tool, its definition and the arguments
		// Definition names exactly this tool of exactly this server, as both are defined
		// now; see [ToolCall].Definition.
		Definition string    `json:"definition,omitempty"`
		Expires    time.Time `json:"expires"`
		// Tainted is true if the run has seen untrusted content and private data, and
		// the call may carry them out.
		Tainted bool `json:"tainted,omitzero"`
		// Again is true if the policy asks about this call in spite of all earlier
		// approvals: [VerdictAskAgain].
		Again bool `json:"again,omitzero"`
		// Note says that the run goes on with other instructions, or another model, than it has
		// recorded. It is empty for one that does not.
		Note string `json:"note,omitempty"`
		// Question is a question of the server of a running call, with Arguments empty;
		// nil where a call is to be allowed.
		Question *mcpclient.Ask `json:"question,omitempty"`
		// Limit is the request of a run that has reached a limit; nil for all other
		// questions. See [AcceptMore].
		Limit *LimitQuestion `json:"limit,omitempty"`
		// Job is the job of a [KindJob], and why it gets no further; nil for all other questions.
		Job *JobQuestion `json:"job,omitempty"`
		// Sent is when the call of a [KindOutcome] was made for the last time; zero for all other
		// questions.
		Sent time.Time `json:"sent,omitzero"`
		// Why says why the outcome of a [KindOutcome] is unknown, perhaps in words of its server.
		Why string `json:"why,omitempty"`

		answer answerer
	}
	// AskSettled is the decision on a question.
	AskSettled struct {
		Header
		ID     string          `json:"id"`
		Status store.AskStatus `json:"status"`
		By     string          `json:"by,omitempty"`
		Reason string          `json:"reason,omitempty"`
	}
	// ModelRetried reports that the model did not answer; the run asks it again. A late
	// reader may not see it.
	ModelRetried struct {
		Header
		Model   string `json:"model"`
		Attempt int    `json:"attempt"` // the one that failed, from one
		Error   string `json:"error"`
		WaitMS  int64  `json:"waitMs"` // until the next, in milliseconds
	}
	// StoreStalled reports that the store does not take the run's events at the moment;
	// the run waits for it. A late reader may not see it.
	StoreStalled struct {
		Header
		Error string `json:"error"`
	}
	// StoreResumed reports that the store takes the run's events again.
	StoreResumed struct{ Header }
	// LimitReached reports that the next step does not fit a limit, and the reaction of
	// the run.
	LimitReached struct {
		Header
		// Account has the limit: the run's, or that of one above it. Empty for wall time.
		Account string  `json:"account,omitempty"`
		Limit   string  `json:"limit"` // as in [LimitError]
		Max     string  `json:"max"`
		Spent   string  `json:"spent,omitempty"`
		Then    OnLimit `json:"then"`
	}
	// LimitRaised reports that a human has allowed more.
	LimitRaised struct {
		Header
		Account string `json:"account"`
		Limit   string `json:"limit"`
		By      string `json:"by"` // how much more
	}
	// RunFinished is the last event.
	RunFinished struct {
		Header
		State  store.RunState `json:"state"`
		Result Result         `json:"result"`
		Error  string         `json:"error,omitempty"`
	}
)

// Absent is a server whose tools a run does without, and why.
type Absent struct {
	Server string `json:"server"`
	Reason string `json:"reason"`
}

// EventType implements [Event].
func (RunStarted) EventType() string { return "run_started" }

// EventType implements [Event].
func (ToolsListed) EventType() string { return "tools_listed" }

// EventType implements [Event].
func (Text) EventType() string { return "text" }

// EventType implements [Event].
func (Thinking) EventType() string { return "thinking" }

// EventType implements [Event].
func (ModelTurn) EventType() string { return "model_turn" }

// EventType implements [Event].
func (ToolStarted) EventType() string { return "tool_started" }

// EventType implements [Event].
func (ToolProgress) EventType() string { return "tool_progress" }

// EventType implements [Event].
func (ToolResult) EventType() string { return "tool_result" }

// EventType implements [Event].
func (Ask) EventType() string { return "ask" }

// EventType implements [Event].
func (AskSettled) EventType() string { return "ask_settled" }

// EventType implements [Event].
func (ModelRetried) EventType() string { return "model_retried" }

// EventType implements [Event].
func (StoreStalled) EventType() string { return "store_stalled" }

// EventType implements [Event].
func (StoreResumed) EventType() string { return "store_resumed" }

// EventType implements [Event].
func (LimitReached) EventType() string { return "limit_reached" }

// EventType implements [Event].
func (LimitRaised) EventType() string { return "limit_raised" }

// EventType implements [Event].
func (RunFinished) EventType() string { return "run_finished" }

// answerer gives decisions on the asks of one run.
type answerer func(ctx context.Context, ask string, d store.Decision) (store.Ask, error)
