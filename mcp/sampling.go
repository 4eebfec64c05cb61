package mcp

import (
	"encoding/json"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// CreateMessageParams are the params of sampling/createMessage.
type CreateMessageParams struct {
	Messages         []SamplingMessage `json:"messages"`
	MaxTokens        int64             `json:"maxTokens"`
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitzero"`
	SystemPrompt     string            `json:"systemPrompt,omitzero"`
	IncludeContext   string            `json:"includeContext,omitzero"` // "" means none
	Temperature      *float64          `json:"temperature,omitzero"`
	StopSequences    []string          `json:"stopSequences,omitzero"`
	Metadata         json.RawMessage   `json:"metadata,omitzero"`   // an object, for the provider
	Tools            []Tool            `json:"tools,omitzero"`      // 2025-11-25 on
	ToolChoice       *ToolChoice       `json:"toolChoice,omitzero"` // 2025-11-25 on
	Task             *TaskOptions      `json:"task,omitzero"`       // 2025-11-25
	Meta             Meta              `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Values of includeContext.
const (
	ContextNone       = "none"
	ContextThisServer = "thisServer"
	ContextAllServers = "allServers"
)

// Validate checks that messages and maxTokens are there. The balance of tool
// calls and results is [CreateMessageParams.CheckToolBalance].
func (p *CreateMessageParams) Validate() error {
	if err := required(MethodCreateMessage, "messages", p.Messages != nil); err != nil {
		return err
	}
	return required(MethodCreateMessage, "a positive maxTokens", p.MaxTokens > 0)
}

// ModelPreferences are advice on the choice of a model.
type ModelPreferences struct {
	Hints                []ModelHint `json:"hints,omitzero"` // in order, first match wins
	CostPriority         *float64    `json:"costPriority,omitzero"`
	SpeedPriority        *float64    `json:"speedPriority,omitzero"`
	IntelligencePriority *float64    `json:"intelligencePriority,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ModelHint names a model by a part of its name.
type ModelHint struct {
	Name string `json:"name,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ToolChoice says whether the model may or must call tools.
type ToolChoice struct {
	Mode string `json:"mode,omitzero"` // "" means auto

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Values of ToolChoice.Mode.
const (
	ToolChoiceAuto     = "auto"
	ToolChoiceRequired = "required"
	ToolChoiceNone     = "none"
)

// SamplingMessage is one message of a conversation. Content is written as a
// single block when there is one, which every revision reads.
type SamplingMessage struct {
	Role    Role
	Content Contents
	Meta    Meta

	Extra map[string]json.RawMessage
}

type samplingMessageWire struct {
	Role    Role                       `json:"role"`
	Content json.RawMessage            `json:"content"`
	Meta    Meta                       `json:"_meta,omitzero"`
	Extra   map[string]json.RawMessage `json:",inline,embed"`
}

// MarshalJSON writes the message.
func (m SamplingMessage) MarshalJSON() ([]byte, error) {
	content, err := marshalOneOrMore(m.Content)
	if err != nil {
		return nil, err
	}
	return jsonx.Marshal(samplingMessageWire{m.Role, content, m.Meta, m.Extra})
}

// UnmarshalJSON reads a message; a role and content must be there.
func (m *SamplingMessage) UnmarshalJSON(raw []byte) error {
	if err := needMembers(raw, "sampling message", "role", "content"); err != nil {
		return err
	}
	var w samplingMessageWire
	if err := jsonx.Unmarshal(raw, &w); err != nil {
		return fmt.Errorf("reading a sampling message: %w", err)
	}
	if !w.Role.Valid() {
		return fmt.Errorf("reading a sampling message: unknown role %q", w.Role)
	}
	content, err := decodeContents(w.Content, false)
	if err != nil {
		return fmt.Errorf("reading a sampling message: %w", err)
	}
	*m = SamplingMessage{Role: w.Role, Content: content, Meta: w.Meta, Extra: w.Extra}
	return nil
}

// marshalOneOrMore writes one block as an object and several as an array.
func marshalOneOrMore(cs Contents) ([]byte, error) {
	if len(cs) == 1 {
		return marshalContent(cs[0])
	}
	return cs.MarshalJSON()
}

// CreateMessageResult answers sampling/createMessage.
type CreateMessageResult struct {
	Role       Role // assistant
	Content    Contents
	Model      string
	StopReason string // "" when absent
	Meta       Meta

	Extra map[string]json.RawMessage
}

// Values of stopReason; others are allowed.
const (
	StopEndTurn   = "endTurn"
	StopSequence  = "stopSequence"
	StopMaxTokens = "maxTokens"
	StopToolUse   = "toolUse" // 2025-11-25 on
)

type createMessageResultWire struct {
	Role       Role                       `json:"role"`
	Content    json.RawMessage            `json:"content"`
	Model      string                     `json:"model"`
	StopReason string                     `json:"stopReason,omitzero"`
	Meta       Meta                       `json:"_meta,omitzero"`
	Extra      map[string]json.RawMessage `json:",inline,embed"`
}

// MarshalJSON writes the result.
func (r CreateMessageResult) MarshalJSON() ([]byte, error) {
	content, err := marshalOneOrMore(r.Content)
	if err != nil {
		return nil, err
	}
	return jsonx.Marshal(createMessageResultWire{r.Role, content, r.Model, r.StopReason, r.Meta, r.Extra})
}

// UnmarshalJSON reads a result; role, content and model must be there.
func (r *CreateMessageResult) UnmarshalJSON(raw []byte) error {
	if err := needMembers(raw, "sampling result", "role", "content", "model"); err != nil {
		return err
	}
	var w createMessageResultWire
	if err := jsonx.Unmarshal(raw, &w); err != nil {
		return fmt.Errorf("reading a sampling result: %w", err)
	}
	if !w.Role.Valid() {
		return fmt.Errorf("reading a sampling result: unknown role %q", w.Role)
	}
	content, err := decodeContents(w.Content, false)
	if err != nil {
		return fmt.Errorf("reading a sampling result: %w", err)
	}
	*r = CreateMessageResult{Role: w.Role, Content: content, Model: w.Model, StopReason: w.StopReason, Meta: w.Meta, Extra: w.Extra}
	return nil
}

// CheckToolBalance checks that the tool calls and results of a history match:
// tool results stand alone in a user message, directly behind the assistant
// message that has the calls, exactly one for each. The error is -32602.
func (p *CreateMessageParams) CheckToolBalance() error {
	var open map[string]bool // calls of the message before, true until answered
	for i, m := range p.Messages {
		calls, results, others := countTools(m.Content)
		switch {
		case calls > 0 && m.Role != RoleAssistant:
			return Errorf(CodeInvalidParams, "message %d: tool_use outside of an assistant message", i)
		case results > 0 && m.Role != RoleUser:
			return Errorf(CodeInvalidParams, "message %d: tool_result outside of a user message", i)
		case results > 0 && (others > 0 || calls > 0):
			return Errorf(CodeInvalidParams, "message %d: tool results mixed with other content", i)
		}
		if err := settle(open, m.Content, i); err != nil {
			return err
		}
		var err error
		if open, err = openCalls(m.Content, i); err != nil {
			return err
		}
	}
	if len(open) > 0 {
		return Errorf(CodeInvalidParams, "the tool results for the last message are missing")
	}
	return nil
}

func countTools(cs Contents) (calls, results, others int) {
	for _, c := range cs {
		switch c.(type) {
		case *ToolUseContent:
			calls++
		case *ToolResultContent:
			results++
		default:
			others++
		}
	}
	return calls, results, others
}

// settle matches the results in message i with the calls before it.
func settle(open map[string]bool, cs Contents, i int) error {
	left := len(open)
	for _, c := range cs {
		r, ok := c.(*ToolResultContent)
		if !ok {
			continue
		}
		if !open[r.ToolUseID] {
			return Errorf(CodeInvalidParams, "message %d: a tool result without its call", i)
		}
		open[r.ToolUseID] = false
		left--
	}
	if left > 0 {
		return Errorf(CodeInvalidParams, "message %d: tool result missing", i)
	}
	return nil
}

func openCalls(cs Contents, i int) (map[string]bool, error) {
	var open map[string]bool
	for _, c := range cs {
		u, ok := c.(*ToolUseContent)
		if !ok {
			continue
		}
		if open == nil {
			open = make(map[string]bool)
		}
		if open[u.ID] {
			return nil, Errorf(CodeInvalidParams, "message %d: two tool calls with one id", i)
		}
		open[u.ID] = true
	}
	return open, nil
}

// For returns p as revision v may carry it: before 2025-11-25 a message with
// several blocks becomes several messages, and tools are an error -32602
// because they cannot be said.
func (p *CreateMessageParams) For(v Version) (*CreateMessageParams, error) {
	d := *p
	if !v.Has(FeatureCoreTasks) {
		d.Task = nil
	}
	d.Messages = make([]SamplingMessage, 0, len(p.Messages))
	for _, m := range p.Messages {
		m.Content = m.Content.For(v)
		if v.Has(FeatureSamplingTools) {
			d.Messages = append(d.Messages, m)
			continue
		}
		for _, c := range m.Content {
			if isToolContent(c) {
				return nil, Errorf(CodeInvalidParams, "revision %s has no tools in sampling", v)
			}
			d.Messages = append(d.Messages, SamplingMessage{Role: m.Role, Content: Contents{c}, Meta: m.Meta, Extra: m.Extra})
		}
	}
	if !v.Has(FeatureSamplingTools) {
		if len(p.Tools) > 0 {
			return nil, Errorf(CodeInvalidParams, "revision %s has no tools in sampling", v)
		}
		d.ToolChoice = nil
	}
	return &d, nil
}

func isToolContent(c Content) bool {
	switch c.(type) {
	case *ToolUseContent, *ToolResultContent:
		return true
	}
	return false
}
