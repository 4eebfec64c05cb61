package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// step is a turn, a call, a question, or another event of a run.
type step struct {
	Seq        int64 // of the first event
	Last       int64 // and of the last one: a fork from here takes over that
	Kind, Name string
	Brief      string // one line of it
	Mark       string // "open", "bad", or nothing
	Said       string // by the model, or the end of the run: shown at once
	Begin, End time.Time
	Turn       int // of a turn; else zero
	Usage      runlog.Usage
	Parts      []part
	Raw        []raw
	Ask        string  // the question; empty for none
	Run        string  // that a call has started; empty for none
	Below      *nested // its steps; nil where they are not shown
}

// Took is how long a step that has ended took.
func (s *step) Took() string {
	if s.End.IsZero() || s.Kind == "note" {
		return ""
	}
	return took(s.End.Sub(s.Begin))
}

// part is a text of a step.
type part struct{ Label, Text string }

// raw is an event as the journal has it.
type raw struct {
	Seq  int64
	Type string
	Body string
}

// steps makes steps of events.
type steps struct {
	all   []*step
	raws  bool             // the events are shown, too
	turn  *step            // the last one; nil before the first
	calls map[string]*step // by the keys of calls, and the IDs of questions
	tools map[string]string
}

func newSteps(raws bool) *steps {
	return &steps{raws: raws, calls: make(map[string]*step), tools: make(map[string]string)}
}

// add takes in the next event.
func (s *steps) add(e *runlog.Entry, body json.RawMessage) {
	brief := runlog.Describe(e, s.tools)
	st := s.stepOf(e)
	if st == nil {
		st = &step{Seq: e.Seq, Kind: "note", Name: e.Type, Begin: e.Time, Brief: brief}
		s.all = append(s.all, st)
		s.begin(st, e)
	}
	st.Last = e.Seq
	s.continued(st, e)
	if s.raws {
		st.Raw = append(st.Raw, raw{e.Seq, e.Type, bounded(indent(body))})
	}
}

// stepOf returns the step that an event belongs to; nil for one of its own.
func (s *steps) stepOf(e *runlog.Entry) *step {
	switch b := e.Body.(type) {
	case *runlog.ModelResult:
		if s.turn != nil && s.turn.Turn == b.Turn {
			return s.turn
		}
	case *runlog.ModelFailed:
		if s.turn != nil && s.turn.Turn == b.Turn {
			return s.turn
		}
	case *runlog.ToolDispatched, *runlog.ToolResult, *runlog.ToolUnknown, *runlog.ToolWaiting, *runlog.ToolTask, *runlog.ToolRound:
		return s.calls[e.Key]
	case *runlog.AskSettled:
		return s.calls["ask "+e.Key]
	}
	return nil
}

// begin makes a step of an event that begins one.
func (s *steps) begin(st *step, e *runlog.Entry) {
	switch b := e.Body.(type) {
	case *runlog.RunStarted:
		st.Kind, st.Name, st.Brief = "prompt", "Prompt", b.Model
		for _, m := range b.Input {
			st.Parts = append(st.Parts, messageOf(&m).Parts...)
		}
		if b.System != "" {
			st.Parts = append(st.Parts, part{"Instructions", bounded(b.System)})
		}
	case *runlog.ToolsListed:
		for _, tool := range b.Tools {
			st.Parts = append(st.Parts, part{"Tool", strings.TrimSpace(tool.Name + " " + tool.Server)})
		}
	case *runlog.ModelIntent:
		st.Kind, st.Name, st.Brief, st.Turn, st.Mark = "turn", fmt.Sprint("Turn ", b.Turn), "", b.Turn, "open"
		s.turn = st
	case *runlog.ModelResult:
		st.Kind, st.Name, st.Turn = "turn", fmt.Sprint("Turn ", b.Turn), b.Turn
	case *runlog.ToolIntent:
		st.Kind, st.Name, st.Mark, st.Brief = "call", b.Tool, "open", compact(b.Arguments)
		st.Parts = append(st.Parts, part{"Arguments", bounded(indent(b.Arguments))})
		s.calls[e.Key] = st
	case *runlog.ToolResult:
		st.Kind, st.Name = "call", b.Tool
	case *runlog.AskOpened:
		st.Kind, st.Name, st.Mark, st.Ask = "ask", "Question", "open", b.Ask.ID
		s.calls["ask "+e.Key] = st
	case *runlog.RunFinished:
		st.Kind, st.Name, st.Brief, st.Said = "end", "End", string(b.State)+", "+cmp.Or(b.Incomplete, b.Stop), bounded(b.Error)
		if b.State != store.Finished || b.Incomplete != "" {
			st.Mark = "bad"
		}
	case *runlog.HistoryCut:
		if b.Summary != "" {
			st.Parts = append(st.Parts, part{"Summary", bounded(b.Summary)})
		}
	}
}

// continued takes in what an event adds to its step.
func (s *steps) continued(st *step, e *runlog.Entry) {
	over := func(mark string) { st.End, st.Mark = e.Time, mark }
	switch b := e.Body.(type) {
	case *runlog.ModelResult:
		over("")
		st.Usage, st.Said = b.Usage, bounded(b.Message.Content.Text())
		st.Brief = turnBrief(b)
		if b.Thinking != "" {
			st.Parts = append(st.Parts, part{"Thinking", bounded(b.Thinking)})
		}
		for _, c := range b.Message.Content {
			if use, ok := c.(*mcp.ToolUseContent); ok {
				st.Parts = append(st.Parts, part{"Calls " + use.Name, bounded(indent(use.Input))})
			}
		}
	case *runlog.ModelFailed:
		over("bad")
		st.Usage, st.Brief = b.Usage, "no answer"+attempts(b.Attempts)
		st.Parts = append(st.Parts, part{"Error", bounded(b.Error)})
	case *runlog.ToolWaiting:
		st.Parts = append(st.Parts, part{"Waits for", b.For})
	case *runlog.ToolDispatched:
		st.Run = cmp.Or(b.Run, st.Run)
	case *runlog.ToolRound:
		st.Parts = append(st.Parts, part{"The server asks first", counted(len(b.Requests), "question")})
	case *runlog.ToolResult:
		over("")
		if !b.Made {
			st.Mark, st.Parts = "bad", append(st.Parts, part{"Not made", ""})
		}
		if b.Result != nil {
			if b.Result.IsError {
				st.Mark = "bad"
			}
			st.Parts = append(st.Parts, resultParts(b.Result.Content, b.Result.StructuredContent)...)
		}
	case *runlog.ToolUnknown:
		over("bad")
		st.Parts = append(st.Parts, part{"Unknown outcome", bounded(b.Reason)})
	case *runlog.AskSettled:
		over("")
		st.Brief = strings.TrimSpace(st.Brief + " · " + string(b.Status) + by(b.By))
	case *runlog.RunFinished:
		st.End = time.Time{}
	}
}

func by(name string) string {
	if name == "" {
		return ""
	}
	return " by " + name
}

// turnBrief says how a turn has ended.
func turnBrief(b *runlog.ModelResult) string {
	text := ""
	if b.Finish != llm.FinishStop && b.Finish != llm.FinishToolCalls {
		text = string(b.Finish)
	}
	if b.Chosen != nil {
		text = strings.TrimSpace(text + " " + b.Chosen.Model)
	}
	return strings.TrimSpace(text + attempts(b.Attempts))
}

// attempts says how often a model was asked, if that is more than once.
func attempts(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" after %d attempts", n)
}

// resultParts is the result of a call.
func resultParts(content mcp.Contents, structured json.RawMessage) (parts []part) {
	for _, c := range content {
		parts = append(parts, contentPart("Result", c))
	}
	if len(structured) > 0 {
		parts = append(parts, part{"Structured result", bounded(indent(structured))})
	}
	return parts
}

// contentPart is a block of a message or a result.
func contentPart(label string, c mcp.Content) part {
	switch b := c.(type) {
	case *mcp.TextContent:
		return part{label, bounded(b.Text)}
	case *mcp.ImageContent:
		return part{label, fmt.Sprintf("a picture, %s, %d bytes", b.MIMEType, len(b.Data))}
	case *mcp.AudioContent:
		return part{label, fmt.Sprintf("a sound, %s, %d bytes", b.MIMEType, len(b.Data))}
	case *mcp.ResourceLink:
		return part{label, "a link to the resource " + b.URI + "\n" + b.Description}
	case *mcp.EmbeddedResource:
		if r := b.Resource; r.Text != "" {
			return part{label, "the resource " + r.URI + "\n" + bounded(r.Text)}
		}
		return part{label, "the resource " + b.Resource.URI}
	case *mcp.ToolUseContent:
		return part{label, "calls " + b.Name + "\n" + bounded(indent(b.Input))}
	case *mcp.ToolResultContent:
		return part{label, "the result of a call\n" + bounded(b.Content.Text())}
	}
	return part{label, "a block of the type " + c.ContentType()}
}

// compact is JSON on one line.
func compact(raw json.RawMessage) string { return strings.Join(strings.Fields(string(raw)), " ") }

// bounded cuts a text to what a page shows.
func bounded(text string) string { return clip.Text(text, maxShown) }
