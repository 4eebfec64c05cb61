// Package runlog has the events of a run's journal with their bodies decoded, and the
// answers to its asks: what a run writes and what its readers, such as package agent and
// the command, understand.
package runlog

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Types of events that only a run writes, beside those of package store.
const (
	ToolsListedType = "tools.listed" // what the model may call from now on
	ModelIntentType = "model.intent" // the model is about to be asked, with this reservation
	ModelFailedType = "model.failed" // the model was asked, and the turn has no result
	RunEndingType   = "run.ending"   // how the run ends is decided, and nothing begins any more
	RunParkedType   = "run.parked"   // no process works on the run any more, until it is resumed
	RunResumedType  = "run.resumed"  // a process goes on with it
	RunDriftedType  = "run.drifted"  // it goes on, and not everything is as it has recorded it
	RunForkedType   = "run.forked"   // the events before it are those of another run
	InputAddedType  = "input.added"  // a message of the run itself to the model
	SpentType       = "spent"        // what was paid for beside the turns; Key is the call's, empty for none

	LimitReachedType = "limit.reached" // what comes next does not fit the limits
	LimitRaisedType  = "limit.raised"  // a person has allowed more

	ToolTaskType         = "tool.task"         // the server has made a task of a call
	ToolRoundType        = "tool.round"        // the server wants input before it carries out a call
	ToolWaitingType      = "tool.waiting"      // a call has to wait before it is sent
	GuardActedType       = "guard.acted"       // a guard has changed, refused or stopped something; Key is the call's
	HistoryCutType       = "history.cut"       // part of the conversation is left out from now on
	AgentChangedType     = "agent.changed"     // another agent goes on; Key is that of the call that handed over
	StopMetType          = "stop.met"          // the condition to stop the run holds
	QuestionDeclinedType = "question.declined" // a server's question was declined without being asked; Key is that of the call that it may belong to
	TaintedType          = "run.tainted"       // what the tree of runs has seen, from a result on; Key is the call's
)

// Entry is an event of a run with its body decoded: a pointer to one of the bodies of this
// package.
type Entry struct {
	Seq  int64
	Time time.Time
	Type string
	Key  string // of the tool call or ask it belongs to
	Body any

	Imported bool // another store has recorded it: see [State.Add]
}

// bodies makes the body of each type of event.
var bodies = map[string]func() any{
	store.RunStarted:     func() any { return new(RunStarted) },
	ToolsListedType:      func() any { return new(ToolsListed) },
	ModelIntentType:      func() any { return new(ModelIntent) },
	store.ModelResult:    func() any { return new(ModelResult) },
	ModelFailedType:      func() any { return new(ModelFailed) },
	SpentType:            func() any { return new(Spent) },
	store.ToolIntent:     func() any { return new(ToolIntent) },
	store.ToolDispatched: func() any { return new(ToolDispatched) },
	store.ToolResult:     func() any { return new(ToolResult) },
	store.ToolUnknown:    func() any { return new(ToolUnknown) },
	store.AskOpened:      func() any { return new(AskOpened) },
	store.AskSettled:     func() any { return new(AskSettled) },
	RunEndingType:        func() any { return new(RunEnding) },
	RunParkedType:        func() any { return new(RunParked) },
	RunResumedType:       func() any { return new(RunResumed) },
	RunDriftedType:       func() any { return new(RunDrifted) },
	RunForkedType:        func() any { return new(RunForked) },
	InputAddedType:       func() any { return new(InputAdded) },
	LimitReachedType:     func() any { return new(LimitReached) },
	LimitRaisedType:      func() any { return new(LimitRaised) },
	store.RunFinished:    func() any { return new(RunFinished) },
	GuardActedType:       func() any { return new(GuardActed) },
	HistoryCutType:       func() any { return new(HistoryCut) },
	AgentChangedType:     func() any { return new(AgentChanged) },
	StopMetType:          func() any { return new(StopMet) },
	QuestionDeclinedType: func() any { return new(QuestionDeclined) },
	TaintedType:          func() any { return new(Tainted) },
	ToolWaitingType:      func() any { return new(ToolWaiting) },
	ToolTaskType:         func() any { return new(ToolTask) },
	ToolRoundType:        func() any { return new(ToolRound) },
}

// Decode reads an event that a run has written. An event of an unknown type, such as one
// of a later version, has its raw body.
func Decode(ev store.Event) (Entry, error) {
	e := Entry{Seq: ev.Seq, Time: ev.Time, Type: ev.Type, Key: ev.Key, Imported: ev.Imported}
	make, ok := bodies[ev.Type]
	if !ok {
		e.Body = ev.Body
		return e, nil
	}
	e.Body = make()
	if err := jsonx.Unmarshal(ev.Body, e.Body); err != nil {
		return Entry{}, fmt.Errorf("reading event %d (%s) of run %q: %w", ev.Seq, ev.Type, ev.Run, err)
	}
	return e, nil
}

// smaller is a body without its largest part; nil for one without such a part.
func smaller(body any) any {
	switch b := body.(type) {
	case *ToolResult:
		cut := *b
		r := toolresult.ForModel("", b.Result, store.MaxBody/16)
		cut.Result = &mcp.CallToolResult{Content: r.Content, StructuredContent: r.StructuredContent, IsError: r.IsError}
		return &cut
	case *ModelResult:
		cut := *b
		cut.Thinking, cut.Message.State = "", nil
		return &cut
	case *RunFinished: // the model's last result has all of it
		cut := *b
		cut.Text, cut.Structured = clip.Text(b.Text, store.MaxBody/16), nil
		return &cut
	case *RunEnding: // likewise
		cut := *b
		cut.Text, cut.Structured = clip.Text(b.Text, store.MaxBody/16), nil
		return &cut
	}
	return nil
}
