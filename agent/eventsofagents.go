package agent

import (
	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Events between an agent and its models, guards and other agents.
type (
	// ModelChosen names the model that a router has taken for a turn, and the reason. It
	// may come again in a turn, when that model has failed.
	ModelChosen struct {
		Header
		Turn     int    `json:"turn"`
		Model    string `json:"model"`
		Reason   string `json:"reason,omitempty"`
		Fallback int    `json:"fallback,omitzero"` // how many candidates have failed before
	}
	// TurnRestarted reports that the model failed in the midst of a turn. The run asks it
	// again: all [Text] and [Thinking] of the turn so far is void. A late reader may
	// see neither the event nor the void text.
	TurnRestarted struct {
		Header
		Turn int `json:"turn"`
	}
	// GuardActed reports that a [Guard] has changed, refused or stopped something.
	GuardActed struct {
		Header
		Key    string     `json:"key,omitempty"` // of the call it is about; empty for none
		Guard  string     `json:"guard,omitempty"`
		Point  GuardPoint `json:"point"`
		Action string     `json:"action"` // "changed", "refused" or "stopped"
		Text   string     `json:"text,omitempty"`
	}
	// HistoryCut reports that the model does not see all of the conversation any more.
	HistoryCut struct {
		Header
		Turn     int    `json:"turn"` // from which on
		Before   int    `json:"before"`
		After    int    `json:"after"`             // tokens, estimated
		Results  int    `json:"results,omitzero"`  // results of tools that were shortened
		Messages int    `json:"messages,omitzero"` // messages that were left out
		Summary  string `json:"summary,omitempty"` // in place of all that was left out so far
		Forced   bool   `json:"forced,omitzero"`   // the model had refused the turn
	}
	// HandedOff reports that another agent goes on with the conversation. The Path of
	// later events ends with it.
	HandedOff struct {
		Header
		Key   string `json:"key"` // of the call that has handed over
		From  string `json:"from,omitempty"`
		To    string `json:"to"`
		Model string `json:"model"`
	}
	// StopConditionMet names the condition that ends the run with this turn.
	StopConditionMet struct {
		Header
		Turn      int    `json:"turn"`
		Condition string `json:"condition"`
	}
	// QuestionDeclined reports that the runtime declined a question of a server without
	// asking it, because the question may belong to several calls, or because of a limit.
	// The question itself is not in it: it may be another run's.
	QuestionDeclined struct {
		Header
		Key    string `json:"key"`  // of the call that it may belong to
		Kind   string `json:"kind"` // as [Ask].Kind
		Server string `json:"server,omitempty"`
		Tool   string `json:"tool"`
		Reason string `json:"reason"`
	}
	// ToolWaiting reports that a call has to wait before it is sent: it had no effect yet.
	// When it goes on [ToolStarted] follows.
	ToolWaiting struct {
		Header
		Key    string `json:"key"` // of the call
		Server string `json:"server,omitempty"`
		Tool   string `json:"tool"`
		For    string `json:"for"` // such as: an instance of server "files" (4 of 4 in use)
	}
	// Tainted reports a taint that the run, or one of its tree, has from here on, if
	// that is news to this run.
	Tainted struct {
		Header
		Key    string `json:"key"` // of the call whose result came last
		Server string `json:"server,omitempty"`
		Tool   string `json:"tool"`
		Seen   Taint  `json:"seen"`
	}
	// Nested is an event of a run that a call has started: a sub-agent's. The events
	// of that run all come, in its own order and before the call's [ToolResult], an
	// [Ask] among them: the person who answers for a run answers for its sub-agents. [Unnest]
	// returns the event itself, however deep it is. The events of a run that is read
	// from the store, of another process or of the past, have none: the store has that
	// run by the name in [ToolStarted].
	Nested struct {
		Header
		Key   string // of the call
		Event Event
	}
)

// Unnest returns the event of a sub-agent's run that ev is about, or else ev.
func Unnest(ev Event) Event {
	for {
		n, ok := ev.(Nested)
		if !ok {
			return ev
		}
		ev = n.Event
	}
}

// MarshalJSON writes the event inside with its type as the first member.
func (n Nested) MarshalJSON() ([]byte, error) {
	body, err := jsonx.Marshal(n.Event)
	if err != nil {
		return nil, err
	}
	inside := jsonx.AppendQuote([]byte(`{"type":`), n.Event.EventType())
	if len(body) > 2 {
		inside = append(inside, ',')
	}
	return jsonx.Marshal(struct {
		Header
		Key   string      `json:"key"`
		Event jsonx.Value `json:"event"`
	}{n.Header, n.Key, append(inside, body[1:]...)})
}

// EventType implements [Event].
func (ModelChosen) EventType() string { return "model_chosen" }

// EventType implements [Event].
func (TurnRestarted) EventType() string { return "turn_restarted" }

// EventType implements [Event].
func (GuardActed) EventType() string { return "guard_acted" }

// EventType implements [Event].
func (HistoryCut) EventType() string { return "history_cut" }

// EventType implements [Event].
func (HandedOff) EventType() string { return "handed_off" }

// EventType implements [Event].
func (StopConditionMet) EventType() string { return "stop_condition_met" }

// EventType implements [Event].
func (QuestionDeclined) EventType() string { return "question_declined" }

// EventType implements [Event].
func (Tainted) EventType() string { return "tainted" }

// EventType implements [Event].
func (ToolWaiting) EventType() string { return "tool_waiting" }

// EventType implements [Event].
func (Nested) EventType() string { return "nested" }
