package loop

// Types of events of what a run does beside asking the model and calling tools.
const (
	GuardActedType   = "guard.acted"   // a guard has changed, refused or stopped something; Key is the call's
	HistoryCutType   = "history.cut"   // part of the conversation is left out from now on
	AgentChangedType = "agent.changed" // another agent goes on; Key is that of the call that handed over
	StopMetType      = "stop.met"      // the condition to stop the run holds
	// A question of a server was declined without being asked; Key is that of the call that
	// it may belong to.
	QuestionDeclinedType = "question.declined"
	TaintedType          = "run.tainted" // what the tree of runs has seen, from a result on; Key is the call's
)

type (
	// GuardActed is the body of guard.acted.
	GuardActed struct {
		Guard  string     `json:"guard,omitempty"`
		Point  GuardPoint `json:"point"`
		Action string     `json:"action"` // [GuardChanged], [GuardRefused] or [GuardStopped]
		Text   string     `json:"text,omitempty"`
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
		// Kept bounds the text that is left of it, as of [Fit]; zero is a mark in its place.
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
