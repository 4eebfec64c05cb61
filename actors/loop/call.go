package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// phase is where a call stands.
type phase uint8

const (
	fresh    phase = iota // not decided
	asking                // waits for a human
	ready                 // waits for room
	sent                  // its dispatch is being written, or it is running
	returned              // it has a result
)

// call is one tool call of a turn.
type call struct {
	key  string
	turn *turn
	id   string // the model's
	name string
	args json.RawMessage
	tool *Tool // nil if there is none of that name

	phase   phase
	step    int                     // of its turn, in which it was sent; zero before
	hold    *budget.Hold            // its room; nil for a call that was refused
	room    budget.Hold             // memory for hold
	task    *actors.Task            // makes it; nil before, and for a tool that keeps no goroutine
	cancel  context.CancelCauseFunc // ends that one; nil likewise
	result  *mcp.ToolResultContent  // as the model will see it
	raised  int                     // how often it has asked
	unasked int                     // its notes of questions that were declined unasked
	made    bool                    // it was neither refused nor declined
	again   bool                    // it asks in spite of all earlier approvals
	noRoom  bool                    // it was refused for a limit
	traits  runlog.Traits           // of its tool, once it was decided on
	held    int                     // how much of the run's clock it holds
	was     *runlog.CallState       // as it was sent, once its outcome is unknown; nil for a call that was not sent before
	why     string                  // likewise, why the outcome is unknown
	takesUp bool                    // likewise, and it goes on with was.Task or was.Round
	same    bool                    // likewise, and its tool is the one that it was decided for
	repeats int                     // how often it was made again here without a person's word
	sentAt  time.Time               // by this process, for the last time

	// Of a tool that dispatches its calls itself.
	waits      string // the reason of its wait before it is sent; empty for none
	dispatched bool   // that it is about to be sent is recorded, or on its way there
	goes       bool   // its dispatch is durable: it may be sent
	between    bool   // its server wants input before it carries it out; the next round is recorded before it is sent
}

func (cl *call) intent() runlog.Entry {
	return runlog.Entry{Type: store.ToolIntent, Key: cl.key, Body: &runlog.ToolIntent{
		Turn: cl.turn.n, CallID: cl.id, Tool: cl.name, Server: cl.tool.Server, Hash: cl.tool.Hash, Arguments: cl.args, Safe: cl.tool.Safe, Traits: cl.traits}}
}

// reserve holds room for the call.
func (cl *call) reserve(s *spend.Spending) error {
	err := s.ReserveCall(&cl.room)
	if err == nil {
		cl.hold = &cl.room
	}
	return err
}

// child is the run that the call starts, empty for none.
func (cl *call) child() string {
	if cl.tool == nil || cl.tool.Child == nil {
		return ""
	}
	return cl.tool.Child(cl.key)
}

func (cl *call) server() string {
	switch {
	case cl.tool != nil:
		return cl.tool.Server
	case cl.was != nil:
		return cl.was.Server
	}
	return ""
}

// sameTool reports whether the tool of the call is the one that it was decided for.
func (cl *call) sameTool(was *runlog.CallState) bool {
	return cl.tool != nil && cl.tool.Hash == was.Intent.Hash && cl.tool.Server == was.Intent.Server
}

// safeAgain reports whether a call that was sent may be made again without a word: its tool was declared
// safe when it was decided on, and is the same one now.
func (cl *call) safeAgain() bool {
	return cl.same && cl.was.Intent.Safe && cl.tool.Safe && cl.tool.Child == nil
}

// question is the row of a question about the call.
func (cl *call) question(cfg *config, kind, id string) store.Ask {
	if id == cl.key && cfg.Asks != "" { // another run has asked about it
		id += ".0"
	}
	row := cfg.question(kind, id)
	row.Tool, row.Trust = cl.name, "untrusted"
	if t := cl.tool; t != nil {
		row.Server, row.Origin = t.Server, t.Origin
		switch {
		case t.Server == "":
			row.Trust = "program"
		case t.Trusted:
			row.Trust = "trusted"
		}
	}
	return row
}

// nextAsk is the ID of a further question about the call.
func (cl *call) nextAsk() string {
	cl.raised++
	return fmt.Sprintf("%s.%d", cl.key, cl.raised)
}

// dispatchOf is the event that begins a call.
func (cl *call) dispatchOf() runlog.Entry {
	cl.sentAt = store.Clock(time.Now())
	return runlog.Entry{Type: store.ToolDispatched, Key: cl.key, Body: &runlog.ToolDispatched{Turn: cl.turn.n, CallID: cl.id, Run: cl.child()}}
}

// waitsForRound reports whether the server of the call wants input, and the journal says which: the call
// can be left, and goes on with that round.
func (cl *call) waitsForRound() bool {
	return cl.between || cl.takesUp && cl.was.Round != nil && !cl.dispatched
}

// unsent reports whether a call that was begun was surely not sent.
func (cl *call) unsent() bool { return cl.tool != nil && cl.tool.Dispatches && !cl.goes }

// turn is one question to the model and the calls it leads to. Its address is its
// identity.
type turn struct {
	n       int          // from one
	task    *actors.Task // asks the model; nil before
	resp    *llm.Response
	uses    []*mcp.ToolUseContent // of the answer
	calls   []*call               // that its uses are
	steps   int                   // how often calls and asks were begun
	busy    int                   // calls on their way: dispatched or being dispatched
	left    int                   // calls without a result
	acted   bool                  // its results are on their way to the model
	counted bool                  // [repeats] has seen it
	spend   *spend.Turn           // nil once its calls are made
	paid    spend.Turn            // memory for spend
	asks    streaming             // memory of task
	asking  bool                  // it is begun, and the model has not answered
	answers bool                  // it may not call: see [Config.LastAnswers]
	over    error                 // a limit that its calls have reached
	spoilt  []string              // ids of calls whose arguments were no JSON object
	guards  guard.Outcome         // of the model's answer
	text    *string               // a guard's, in place of the model's answer; nil for none
}

// intent is the event that precedes a turn; last says that it is the last one of a run at its limit.
func (t *turn) intent(req *llm.Request, left time.Duration, last bool) runlog.Entry {
	return runlog.Entry{Type: runlog.ModelIntentType, Body: &runlog.ModelIntent{Turn: t.n, Reserved: t.spend.Reserved(),
		MaxTokens: req.MaxTokens, Held: t.spend.Held(), WallLeftMS: left.Milliseconds(), Clamped: t.spend.Clamped(), Last: last}}
}

// lose is the event of a turn that the run is left in without an answer: it is asked again.
func (t *turn) lose(err error) runlog.Entry {
	asked := t.task != nil
	if t.asking = false; asked {
		t.task.Cancel(err)
	}
	_ = t.spend.Abandon(asked && spend.MayBeBilled(err)) // what there is no room for is found again
	lost := t.spend.Failed(err)
	lost.Body.(*runlog.ModelFailed).Lost = true
	return lost
}

func (t *turn) info(cfg *config) *guard.TurnInfo {
	return &guard.TurnInfo{Run: cfg.ID, Agent: cfg.Agent, Turn: t.n, Text: t.resp.Text(), Calls: func(yield func(guard.TurnCall) bool) {
		for _, cl := range t.calls {
			if !yield(guard.TurnCall{Server: cl.server(), Tool: cl.name, Arguments: cl.args, Made: cl.made, Result: cl.result}) {
				return
			}
		}
	}}
}

// end cancels the turn and its calls.
func (t *turn) end(cause error) {
	if t.task != nil {
		t.task.Cancel(cause)
	}
	for _, cl := range t.calls {
		switch {
		case cl.phase == ready: // an intent without a dispatch means that it was not made
			cl.hold.Release()
			cl.phase = returned
		case cl.phase == sent:
			cl.stop(cause)
		}
	}
}

// stop ends the work on a call, if it has begun.
func (cl *call) stop(cause error) {
	switch {
	case cl.task != nil:
		cl.task.Cancel(cause)
	case cl.cancel != nil:
		cl.cancel(cause)
	}
}
