package agent

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/agent/internal/serverask"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
)

// converter is the [eventlog.Converter] of one reader of a run. It remembers what a
// later event refers to, and how much of a turn's text the reader has had.
type converter struct {
	runID  string
	path   []string
	answer answerer

	intents map[string]*runlog.ToolIntent // calls without a result
	rounds  map[string]bool               // calls that go on with another round; nil for none
	turn    int
	said    int // bytes of the turn's text that were passed on
	thought int
	chose   bool // the reader knows which model was chosen
}

// Head implements [eventlog.Converter].
func (c *converter) Head(seq int64, at time.Time) Header {
	return Header{RunID: c.runID, Seq: seq, Time: at, Path: c.path}
}

func (c *converter) head(e *runlog.Entry) Header { return c.Head(e.Seq, e.Time) }

// enter begins a turn if it is another than the last one.
func (c *converter) enter(turn int) {
	if c.turn != turn {
		c.turn, c.said, c.thought, c.chose = turn, 0, 0, false
	}
}

// Entry implements [eventlog.Converter].
func (c *converter) Entry(e *runlog.Entry) []Event {
	h := c.head(e)
	switch b := e.Body.(type) {
	case *runlog.RunStarted:
		c.path = b.Path
		return []Event{RunStarted{Header: c.head(e), Agent: b.Agent, Model: b.Model, Prompt: promptOf(b)}}
	case *runlog.ToolsListed:
		names := make([]string, len(b.Tools))
		for i, t := range b.Tools {
			names[i] = t.Name
		}
		return []Event{ToolsListed{h, names, absentOf(b.Absent)}}
	case *runlog.ModelResult:
		return c.modelResult(h, b)
	case *runlog.ToolIntent:
		c.intents[e.Key] = b
	case *runlog.ToolRound:
		if c.rounds == nil {
			c.rounds = make(map[string]bool)
		}
		c.rounds[e.Key] = true
	case *runlog.ToolDispatched:
		again := c.rounds[e.Key]
		delete(c.rounds, e.Key)
		if i := c.intents[e.Key]; i != nil && !again {
			return []Event{ToolStarted{h, e.Key, i.Server, i.Tool, i.Arguments, b.Run}}
		}
	case *runlog.ToolResult:
		delete(c.intents, e.Key)
		return []Event{ToolResult{Header: h, Key: e.Key, Server: b.Server, Tool: b.Tool, Made: b.Made, Late: b.Late, Result: b.Result}}
	case *runlog.ToolUnknown:
		delete(c.intents, e.Key)
		return []Event{ToolResult{Header: h, Key: e.Key, Server: b.Server, Tool: b.Tool, Made: true, Unknown: true,
			Result: mcp.ErrorResult("%s", b.Reason)}}
	case *runlog.AskOpened:
		if e.Imported {
			shown, ok := runlog.ImportedAsk(&b.Ask)
			if !ok {
				return nil
			}
			b = &runlog.AskOpened{Ask: shown}
		}
		return []Event{c.ask(h, b)}
	case *runlog.AskSettled:
		return []Event{AskSettled{h, e.Key, b.Status, b.By, b.Reason}}
	case *runlog.LimitReached:
		return []Event{LimitReached{h, b.Account, b.Limit, b.Max, b.Spent, OnLimit(b.Then)}}
	case *runlog.LimitRaised:
		return []Event{LimitRaised{h, b.Account, b.Limit, b.By}}
	case *runlog.RunFinished:
		return []Event{RunFinished{Header: h, State: b.State, Error: b.Error, Result: Result{
			RunID: c.runID, Text: b.Text, Structured: b.Structured, StopReason: StopReason(b.Stop), Incomplete: Incomplete(b.Incomplete),
			Usage: Usage(b.Usage), Steps: b.Steps, ToolCalls: b.ToolCalls, Spent: Spent(b.Spent)}}}
	}
	return c.more(h, e)
}

// modelResult passes on the part of the turn that the reader lacks, and then its end.
func (c *converter) modelResult(h Header, b *runlog.ModelResult) []Event {
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
	return append(out, ModelTurn{Header: h, Turn: b.Turn, Model: b.Model, Finish: b.Finish, Usage: Usage(b.Usage), Calls: calls})
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

func absentOf(absent []runlog.Absent) []Absent {
	if absent == nil {
		return nil
	}
	out := make([]Absent, len(absent))
	for i, a := range absent {
		out[i] = Absent(a)
	}
	return out
}

func promptOf(b *runlog.RunStarted) string {
	if len(b.Input) == 0 {
		return ""
	}
	return b.Input[len(b.Input)-1].Content.Text()
}

func (c *converter) ask(h Header, b *runlog.AskOpened) Ask {
	a := Ask{Header: h, ID: b.Ask.ID, Kind: b.Ask.Kind, Server: b.Ask.Server, Origin: b.Ask.Origin, Trust: b.Ask.Trust,
		Tool: b.Ask.Tool, Hash: b.Ask.Hash, Expires: b.Ask.Expires, answer: c.answer}
	if b.Ask.Kind == runlog.AskLimit {
		a.Limit = new(LimitQuestion)
		if jsonx.Unmarshal(b.Ask.Payload, a.Limit) != nil {
			a.Limit = nil // another version's: it can be declined
		}
		return a
	}
	if b.Ask.Kind == runlog.AskJob {
		a.Job = new(JobQuestion)
		if jsonx.Unmarshal(b.Ask.Payload, a.Job) != nil {
			a.Job = nil // another version's: it can be declined
		}
		return a
	}
	if b.Ask.Kind == runlog.AskOutcome {
		var p runlog.OutcomePayload
		if jsonx.Unmarshal(b.Ask.Payload, &p) != nil {
			p.Arguments = json.RawMessage(b.Ask.Payload)
		}
		a.Arguments, a.Sent, a.Why = p.Arguments, p.Sent, cmp.Or(p.Why, runlog.ProcessEnded)
		return a
	}
	if b.Ask.Kind != runlog.AskKind {
		a.Question = serverask.Read(&b.Ask)
		return a
	}
	var payload runlog.ApprovalPayload
	if jsonx.Unmarshal(b.Ask.Payload, &payload) != nil {
		payload.Arguments = json.RawMessage(b.Ask.Payload)
	}
	a.Arguments, a.Tainted, a.Again, a.Definition, a.Note = payload.Arguments, payload.Tainted, payload.Again, payload.Bound(), payload.Note
	return a
}

// more returns the events that the other entries are.
func (c *converter) more(h Header, e *runlog.Entry) []Event {
	switch b := e.Body.(type) {
	case *runlog.ToolWaiting:
		return []Event{ToolWaiting{h, e.Key, b.Server, b.Tool, b.For}}
	case *runlog.GuardActed:
		return []Event{GuardActed{h, e.Key, b.Guard, GuardPoint(b.Point), b.Action, b.Text}}
	case *runlog.HistoryCut:
		return []Event{HistoryCut{Header: h, Turn: b.Turn, Before: b.Before, After: b.After,
			Results: len(b.Results), Messages: b.Messages, Summary: b.Summary, Forced: b.Forced}}
	case *runlog.AgentChanged:
		c.path = b.Path
		return []Event{HandedOff{c.head(e), e.Key, b.From, b.To, b.Model}}
	case *runlog.StopMet:
		return []Event{StopConditionMet{h, b.Turn, b.Condition}}
	case *runlog.QuestionDeclined:
		return []Event{QuestionDeclined{h, e.Key, b.Kind, b.Server, b.Tool, b.Reason}}
	case *runlog.Tainted:
		return []Event{Tainted{h, e.Key, b.Server, b.Tool, Taint(b.Seen)}}
	}
	return nil
}

// chosen returns the choice of a model that the reader has missed.
func (c *converter) chosen(h Header, b *runlog.ModelResult) []Event {
	if b.Chosen == nil || c.chose {
		return nil
	}
	return []Event{ModelChosen{h, b.Turn, b.Chosen.Model, b.Chosen.Reason, b.Chosen.Fallback}}
}

// Passing implements [eventlog.Converter].
func (c *converter) Passing(ev Event) Event {
	switch ev := ev.(type) {
	case ModelChosen:
		c.enter(ev.Turn)
		c.chose = true
	case TurnRestarted:
		c.enter(ev.Turn)
		c.said, c.thought = 0, 0
	case ToolProgress:
		if i := c.intents[ev.Key]; i != nil {
			ev.Tool = i.Tool
		}
		return ev
	}
	return ev
}

// Text implements [eventlog.Converter].
func (c *converter) Text(h Header, turn int, thinking bool, delta string) (ev Event, some bool) {
	c.enter(turn)
	switch {
	case delta == "":
		return nil, false
	case thinking:
		c.thought += len(delta)
		return Thinking{h, turn, delta}, true
	}
	c.said += len(delta)
	return Text{h, turn, delta}, true
}

// Nested implements [eventlog.Converter].
func (c *converter) Nested(seq int64, key string, ev Event) Event {
	return Nested{c.Head(seq, ev.Head().Time), key, ev}
}
