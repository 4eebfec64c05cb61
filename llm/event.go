package llm

import "encoding/json"

// Event is a part of a turn: [TextDelta], [ThinkingDelta], [ToolCall], [Usage] or
// [Finish].
type Event interface{ event() }

// TextDelta is a piece of the answer's text; it is never empty.
type TextDelta struct{ Text string }

// ThinkingDelta is a piece of the model's reasoning; it is never empty. It belongs
// to the transcript, and is never sent on to an MCP server. What a model's provider wants
// back of it is in [Finish.State].
type ThinkingDelta struct{ Text string }

// ToolCall is a call that the model asks for, whole.
type ToolCall struct {
	// Index counts the calls of the turn from zero.
	Index int
	// ID is unique in the turn: the server's, or one made here where that is empty
	// or used twice.
	ID   string
	Name string
	// Arguments is one valid JSON object in its own text, "{}" where there are none.
	// Numbers keep all their digits. It has not been checked against a schema.
	Arguments json.RawMessage
	// State is what the provider has attached to the call. Nil is nothing.
	State []ProviderState
}

// Usage says how many tokens a turn has cost. It comes once, before [Finish].
type Usage struct {
	Input  int
	Output int
	// Estimated is set where the server gave no numbers and these are counted from bytes.
	Estimated bool
}

// FinishReason says why a turn has ended. Values not listed here are the
// provider's own words.
type FinishReason string

// The finish reasons that all clients share.
const (
	FinishStop          FinishReason = "stop"           // a natural end, or one of [Request.Stop]
	FinishLength        FinishReason = "length"         // the token limit; calls that were cut are in [Finish.Cut]
	FinishToolCalls     FinishReason = "tool_calls"     // there is at least one [ToolCall], or one in [Finish.Cut]
	FinishContentFilter FinishReason = "content_filter" // the provider withheld the rest
	FinishRefusal       FinishReason = "refusal"        // the model refused; the text says why
	FinishStopSequence  FinishReason = "stop_sequence"  // one of [Request.Stop] that was looked for here
)

// Finish is the last event of a turn that has completed.
type Finish struct {
	Reason FinishReason
	// Model is the name the server gave, or else the one that was asked for.
	Model string
	// Cut are the calls that must not be made, with what there is of their arguments: the end of the turn has
	// cut them, by its token limit or a filter, or what the model has written is no JSON object. The caller answers
	// them, and the model can do better. Nil is none.
	Cut []ToolCall
	// State is what the provider has attached to the answer. Nil is nothing.
	State []ProviderState
}

func (TextDelta) event()     {}
func (ThinkingDelta) event() {}
func (ToolCall) event()      {}
func (Usage) event()         {}
func (Finish) event()        {}
