package llm

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
)

// maxResponse bounds the text and the thinking that [Generate] collects, in bytes.
const maxResponse = 16 << 20

// leastRoom is how many bytes of output a token is granted at the least: no text of some
// length has longer ones on average.
const leastRoom = 16

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
	// Cut are the calls that must not be made, see [Finish]. They are not in Content.
	Cut []ToolCall
	// State is what the provider has attached to the answer and its calls, at most [MaxState]. Nil is nothing.
	State []ProviderState
}

// Text returns the text of the answer without its calls.
func (r *Response) Text() string {
	if len(r.Content) == 1 {
		if t, ok := r.Content[0].(*mcp.TextContent); ok {
			return t.Text
		}
	}
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
	return Message{Role: RoleAssistant, Content: r.Content, State: r.State}
}

// Generate runs one turn and waits for all of it. A turn that does not complete is
// an error, and then there is no Response.
func Generate(ctx context.Context, m Model, req *Request) (*Response, error) {
	resp, _, err := Complete(ctx, m, req)
	return resp, err
}

// Complete does what [Generate] does, and says what the turn has cost, which is estimated
// if it has failed: who leaves a turn just before its end has had it all the same. A
// number of the server that is impossible does not count (see [Usage.Plausible]).
func Complete(ctx context.Context, m Model, req *Request) (*Response, Usage, error) {
	c := Collector{MaxTokens: req.MaxTokens}
	resp, err := c.collect(m.Stream(ctx, req), m.Name())
	usage := c.resp.Usage.Plausible(EstimateTokens(req), c.bytes)
	if err != nil {
		return nil, usage, err
	}
	resp.Usage = usage
	return resp, usage, nil
}

func (c *Collector) collect(events iter.Seq2[Event, error], model string) (*Response, error) {
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		if err := c.Add(ev); err != nil {
			return nil, fmt.Errorf("%s: %w", model, err)
		}
	}
	resp, err := c.Response()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", model, err)
	}
	return resp, nil
}

// Collector builds a [Response] from events, for callers that pass the events on as
// they come. Its zero value is ready. It is for one goroutine.
type Collector struct {
	// MaxTokens is that of the request. A server that says far more than so many tokens
	// can be does not heed it; zero means any number.
	MaxTokens int

	text, thinking pieces
	resp           Response
	calls          mcp.Contents
	bytes          int // of text, thinking and calls
	finished       bool
}

// pieces is a text that comes piece by piece. One that comes at once, as of a model that does not stream,
// is not copied.
type pieces struct {
	first string // all of it, unless there is more
	more  strings.Builder
}

func (p *pieces) add(s string) {
	if p.len() == 0 {
		p.first = s
		return
	}
	if p.more.Len() == 0 {
		p.more.WriteString(p.first)
		p.first = ""
	}
	p.more.WriteString(s)
}

func (p *pieces) len() int { return len(p.first) + p.more.Len() }

func (p *pieces) text() string {
	if p.more.Len() > 0 {
		return p.more.String()
	}
	return p.first
}

// Add takes the next event. It returns [ErrTooLarge] once text and thinking are
// beyond 16 MiB, or what MaxTokens allows for certain is exceeded: 16 bytes for each and
// 1 KiB, also counting calls.
func (c *Collector) Add(ev Event) error {
	switch ev := ev.(type) {
	case TextDelta:
		c.bytes += len(ev.Text)
		c.text.add(ev.Text)
	case ThinkingDelta:
		c.bytes += len(ev.Text)
		c.thinking.add(ev.Text)
	case ToolCall:
		c.bytes += len(ev.Name) + len(ev.Arguments)
		c.calls = append(c.calls, &mcp.ToolUseContent{ID: ev.ID, Name: ev.Name, Input: ev.Arguments})
		for _, s := range ev.State {
			s.Call = ev.ID
			c.resp.State = append(c.resp.State, s)
		}
	case Usage:
		c.resp.Usage = ev
	case Finish:
		for _, call := range ev.Cut {
			c.bytes += len(call.Name) + len(call.Arguments)
		}
		c.resp.Finish, c.resp.Model, c.resp.Cut, c.finished = ev.Reason, ev.Model, ev.Cut, true
		if c.resp.State = append(c.resp.State, ev.State...); stateSize(c.resp.State) > MaxState {
			c.resp.State = nil
		}
	}
	if c.text.len()+c.thinking.len() > maxResponse {
		return ErrTooLarge
	}
	if c.MaxTokens > 0 && c.bytes/leastRoom > c.MaxTokens+leastRoom*4 {
		return fmt.Errorf("%w: it does not heed the limit of %d tokens", ErrTooLarge, c.MaxTokens)
	}
	return nil
}

// Response returns the turn, or [ErrStreamCut] if no [Finish] has been added.
func (c *Collector) Response() (*Response, error) {
	if !c.finished {
		return nil, ErrStreamCut
	}
	resp := c.resp
	resp.Thinking, resp.Content = c.thinking.text(), slices.Clip(c.calls)
	if text := c.text.text(); text != "" {
		resp.Content = slices.Insert(resp.Content, 0, mcp.Content(mcp.Text(text)))
	}
	return &resp, nil
}
