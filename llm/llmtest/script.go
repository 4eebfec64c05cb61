package llmtest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// script hands turns out and remembers what was asked.
type script struct {
	mu        sync.Mutex
	turns     []Turn
	next      int
	loop      bool // begin again behind the last turn
	byHistory bool // the turn is that of the conversation, and not the next one
	requests  []*llm.Request
}

// take records a request and returns the turn for it, and which request it was, from one.
func (s *script) take(req *llm.Request) (Turn, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, clone(req))
	if s.byHistory && len(s.turns) > 0 {
		said := 0
		for _, m := range req.Messages {
			if m.Role == llm.RoleAssistant {
				said++
			}
		}
		return s.turns[min(said, len(s.turns)-1)], said + 1, nil
	}
	if s.loop && len(s.turns) > 0 {
		s.next %= len(s.turns)
	}
	if s.next >= len(s.turns) {
		return Turn{}, 0, fmt.Errorf("the script has %d turns and was asked for one more, by: %s", len(s.turns), lastText(req))
	}
	s.next++
	return s.turns[s.next-1], len(s.requests), nil
}

func (s *script) recorded() []*llm.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *script) remaining() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHistory {
		return 0
	}
	return len(s.turns) - s.next
}

// clone keeps a request as it is now: its caller may go on with the same slices.
func clone(req *llm.Request) *llm.Request {
	c := *req
	c.Messages = slices.Clone(req.Messages)
	for i := range c.Messages {
		c.Messages[i].Content = slices.Clone(c.Messages[i].Content)
	}
	c.Tools = slices.Clone(req.Tools)
	return &c
}

// lastText tells the end of a conversation in a few words, for errors.
func lastText(req *llm.Request) string {
	if len(req.Messages) == 0 {
		return "a request without messages"
	}
	last := req.Messages[len(req.Messages)-1]
	for _, c := range last.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			return fmt.Sprintf("%s %.80q", last.Role, c.Text)
		case *mcp.ToolResultContent:
			return fmt.Sprintf("the result of call %q", c.ToolUseID)
		}
	}
	return fmt.Sprintf("a message of the %s", last.Role)
}

// callID is the id of a turn's call: unique in a script and the same in each run.
func callID(request, call int) string { return fmt.Sprintf("call_%d_%d", request, call+1) }
