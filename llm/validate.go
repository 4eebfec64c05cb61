package llm

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// Validate checks what every provider, and sampling/createMessage of MCP, asks of a
// conversation, and returns an error that wraps [ErrInvalidRequest]:
//
//   - there is a message, and roles are user and assistant only;
//   - a tool_use is the assistant's, with an id that no other has, and the next
//     message answers each of them by one tool_result, and nothing else;
//   - a message with a tool_result holds only those;
//   - tools have unique names, and schemas that are JSON objects;
//   - the effort is one of [Efforts], or empty.
//
// Clients call it before they send anything.
func (r *Request) Validate() error {
	if len(r.Messages) == 0 {
		return invalid("there are no messages")
	}
	names := make(map[string]bool, len(r.Tools))
	for _, t := range r.Tools {
		if t.Name == "" || names[t.Name] {
			return invalid("tool name %.100q is empty or used twice", t.Name)
		}
		names[t.Name] = true
		if len(t.InputSchema) > 0 && !isObject(t.InputSchema) {
			return invalid("the schema of tool %.100q is not a JSON object", t.Name)
		}
	}
	if r.ToolChoice == ToolChoiceRequired && len(r.Tools) == 0 {
		return invalid("a tool call is required and there are no tools")
	}
	if len(r.Schema) > 0 && !isObject(r.Schema) {
		return invalid("the answer's schema is not a JSON object")
	}
	if r.Effort != "" && !slices.Contains(Efforts, r.Effort) {
		return invalid("the effort %.100q is none of %v", r.Effort, Efforts)
	}
	return r.validateMessages()
}

// validateMessages holds calls against their results.
func (r *Request) validateMessages() error {
	if r.Encodings != nil {
		return r.Encodings.check(r.Messages)
	}
	c := checking{ids: make(map[string]bool)}
	return c.messages(r.Messages, 0)
}

// checking is a look at the messages of a conversation.
type checking struct {
	ids   map[string]bool // of all calls
	known []*kept         // what is known of the messages; nil for nothing
}

// messages checks messages from one on. Those before it are valid, and c has the ids of their calls.
func (c *checking) messages(messages []Message, from int) error {
	pending := make(map[string]bool) // calls of the message before
	if from > 0 {
		for _, b := range messages[from-1].Content {
			if call, ok := b.(*mcp.ToolUseContent); ok {
				pending[call.ID] = true
			}
		}
	}
	for i := from; i < len(messages); i++ {
		if err := c.message(&messages[i], i, pending); err != nil {
			return err
		}
	}
	if len(pending) > 0 {
		return invalid("the last message has calls without results")
	}
	return nil
}

// message checks message i. Pending has the open calls of the one before, and then its own.
func (c *checking) message(m *Message, i int, pending map[string]bool) error {
	calls, results := 0, 0
	for _, b := range m.Content {
		switch b.(type) {
		case *mcp.ToolUseContent:
			calls++
		case *mcp.ToolResultContent:
			results++
		}
	}
	switch {
	case m.Role != RoleUser && m.Role != RoleAssistant:
		return invalid("message %d has the role %.100q", i, m.Role)
	case m.Role == RoleUser && calls > 0:
		return invalid("message %d of the user holds a tool_use", i)
	case m.Role == RoleAssistant && results > 0:
		return invalid("message %d of the assistant holds a tool_result", i)
	case results > 0 && results < len(m.Content):
		return invalid("message %d mixes tool results with other content", i)
	}
	if len(m.State) > 0 {
		if err := checkState(i, m.State); err != nil {
			return err
		}
	}
	for _, b := range m.Content {
		if res, ok := b.(*mcp.ToolResultContent); ok {
			if !pending[res.ToolUseID] {
				return invalid("message %d answers %.100q, which is not an open call of the message before", i, res.ToolUseID)
			}
			delete(pending, res.ToolUseID)
		}
	}
	if len(pending) > 0 {
		return invalid("message %d does not answer all calls of the message before", i)
	}
	for _, b := range m.Content {
		call, ok := b.(*mcp.ToolUseContent)
		if !ok {
			continue
		}
		if call.ID == "" || c.ids[call.ID] {
			return invalid("message %d has a call whose id %.100q is empty or used twice", i, call.ID)
		}
		if len(call.Input) > 0 && (c.known == nil || !c.known[i].sound) && !isObject(call.Input) {
			return invalid("the arguments of call %.100q are not a JSON object", call.ID)
		}
		c.ids[call.ID], pending[call.ID] = true, true
	}
	if c.known != nil {
		c.known[i].sound = true
	}
	return nil
}

// isObject reports whether data is one strict JSON object.
func isObject(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) && jsonx.Valid(data)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalidRequest}, args...)...)
}
