package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Types of events that only a run writes, beside those of package store.
const (
	ToolsListedType = "tools.listed" // what the model may call from now on
	ModelIntentType = "model.intent" // the model is about to be asked; what was reserved for it
	ModelFailedType = "model.failed" // the model was asked, and the turn has no result
	InputAddedType  = "input.added"  // a message of the run itself to the model
	SpentType       = "spent"        // what was paid for beside the turns; Key is the call's, empty for none

	LimitReachedType = "limit.reached" // what comes next does not fit the limits
	LimitRaisedType  = "limit.raised"  // a human has allowed more
)

// Entry is an event of a run with its body decoded: one of the pointers below.
type Entry struct {
	Seq  int64
	Time time.Time
	Type string
	Key  string // of the tool call or ask it belongs to
	Body any
}

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
		ModelCalls int     `json:"modelCalls,omitzero"`
		Depth      int     `json:"depth,omitzero"`
		OnLimit    OnLimit `json:"onLimit,omitempty"`
		WallMS     int64   `json:"wallMs"`
		MaxResult  int     `json:"maxResult"`
	}
	// ToolsListed is the body of tools.listed. It comes before the first turn and
	// whenever something has changed since.
	ToolsListed struct {
		Tools  []ToolRef `json:"tools"`
		Absent []Absent  `json:"absent,omitempty"`
		// Texts are what servers say of how to use their tools: part of the system text.
		Texts []ServerText `json:"texts,omitempty"`
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
		// Held is what is reserved for the turn at its most.
		Held budget.Amount `json:"held,omitzero"`
		// Last says that it is the turn with which the run wraps up.
		Last bool `json:"last,omitzero"`
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
	}
	// ModelFailed is the body of model.failed. A journal written by an earlier version has
	// an intent without a result in its place.
	ModelFailed struct {
		Turn     int    `json:"turn"`
		Usage    Usage  `json:"usage"`             // of all attempts
		Attempts int    `json:"attempts,omitzero"` // requests to the model; zero is one
		Error    string `json:"error"`
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
		// Repeated is which call of the same kind in a row it was, from the one on which
		// the model is told so; else zero.
		Repeated int                 `json:"repeated,omitzero"`
		Result   *mcp.CallToolResult `json:"result"`
	}
	// ToolUnknown is the body of tool.unknown: the call may have had its effect, and
	// nobody can know.
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
	}
	// InputAdded is the body of input.added.
	InputAdded struct {
		Message llm.Message `json:"message"`
	}
	// LimitReached is the body of limit.reached. Amounts are written as in [LimitError].
	LimitReached struct {
		Account string  `json:"account,omitempty"` // whose limit it is; empty for wall time
		Limit   string  `json:"limit"`
		Max     string  `json:"max"`
		Spent   string  `json:"spent,omitempty"`
		Then    OnLimit `json:"then"` // what the run does
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
		Error      string          `json:"error,omitempty"`
		Usage      Usage           `json:"usage"`
		Steps      int             `json:"steps"`
		ToolCalls  int             `json:"toolCalls"`
		Spent      budget.Amount   `json:"spent,omitzero"`
	}
)

// ApprovalPayload is what an ask of the kind "tool" decides on; the ask's Hash is
// that of this payload in canonical form (SECA-41).
type ApprovalPayload struct {
	Server     string          `json:"server,omitempty"`
	Tool       string          `json:"tool"`
	Definition string          `json:"definition,omitempty"` // its hash
	Source     string          `json:"source,omitempty"`     // which server of that name, see [Tool].Source
	Arguments  json.RawMessage `json:"arguments"`
	// Tainted says that the run has seen untrusted content and private data, and that
	// the call may carry them out (SECA-44).
	Tainted bool `json:"tainted,omitzero"`
	// Again says that the policy asks whatever was allowed before, see [AskAgain].
	Again bool `json:"again,omitzero"`
}

// Bound returns the name of exactly this tool of exactly this server, see [Tool.Bound].
func (p *ApprovalPayload) Bound() string { return bound(p.Source, p.Definition) }

// Bound returns the name of exactly this tool of exactly this server, as both are defined
// now: what an approval that outlives a run is bound to. It is empty where one of the two
// is not known, as for a function of the program.
func (t *Tool) Bound() string { return bound(t.Source, t.Hash) }

func bound(source, hash string) string {
	if source == "" || hash == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(source + "\x00" + hash))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// bodies makes the body of each type of event.
var bodies = map[string]func() any{
	store.RunStarted:     func() any { return new(RunStarted) },
	ToolsListedType:      func() any { return new(ToolsListed) },
	ModelIntentType:      func() any { return new(ModelIntent) },
	store.ModelResult:    func() any { return new(ModelResult) },
	ModelFailedType:      func() any { return new(ModelFailed) },
	SpentType:            func() any { return new(Spent) },
	store.ToolIntent:     func() any { return new(ToolIntent) },
	store.ToolDispatched: func() any { return new(ToolDispatched) },
	store.ToolResult:     func() any { return new(ToolResult) },
	store.ToolUnknown:    func() any { return new(ToolUnknown) },
	store.AskOpened:      func() any { return new(AskOpened) },
	store.AskSettled:     func() any { return new(AskSettled) },
	InputAddedType:       func() any { return new(InputAdded) },
	LimitReachedType:     func() any { return new(LimitReached) },
	LimitRaisedType:      func() any { return new(LimitRaised) },
	store.RunFinished:    func() any { return new(RunFinished) },
	GuardActedType:       func() any { return new(GuardActed) },
	HistoryCutType:       func() any { return new(HistoryCut) },
	AgentChangedType:     func() any { return new(AgentChanged) },
	StopMetType:          func() any { return new(StopMet) },
	QuestionDeclinedType: func() any { return new(QuestionDeclined) },
	TaintedType:          func() any { return new(Tainted) },
	ToolWaitingType:      func() any { return new(ToolWaiting) },
}

// Decode reads an event that a run has written. An event of a type it does not
// know, such as one of a later version, has its raw body.
func Decode(ev store.Event) (Entry, error) {
	e := Entry{Seq: ev.Seq, Time: ev.Time, Type: ev.Type, Key: ev.Key}
	make, ok := bodies[ev.Type]
	if !ok {
		e.Body = ev.Body
		return e, nil
	}
	e.Body = make()
	if err := jsonx.Unmarshal(ev.Body, e.Body); err != nil {
		return Entry{}, fmt.Errorf("reading event %d (%s) of run %q: %w", ev.Seq, ev.Type, ev.Run, err)
	}
	return e, nil
}

// encode makes the event to append. What does not fit a store is cut where that
// loses no more than a display would.
func (e *Entry) encode() (store.Event, error) {
	body, err := jsonx.Marshal(e.Body)
	if err == nil && len(body) > store.MaxBody {
		switch b := e.Body.(type) {
		case *ToolResult:
			cut := *b
			cut.Result = cutForJournal(b.Result)
			body, err = jsonx.Marshal(&cut)
		case *ModelResult:
			cut := *b
			cut.Thinking = ""
			body, err = jsonx.Marshal(&cut)
		case *RunFinished: // the model's last result has all of it
			cut := *b
			cut.Text, cut.Structured = clip(b.Text, store.MaxBody/16), nil
			body, err = jsonx.Marshal(&cut)
		}
	}
	if err != nil {
		return store.Event{}, fmt.Errorf("writing the event %s: %w", e.Type, err)
	}
	return store.Event{Time: e.Time, Type: e.Type, Key: e.Key, Body: body}, nil
}
