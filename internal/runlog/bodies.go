package runlog

import (
	"encoding/json"
	"time"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// The bodies of a run's events.
type (
	// RunStarted is the body of run.started.
	RunStarted struct {
		Agent     string          `json:"agent,omitempty"`
		Parent    string          `json:"parent,omitempty"` // the run that has started it
		Path      []string        `json:"path,omitempty"`
		Hash      string          `json:"hash,omitempty"` // of the agent's configuration
		Model     string          `json:"model"`
		System    string          `json:"system,omitempty"`
		Input     []llm.Message   `json:"input"`
		Schema    json.RawMessage `json:"schema,omitzero"`
		Nonce     string          `json:"nonce"` // the first part of its calls' keys
		Steps     int             `json:"steps"`
		Tokens    int             `json:"tokens,omitzero"`
		ToolCalls int             `json:"toolCalls"`
		Cost      llm.Money       `json:"cost,omitzero"`
		// Like Steps, Tokens and ToolCalls these are limits; zero is none.
		ModelCalls int    `json:"modelCalls,omitzero"`
		Depth      int    `json:"depth,omitzero"`
		OnLimit    string `json:"onLimit,omitempty"`
		WallMS     int64  `json:"wallMs"`
		MaxResult  int    `json:"maxResult"`
		Repeats    int    `json:"repeats,omitzero"`  // how often the model may come to the same before it is told; below zero is no bound, zero in a journal of an earlier version
		V          int    `json:"v,omitzero"`        // [Version] of the journal; zero is the first
		Program    string `json:"program,omitempty"` // that began the run, with its version
		Fork       string `json:"fork,omitempty"`    // the run whose events stand before run.forked
		Asks       string `json:"asks,omitempty"`    // of a fork that has that run's Nonce: ends the IDs of its questions
		// With is what the program that started the run keeps for itself of how it did: an object of
		// its own. Empty of a journal of an earlier version.
		With json.RawMessage `json:"with,omitzero"`
	}
	// RunParked is the body of run.parked: the run waits without a process.
	RunParked struct {
		Why string `json:"why"`
		// Class is that of an outage, see [llm.Outage]; empty for any other reason. It lasts since Since, and the run
		// need not be resumed before Wake.
		Class string    `json:"class,omitempty"`
		Since time.Time `json:"since,omitzero"`
		Wake  time.Time `json:"wake,omitzero"`
	}
	// RunEnding is the body of run.ending: how the run ends was decided, and it has to wait for what is still under way.
	// Nothing begins any more, also where another process goes on with it.
	RunEnding struct {
		State      store.RunState  `json:"state"`
		Stop       string          `json:"stop"`
		Text       string          `json:"text,omitempty"`
		Structured json.RawMessage `json:"structured,omitzero"`
		Incomplete string          `json:"incomplete,omitempty"`
		Error      string          `json:"error,omitempty"`
		// The error is that of a limit, of a guard that has stopped the run, or of a call of unknown outcome at which it was to end.
		Limit   *LimitReached `json:"limit,omitzero"`
		Guard   *GuardActed   `json:"guard,omitzero"`
		Unknown bool          `json:"unknown,omitzero"`
	}
	// RunResumed is the body of run.resumed: another process, or the same one, goes on with the
	// run.
	RunResumed struct {
		Owner   string `json:"owner"`
		Program string `json:"program,omitempty"`
		// Drift says that the agent's configuration is not the one that the run began with.
		Drift bool `json:"drift,omitzero"`
		// Open are the keys of the calls that were open.
		Open []string `json:"open,omitempty"`
		// With is as in [RunStarted], from here on. Empty is as before.
		With json.RawMessage `json:"with,omitzero"`
		// Limits are those of an imported run from here on; nil where it has some already, and for any other.
		Limits *Limits `json:"limits,omitzero"`
	}
	// ToolsListed is the body of tools.listed. It comes before the first turn and
	// whenever something has changed since.
	ToolsListed struct {
		Tools  []ToolRef `json:"tools"`
		Absent []Absent  `json:"absent,omitempty"`
		// Texts are the instructions of servers for their tools: part of the system text.
		Texts []ServerText `json:"texts,omitempty"`

		kept *kept // nil unless it was encoded for many runs
	}
	// ToolRef pins a tool by the hash of its definition (SECA-38).
	ToolRef struct {
		Name   string `json:"name"`
		Server string `json:"server,omitempty"`
		Hash   string `json:"hash"`
	}
	// ModelIntent is the body of model.intent.
	ModelIntent struct {
		Turn      int `json:"turn"`     // from one
		Reserved  int `json:"reserved"` // tokens of input, estimated
		MaxTokens int `json:"maxTokens,omitzero"`
		// Held is the largest amount that is reserved for the turn.
		Held budget.Amount `json:"held,omitzero"`
		// Last is true of the turn with which the run wraps up.
		Last bool `json:"last,omitzero"`
		// WallLeftMS is what is left of the run's wall time.
		WallLeftMS int64 `json:"wallLeftMs,omitzero"`
		// Clamped says that a limit has less room than the turn's output would have had.
		Clamped bool `json:"clamped,omitzero"`
	}
	// ModelResult is the body of model.result.
	ModelResult struct {
		Turn     int              `json:"turn"`
		Message  llm.Message      `json:"message"`
		Thinking string           `json:"thinking,omitempty"`
		Finish   llm.FinishReason `json:"finish"`
		Usage    Usage            `json:"usage"`             // of all attempts
		Attempts int              `json:"attempts,omitzero"` // requests to the model; zero is one
		Model    string           `json:"model,omitempty"`
		Chosen   *Chosen          `json:"chosen,omitzero"` // by a router; nil where there was nothing to choose
		// Spoilt are the IDs of the calls whose arguments were no JSON object, or that were cut.
		Spoilt []string `json:"spoilt,omitempty"`
	}
	// ModelFailed is the body of model.failed. A journal written by an earlier version has
	// an intent without a result in its place.
	ModelFailed struct {
		Turn     int    `json:"turn"`
		Usage    Usage  `json:"usage"`             // of all attempts
		Attempts int    `json:"attempts,omitzero"` // requests to the model; zero is one
		Error    string `json:"error"`
		// Lost says that the turn is asked again under the same number: its process ended, and Usage
		// is all that was held for it, or the run was suspended, or left because of an outage.
		Lost bool `json:"lost,omitzero"`
		// Class is that of an outage, see [llm.Outage]; empty for any other reason.
		Class string `json:"class,omitempty"`
		// Unbilled says that no request counts: the provider has refused all of them.
		Unbilled bool `json:"unbilled,omitzero"`
	}
	// Spent is the body of spent, one request to a model. Together with those of
	// model.result and model.failed, and what the runs that were started have spent, the
	// sum is that of run.finished.
	Spent struct {
		What   string `json:"what"` // [SpentSampling] or [SpentSummary]
		Server string `json:"server,omitempty"`
		Model  string `json:"model,omitempty"`
		Usage  Usage  `json:"usage"`
	}
	// ToolIntent is the body of tool.intent; the event's Key is the call's.
	ToolIntent struct {
		Turn      int             `json:"turn"`
		CallID    string          `json:"callId"` // the model's
		Tool      string          `json:"tool"`
		Server    string          `json:"server,omitempty"`
		Hash      string          `json:"hash,omitempty"`
		Arguments json.RawMessage `json:"arguments"`
		Safe      bool            `json:"safe,omitzero"` // the call may be made twice
		Traits
	}
	// ToolDispatched is the body of tool.dispatched: from here on the call may have
	// had its effect.
	ToolDispatched struct {
		Turn   int    `json:"turn"`
		CallID string `json:"callId"`
		Run    string `json:"run,omitempty"` // that the call starts; empty for none
	}
	// ToolResult is the body of tool.result. A call without a dispatch was not
	// made: it was refused, declined, or did not fit the limits.
	ToolResult struct {
		Turn   int    `json:"turn"`
		CallID string `json:"callId"`
		Tool   string `json:"tool"`
		Server string `json:"server,omitempty"`
		Made   bool   `json:"made"`
		Late   bool   `json:"late,omitzero"` // it came when the run was ending
		// Repeated is which call of the same kind in a row it was, in a journal of an earlier version: the model has
		// read so in the result. Today it reads a note behind the results of the turn, see [AddedRepeats].
		Repeated int                 `json:"repeated,omitzero"`
		Result   *mcp.CallToolResult `json:"result"`
		NoRoom   bool                `json:"noRoom,omitzero"` // it did not fit a limit
	}
	// ToolUnknown is the body of tool.unknown: the call may have had its effect, and
	// the outcome cannot be known.
	ToolUnknown struct {
		Turn   int    `json:"turn"`
		CallID string `json:"callId"`
		Tool   string `json:"tool"`
		Server string `json:"server,omitempty"`
		Reason string `json:"reason"`
	}
	// AskOpened is the body of ask.opened: all that is needed to open it again.
	AskOpened struct {
		Ask store.Ask `json:"ask"`
	}
	// AskSettled is the body of ask.settled.
	AskSettled struct {
		Status store.AskStatus `json:"status"`
		By     string          `json:"by,omitempty"`
		Scope  string          `json:"scope,omitempty"`
		Reason string          `json:"reason,omitempty"`
		// Answer is that of a question at a limit, or about an outcome.
		Answer json.RawMessage `json:"answer,omitzero"`
	}
	// InputAdded is the body of input.added.
	InputAdded struct {
		Message llm.Message `json:"message"`
		Why     string      `json:"why,omitempty"` // [AddedRedo], …; empty in a journal of the first version
	}
	// LimitReached is the body of limit.reached. Amounts are written as in [budget.LimitError].
	LimitReached struct {
		Account string `json:"account,omitempty"` // whose limit it is; empty for wall time
		Limit   string `json:"limit"`
		Max     string `json:"max"`
		Spent   string `json:"spent,omitempty"`
		Then    string `json:"then"` // what the run does: [LimitStop], …
	}
	// LimitRaised is the body of limit.raised. Of an account above the run's it holds
	// for all below that one.
	LimitRaised struct {
		Account string `json:"account"`
		Limit   string `json:"limit"`
		By      string `json:"by"`
	}
	// RunFinished is the body of run.finished.
	RunFinished struct {
		State      store.RunState  `json:"state"`
		Stop       string          `json:"stop"`
		Text       string          `json:"text,omitempty"`
		Structured json.RawMessage `json:"structured,omitzero"`
		Incomplete string          `json:"incomplete,omitempty"` // what the answer lacks: see [Incomplete]
		Error      string          `json:"error,omitempty"`
		Usage      Usage           `json:"usage"`
		Steps      int             `json:"steps"`
		ToolCalls  int             `json:"toolCalls"`
		Spent      budget.Amount   `json:"spent,omitzero"`
	}
	// ToolTask is the body of tool.task: another process can ask the server for its outcome.
	ToolTask struct {
		Turn   int    `json:"turn"`
		CallID string `json:"callId"`
		Task   string `json:"task"` // the server's ID of it
	}
	// ToolRound is the body of tool.round: the server has not carried out the call, and wants input
	// first. A further tool.dispatched says that the next round is about to be sent.
	ToolRound struct {
		Turn     int               `json:"turn"`
		CallID   string            `json:"callId"`
		Requests mcp.InputRequests `json:"requests,omitempty"`
		// State is to be sent back as it is. It is a secret of the server's; nil is none.
		State *string `json:"requestState,omitzero"`
	}
	// ToolWaiting is the body of tool.waiting: the call had no effect yet. When it goes on
	// tool.dispatched follows.
	ToolWaiting struct {
		Turn   int    `json:"turn"`
		CallID string `json:"callId"`
		Tool   string `json:"tool"`
		Server string `json:"server,omitempty"`
		For    string `json:"for"` // such as: an instance of server "files" (4 of 4 in use)
	}
)

// The bodies of events beside asking the model and calling tools.
type (
	// GuardActed is the body of guard.acted.
	GuardActed struct {
		Guard  string `json:"guard,omitempty"`
		Point  string `json:"point"`
		Action string `json:"action"` // [GuardChanged], [GuardRefused] or [GuardStopped]
		Text   string `json:"text,omitempty"`
	}
	// HistoryCut is the body of history.cut. What is left out stays in the journal.
	HistoryCut struct {
		Turn    int         `json:"turn"`   // from which on
		Before  int         `json:"before"` // tokens of the request, estimated
		After   int         `json:"after"`
		Limit   int         `json:"limit"`
		Forced  bool        `json:"forced,omitzero"`   // the model had said that it was too much
		Results []CutResult `json:"results,omitempty"` // that were cut, or replaced by a mark
		// Messages is how many were left out now, behind the first one and what was
		// left out before; Dropped is how many in all.
		Messages int    `json:"messages,omitzero"`
		Dropped  int    `json:"dropped,omitzero"`
		Summary  string `json:"summary,omitempty"` // of all that was left out
		// NoSummary is why there is no newer one.
		NoSummary string `json:"noSummary,omitempty"`
	}
	// CutResult is a result that the model sees no more, or less of.
	CutResult struct {
		CallID string `json:"callId"`
		Tool   string `json:"tool"`
		Bytes  int    `json:"bytes"` // as it was
		// Kept bounds the text that is left of it, as of [toolresult.Clip]; zero is a mark in its place.
		Kept int `json:"kept,omitzero"`
	}
	// AgentChanged is the body of agent.changed.
	AgentChanged struct {
		Turn   int      `json:"turn"` // after which
		From   string   `json:"from,omitempty"`
		To     string   `json:"to"`
		Path   []string `json:"path"`
		Hash   string   `json:"hash,omitempty"`
		Model  string   `json:"model"`
		System string   `json:"system,omitempty"`
	}
	// StopMet is the body of stop.met.
	StopMet struct {
		Turn      int    `json:"turn"`
		Condition string `json:"condition"`
	}
	// QuestionDeclined is the body of question.declined. What was asked is not in it: it may
	// be another run's.
	QuestionDeclined struct {
		Kind   string `json:"kind"`
		Server string `json:"server,omitempty"`
		Tool   string `json:"tool"`
		Reason string `json:"reason"`
	}
	// Tainted is the body of run.tainted.
	Tainted struct {
		Seen   Taint  `json:"seen"`
		Tool   string `json:"tool"`
		Server string `json:"server,omitempty"`
	}
	// Chosen is a router's choice of a model.
	Chosen struct {
		Model    string `json:"model"`
		Reason   string `json:"reason,omitempty"`
		Fallback int    `json:"fallback,omitzero"` // how many candidates have failed before
	}
)
