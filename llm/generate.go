package llm

import (
	"context"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
)

// maxResponse bounds the text and the thinking that [Generate] collects, in bytes.
const maxResponse = 16 << 20

// Response is one whole turn.
type Response struct {
	// Content is one block of text, if there was any, and then a
	// [mcp.ToolUseContent] for each call in the model's order. It may be empty.
	Content mcp.Contents
	// Thinking is the model's reasoning where the server shows it.
	Thinking string
	Finish   FinishReason
	Usage    Usage
	// Model is the name the server gave.
	Model string
}

// Text returns the text of the answer without its calls.
func (r *Response) Text() string {
	var text strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	return text.String()
}

// Calls returns the calls of the answer, in order.
func (r *Response) Calls() []*mcp.ToolUseContent {
	var calls []*mcp.ToolUseContent
	for _, c := range r.Content {
		if call, ok := c.(*mcp.ToolUseContent); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

// Message returns the answer as the assistant's next message of a conversation.
func (r *Response) Message() Message {
	return Message{Role: RoleAssistant, Content: r.Content}
}

// Generate runs one turn and waits for all of it. A turn that does not complete is
// an error, and then there is no Response.
func Generate(ctx context.Context, m Model, req *Request) (*Response, error) {
	var c Collector
	for ev, err := range m.Stream(ctx, req) {
		if err != nil {
			return nil, err
		}
		if err := c.Add(ev); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name(), err)
		}
	}
	resp, err := c.Response()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name(), err)
	}
	return resp, nil
}

// Collector builds a [Response] from events, for callers that pass the events on as
// they come. Its zero value is ready. It is for one goroutine.
type Collector struct {
	text, thinking strings.Builder
	resp           Response
	calls          mcp.Contents
	bytes          int // of all of them
	finished       bool
}

// Add takes the next event. It returns [ErrTooLarge] once text, thinking and calls are
// beyond 16 MiB.
func (c *Collector) Add(ev Event) error {
	switch ev := ev.(type) {
	case TextDelta:
		c.text.WriteString(ev.Text)
		c.bytes += len(ev.Text)
	case ThinkingDelta:
		c.thinking.WriteString(ev.Text)
		c.bytes += len(ev.Text)
	case ToolCall:
		c.calls = append(c.calls, &mcp.ToolUseContent{ID: ev.ID, Name: ev.Name, Input: ev.Arguments})
		c.bytes += len(ev.Name) + len(ev.Arguments)
	case Usage:
		c.resp.Usage = ev
	case Finish:
		c.resp.Finish, c.resp.Model, c.finished = ev.Reason, ev.Model, true
	}
	if c.bytes > maxResponse {
		return ErrTooLarge
	}
	return nil
}

// Bytes is how much text, thinking and calls have come: for [EstimateBytes], where a turn
// breaks off before its provider says what it has cost.
func (c *Collector) Bytes() int { return c.bytes }

// Response returns the turn, or [ErrStreamCut] if no [Finish] has been added.
func (c *Collector) Response() (*Response, error) {
	if !c.finished {
		return nil, ErrStreamCut
	}
	resp := c.resp
	resp.Thinking = c.thinking.String()
	if c.text.Len() > 0 {
		resp.Content = append(resp.Content, mcp.Text(c.text.String()))
	}
	resp.Content = append(resp.Content, c.calls...)
	return &resp, nil
}
