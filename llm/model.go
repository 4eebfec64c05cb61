package llm

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/troupe-dev/troupe/mcp"
)

// Model runs turns of a language model. All methods may be called from any
// goroutine, also at the same time.
type Model interface {
	// Stream runs one turn. Events come in the order the model made them; the
	// last is a [Finish], exactly once, if and only if the turn has completed. An
	// error (mostly an [*Error]) comes as the second value, alone, and ends the
	// sequence. Leaving the loop or ending ctx ends the request. Ranging over the
	// sequence a second time asks the model again.
	Stream(ctx context.Context, req *Request) iter.Seq2[Event, error]

	// Name says provider and model, as in "ollama/qwen3:8b".
	Name() string
}

// Role says who wrote a message.
type Role = mcp.Role

// The two roles. The system's text is [Request.System], and results of tools are
// [mcp.ToolResultContent] blocks in a message of the user, as in MCP sampling.
const (
	RoleUser      = mcp.RoleUser
	RoleAssistant = mcp.RoleAssistant
)

// Message is one entry of a conversation.
type Message struct {
	Role    Role         `json:"role"`
	Content mcp.Contents `json:"content"`
	// State is what a provider has attached to this answer of a model. Nil is nothing.
	State []ProviderState `json:"state,omitempty"`
}

// User returns a message of the user with one block of text.
func User(text string) Message {
	return Message{Role: RoleUser, Content: mcp.Contents{mcp.Text(text)}}
}

// Assistant returns a message of the assistant with one block of text.
func Assistant(text string) Message {
	return Message{Role: RoleAssistant, Content: mcp.Contents{mcp.Text(text)}}
}

// Tool describes a function that the model may ask for.
type Tool struct {
	// Name is unique in a request; providers take at most 64 of [a-zA-Z0-9_-].
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// InputSchema is the JSON schema of the arguments. Empty means an object
	// without properties.
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
}

// ToolChoice says whether the model may, must not or must call a tool.
type ToolChoice string

// The tool choices. ToolChoiceRequired is a strong wish and no guarantee: a turn
// cut by its token limit has no call, and some servers ignore it. ToolChoiceNone does not keep every model from calling
// either. Look at the answer.
const (
	ToolChoiceAuto     ToolChoice = ""
	ToolChoiceNone     ToolChoice = "none"
	ToolChoiceRequired ToolChoice = "required"
)

// Request is one turn to run. A Model does not change it and keeps no part of it, but what
// Encodings are for.
type Request struct {
	// Model overrides the model's own name at its provider. Empty means no change.
	Model string `json:"model,omitempty"`
	// System is the system text. Empty means none.
	System string `json:"system,omitempty"`
	// Messages is the conversation, oldest first. [Request.Validate] has its rules.
	Messages []Message `json:"messages"`
	// Tools are what the model may call.
	Tools      []Tool     `json:"tools,omitempty"`
	ToolChoice ToolChoice `json:"toolChoice,omitempty"`
	// MaxTokens bounds the output, thinking included. Zero means the provider's limit.
	MaxTokens int `json:"maxTokens,omitempty"`
	// Temperature is left to the provider where nil, and not sent to models that refuse it.
	Temperature *float64 `json:"temperature,omitempty"`
	// Stop holds texts that end the output.
	Stop []string `json:"stop,omitempty"`
	// Schema asks for an answer that is JSON of this schema. Servers heed it
	// more or less: validate the answer.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Effort is how much the model thinks. Empty leaves it to the model.
	Effort Effort `json:"effort,omitempty"`
	// Prefer is advice to a router on the choice of a model. Nil is none;
	// other models do not look at it.
	Prefer *Preferences `json:"prefer,omitempty"`
	// Metadata is for the caller and for wrappers of models. It is not sent to a
	// provider, except the keys that the client's options name.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Encodings keeps what clients make of Messages for the next requests of the same
	// conversation, where that is worth its memory: from some 16 KB on. Nil keeps nothing.
	Encodings *Encodings `json:"-"`
}

// Preferences say what matters in the choice of a model, from 0 (not at all) to 1.
type Preferences struct {
	// Hints are parts of names, the most wanted first.
	Hints []string `json:"hints,omitempty"`
	// Cost, Speed and Intelligence weigh what a model is good at.
	Cost         float64 `json:"cost,omitzero"`
	Speed        float64 `json:"speed,omitzero"`
	Intelligence float64 `json:"intelligence,omitzero"`
	// Allowed names the only models that may be taken. Nil allows all.
	Allowed []string `json:"allowed,omitempty"`
}
