package agent

import (
	"encoding/json"
	"strings"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// converter makes events of a run's journal, for one reader. It remembers what a
// later event refers to, and how much of a turn's text the reader has had.
type converter struct {
	runID  string
	path   []string
	answer answerer

	intents  map[string]*loop.ToolIntent // calls without a result
	seq      int64                       // of the last event
	turn     int
	said     int // bytes of the turn's text that were passed on
	thought  int
	chose    bool // the reader knows which model was chosen
	finished bool
}

func (c *converter) head(e *loop.Entry) Header {
	return Header{RunID: c.runID, Seq: e.Seq, Time: e.Time, Path: c.path}
}

// enter begins a turn if it is another than the last one.
func (c *converter) enter(turn int) {
	if c.turn != turn {
		c.turn, c.said, c.thought, c.chose = turn, 0, 0, false
	}
}

// convert returns what an entry is to a reader, which may be nothing.
func (c *converter) convert(e *loop.Entry) []Event {
	c.seq = e.Seq
	h := c.head(e)
	switch b := e.Body.(type) {
	case *loop.RunStarted:
		c.path = b.Path
		return []Event{RunStarted{Header: c.head(e), Agent: b.Agent, Model: b.Model, Prompt: promptOf(b)}}
	case *loop.ToolsListed:
		names := make([]string, len(b.Tools))
		for i, t := range b.Tools {
			names[i] = t.Name
		}
		return []Event{ToolsListed{h, names, b.Absent}}
	case *loop.ModelResult:
		return c.modelResult(h, b)
	case *loop.ToolIntent:
		c.intents[e.Key] = b
	case *loop.ToolDispatched:
		if i := c.intents[e.Key]; i != nil {
			return []Event{ToolStarted{h, e.Key, i.Server, i.Tool, i.Arguments, b.Run}}
		}
	case *loop.ToolResult:
		delete(c.intents, e.Key)
		return []Event{ToolResult{Header: h, Key: e.Key, Server: b.Server, Tool: b.Tool, Made: b.Made, Late: b.Late, Result: b.Result}}
	case *loop.ToolUnknown:
		delete(c.intents, e.Key)
		return []Event{ToolResult{Header: h, Key: e.Key, Server: b.Server, Tool: b.Tool, Made: true, Unknown: true,
			Result: mcp.ErrorResult("%s", b.Reason)}}
	case *loop.AskOpened:
		return []Event{c.ask(h, b)}
	case *loop.AskSettled:
		return []Event{AskSettled{h, e.Key, b.Status, b.By, b.Reason}}
	case *loop.LimitReached:
		return []Event{LimitReached{h, b.Account, b.Limit, b.Max, b.Spent, b.Then}}
	case *loop.LimitRaised:
		return []Event{LimitRaised{h, b.Account, b.Limit, b.By}}
	case *loop.RunFinished:
		c.finished = true
		return []Event{RunFinished{Header: h, State: b.State, Error: b.Error, Result: Result{
			RunID: c.runID, Text: b.Text, Structured: b.Structured, StopReason: StopReason(b.Stop),
			Usage: b.Usage, Steps: b.Steps, ToolCalls: b.ToolCalls, Spent: b.Spent}}}
	}
	return c.convertMore(h, e)
}

// modelResult passes on what the reader has not had of the turn, and then its end.
func (c *converter) modelResult(h Header, b *loop.ModelResult) []Event {
	c.enter(b.Turn)
	out := c.chosen(h, b)
	text, calls := textAndCalls(b.Message.Content)
	if len(b.Thinking) > c.thought {
		out = append(out, Thinking{h, b.Turn, b.Thinking[c.thought:]})
	}
	if len(text) > c.said {
		out = append(out, Text{h, b.Turn, text[c.said:]})
	}
	c.thought, c.said = len(b.Thinking), len(text)
	return append(out, ModelTurn{Header: h, Turn: b.Turn, Model: b.Model, Finish: b.Finish, Usage: b.Usage, Calls: calls})
}

func textAndCalls(content mcp.Contents) (text string, calls int) {
	var all strings.Builder
	for _, b := range content {
		switch b := b.(type) {
		case *mcp.TextContent:
			all.WriteString(b.Text)
		case *mcp.ToolUseContent:
			calls++
		}
	}
	return all.String(), calls
}

func promptOf(b *loop.RunStarted) string {
	if len(b.Input) == 0 {
		return ""
	}
	return b.Input[len(b.Input)-1].Content.Text()
}

func (c *converter) ask(h Header, b *loop.AskOpened) Ask {
	a := Ask{Header: h, ID: b.Ask.ID, Kind: b.Ask.Kind, Server: b.Ask.Server, Origin: b.Ask.Origin, Trust: b.Ask.Trust,
		Tool: b.Ask.Tool, Hash: b.Ask.Hash, Expires: b.Ask.Expires, answer: c.answer}
	if b.Ask.Kind == loop.AskLimit {
		a.Limit = new(LimitQuestion)
		if jsonx.Unmarshal(b.Ask.Payload, a.Limit) != nil {
			a.Limit = nil // another version's: it can be declined
		}
		return a
	}
	if b.Ask.Kind != loop.AskKind {
		a.Question = questionOf(&b.Ask)
		return a
	}
	var payload loop.ApprovalPayload
	if jsonx.Unmarshal(b.Ask.Payload, &payload) != nil {
		payload.Arguments = json.RawMessage(b.Ask.Payload)
	}
	a.Arguments, a.Tainted, a.Again, a.Definition = payload.Arguments, payload.Tainted, payload.Again, payload.Bound()
	return a
}
