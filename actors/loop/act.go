package loop

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/internal/clip"
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
	hold    *budget.Hold            // its room; nil for a call that was refused
	cancel  context.CancelCauseFunc // while it runs
	result  *mcp.ToolResultContent  // what the model will see
	raised  int                     // how often it has asked
	unasked int                     // its notes of questions that were declined unasked
	made    bool                    // it was neither refused nor declined
	again   bool                    // it is asked about whatever was allowed before
	nth     int                     // which of its kind in a row, once the model is to be told
	held    int                     // how much of the run's

	// Of a tool that dispatches its calls itself.
	waits      string // what it waits for before it is sent; empty for nothing
	dispatched bool   // that it is about to be sent is recorded, or on its way there
	goes       bool   // it was let go on to be sent
}

// toolReturned is a message to itself: a tool call has ended.
type toolReturned struct {
	call   *call
	result *mcp.CallToolResult
	guards guard.Outcome
	err    error
}

// act begins the calls of a turn: each is refused, asked about, or made once there
// is room.
func (r *run) act(c *actors.Context, rulings []ruling) {
	for i := range rulings {
		if r.cfg.Journal == nil && rulings[i].refusal == "" && rulings[i].verdict != Allow {
			rulings[i].refusal = "not called: it needs a human's consent, and there is nobody to ask"
		}
	}
	if !r.admit(c, rulings) {
		return
	}
	r.state = (*run).acting
	t := r.turn
	t.spend = nil // it is paid
	r.say(t.resp.Message())
	var entries []runlog.Entry
	for i, cl := range t.calls {
		if refusal := rulings[i].refusal; refusal != "" {
			entries = append(entries, r.settle(cl, mcp.ErrorResult("%s", refusal), false))
			continue
		}
		entries = append(entries, cl.intent())
		cl.again = rulings[i].verdict == AskAgain
		if rulings[i].verdict == Allow || r.allowedForRun(cl) {
			cl.phase = ready
		} else if asked, err := r.openAsk(cl); err == nil {
			entries = append(entries, asked)
		} else {
			cl.hold.Release()
			entries = append(entries, r.settle(cl, mcp.ErrorResult("not called: it needs a human's consent, and can not be asked about: %v", err), false))
		}
	}
	r.advance(c, entries...)
}

func (cl *call) intent() runlog.Entry {
	return runlog.Entry{Type: store.ToolIntent, Key: cl.key, Body: &runlog.ToolIntent{
		Turn: cl.turn.n, CallID: cl.id, Tool: cl.name, Server: cl.tool.Server, Hash: cl.tool.Hash, Arguments: cl.args, Safe: cl.tool.Safe}}
}

// settle gives a call its result, for the model and for the journal.
func (r *run) settle(cl *call, res *mcp.CallToolResult, made bool) runlog.Entry {
	cl.phase, cl.made = returned, made
	cl.result = clip.ForModel(cl.id, res, r.cfg.MaxResult)
	cl.tellRepeated()
	return runlog.Entry{Type: store.ToolResult, Key: cl.key, Body: &runlog.ToolResult{
		Turn: cl.turn.n, CallID: cl.id, Tool: cl.name, Server: cl.server(), Made: made, Late: r.out != nil && made,
		Repeated: cl.nth, Result: res}}
}

// lose gives a call whose outcome nobody knows a result that says so.
func (r *run) lose(cl *call, reason string) runlog.Entry {
	cl.phase, cl.made = returned, true
	reason = clip.Short(reason)
	cl.result = clip.ForModel(cl.id, mcp.ErrorResult("The outcome of this call is unknown, it may have taken effect: %s", reason), r.cfg.MaxResult)
	return runlog.Entry{Type: store.ToolUnknown, Key: cl.key, Body: &runlog.ToolUnknown{
		Turn: cl.turn.n, CallID: cl.id, Tool: cl.name, Server: cl.server(), Reason: reason}}
}

// child is the run that the call starts, empty for none.
func (cl *call) child() string {
	if cl.tool.Child == nil {
		return ""
	}
	return cl.tool.Child(cl.key)
}

func (cl *call) server() string {
	if cl.tool == nil {
		return ""
	}
	return cl.tool.Server
}

// advance writes what has happened together with the dispatch of the calls that
// now have room, and makes those once that is durable.
func (r *run) advance(c *actors.Context, entries ...runlog.Entry) {
	t := r.turn
	var start []*call
	var asks []*openAsk
	settled := 0
	for _, e := range entries {
		switch e.Type {
		case store.ToolResult, store.ToolUnknown:
			settled++
		case store.AskOpened:
			asks = append(asks, r.asks[e.Key])
		}
	}
	for _, cl := range t.calls {
		if cl.phase == ready && t.busy < r.cfg.Parallel && r.suspending == nil {
			cl.phase = sent
			t.busy++
			start = append(start, cl)
			if !cl.tool.Dispatches {
				entries = append(entries, cl.dispatchOf())
			}
		}
	}
	r.writeBatch(c, &batch{entries: entries, state: r.runState(), then: func(c *actors.Context) {
		t.left -= settled
		r.begin(c, t, start, asks)
	}})
}

// runState says whether the run waits for a human.
func (r *run) runState() store.RunState {
	if len(r.asks) > 0 {
		return store.Waiting
	}
	return store.Running
}

// begin makes the calls and asks whose events are durable.
func (r *run) begin(c *actors.Context, t *turn, start []*call, asks []*openAsk) {
	r.asksAreStored(c, asks...)
	if r.out != nil {
		r.unmade(c, t, start)
		return
	}
	for _, cl := range start {
		r.dispatch(c, cl)
	}
	if t.left == 0 && !t.acted && !r.raisedOpen() {
		t.acted = true
		r.acted(c)
	}
}

// dispatch makes a call, in a task: a panic in it is its own error.
func (r *run) dispatch(c *actors.Context, cl *call) {
	sink, cfg := r.cfg.Sink, r.cfg
	todo := &Call{Run: r.cfg.ID, Key: cl.key, Arguments: cl.args, run: c.Self(), call: cl, Progress: func(p Progress) { sink.Progress(cl.key, p) }}
	if !cl.tool.Dispatches {
		r.pay(cl, true)
	}
	todo.spend, todo.left = r.spend, r.timeLeft()
	look := r.afterTool(cl)
	over := func(m *toolReturned, err error) any {
		if m == nil {
			m = new(toolReturned)
		}
		m.call, m.err = cl, err
		return m
	}
	if cl.tool.Go != nil { // a server's: its result has passed a decoder
		cl.cancel = actors.AwaitAnswer(c, func(ctx context.Context, answer func(*toolReturned, error)) {
			cfg.tracedGo(ctx, cl, todo, func(res *mcp.CallToolResult, err error) {
				answer(actors.Guard(func() (*toolReturned, error) { return look(ctx, res, err) }))
			})
		}, over)
		return
	}
	cl.cancel = actors.AwaitBlocking(c, func(ctx context.Context) (*toolReturned, error) {
		res, err := cfg.traced(ctx, cl, todo)
		if err == nil {
			res, err = clip.Writable(res)
		}
		return look(ctx, res, err)
	}, over)
}

func (r *run) acting(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *toolReturned:
		if m.call.turn != r.turn || m.call.phase != sent {
			return // late
		}
		r.turn.busy--
		r.takeBack(c, m.call)
		r.letGo(m.call)
		r.advance(c, r.outcomes(c, m)...)
		if m.guards.Stop != nil {
			r.failed(c, m.guards.Stop)
		}
	case graceOver:
		r.giveUpCalls(c)
	default:
		r.askMessage(c, msg)
	}
}

// outcomeOf says what a call that has returned has come to.
func (r *run) outcomeOf(c *actors.Context, m *toolReturned) runlog.Entry {
	if p, ok := errors.AsType[*actors.PanicError](m.err); ok {
		c.Log().Error("a tool panicked", "run", r.cfg.ID, "tool", m.call.name, "error", p, "stack", string(p.Stack))
	}
	unknown, isUnknown := errors.AsType[*UnknownError](m.err)
	unsent := m.err != nil && m.call.unsent()
	r.pay(m.call, !unsent)
	switch {
	case unsent:
		return r.settle(m.call, clip.ErrorResult(m.err), false)
	case isUnknown:
		return r.lose(m.call, unknown.Err.Error())
	case m.err != nil && r.out != nil:
		return r.lose(m.call, m.err.Error())
	case m.err != nil:
		return r.settle(m.call, clip.ErrorResult(m.err), true)
	case m.result == nil:
		return r.settle(m.call, mcp.ErrorResult("the tool gave no result"), true)
	}
	return r.settle(m.call, m.result, true)
}

// acted hands all results to the model, in its order, and begins the next turn.
func (r *run) acted(c *actors.Context) {
	t := r.turn
	results := make(mcp.Contents, len(t.calls))
	for i, cl := range t.calls {
		results[i] = cl.result
	}
	r.say(llm.Message{Role: llm.RoleUser, Content: results})
	if t.over != nil {
		r.callsOver(c, t.over)
		return
	}
	r.next(c)
}
