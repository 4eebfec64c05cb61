package loop

import (
	"context"
	"errors"
	"strconv"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// toolReturned is a message to itself: a tool call has ended.
type toolReturned struct {
	call   *call
	result *mcp.CallToolResult
	guards guard.Outcome
	err    error
}

// calls are the tool calls of a turn: each is refused, asked about, or made once there is
// room, and comes to exactly one result.
type calls struct {
	*parts
	seen runlog.Taint // as last written
}

// add adds the calls that the model asks for to their turn.
func (cs *calls) add(uses []*mcp.ToolUseContent) {
	t, all := cs.turn, make([]call, len(uses))
	t.calls = make([]*call, len(uses))
	for i, use := range uses {
		all[i] = call{key: cs.cfg.Nonce + "-" + strconv.Itoa(t.n) + "-" + strconv.Itoa(i),
			turn: t, id: use.ID, name: use.Name, args: use.Input, tool: cs.talk.tools.byName[use.Name]}
		t.calls[i] = &all[i]
	}
}

// act begins the calls of a turn: each is refused, asked about, or made once there
// is room.
func (cs *calls) act(c *actors.Context, rulings []ruling) {
	for i := range rulings {
		if rulings[i].verdict == guard.Allow && cs.recovery.differs(cs.turn.calls[i].name) {
			rulings[i].verdict = guard.Ask
		}
		if cs.cfg.Journal == nil && rulings[i].refusal == "" && rulings[i].verdict != guard.Allow {
			rulings[i].refusal = "not called: it needs a human's consent, and the run has no person to ask"
		}
	}
	if !cs.admit(c, rulings) {
		return
	}
	cs.run.act()
	t := cs.turn
	var room [4]runlog.Entry // of most turns, on the stack
	entries := room[:0]
	for i, cl := range t.calls {
		if refusal := rulings[i].refusal; refusal != "" {
			entries = append(entries, cs.settle(cl, mcp.ErrorResult("%s", refusal), false))
			continue
		}
		cl.traits = runlog.Traits{Polls: cl.tool.Polls, ReadOnly: cl.tool.ReadOnly}
		entries = append(entries, cl.intent())
		cl.again = rulings[i].verdict == guard.AskAgain
		if rulings[i].verdict == guard.Allow || cs.approvals.has(cl) {
			cl.phase = ready
		} else if asked, err := cs.approvals.ask(cl, cl.key, cs.approved(cl)); err == nil {
			entries = append(entries, asked)
		} else {
			cl.hold.Release()
			entries = append(entries, cs.settle(cl, mcp.ErrorResult("not called: it needs a human's consent, and cannot be asked about: %v", err), false))
		}
	}
	cs.advance(c, entries...)
}

// admit holds room for the calls of a turn. Calls without any are refused, unless a
// human is to be asked for more: it then returns false, and act comes again.
func (cs *calls) admit(c *actors.Context, rulings []ruling) bool {
	t := cs.turn
	for i, cl := range t.calls {
		if rulings[i].refusal != "" || cl.hold != nil {
			continue
		}
		if t.over == nil {
			err := cl.reserve(cs.h.spend)
			if err == nil {
				continue
			}
			if limit, ok := errors.AsType[*budget.LimitError](err); ok && cs.cfg.Limits.OnLimit == runlog.LimitAsk {
				cs.run.hit(c, limitHit{ask: &limitAsk{err: limit,
					again: func(c *actors.Context) { cs.act(c, rulings) },
					stop: func(c *actors.Context, err error) {
						t.over = err
						cs.act(c, rulings)
					}}})
				return false
			}
			t.over = err
		}
		rulings[i].refusal, cl.noRoom = "not called: "+t.over.Error(), true
	}
	return true
}

// approved goes on with the decision whether a call may be made.
func (cs *calls) approved(cl *call) decision {
	return func(c *actors.Context, d store.Decision, entries []runlog.Entry) {
		cs.advance(c, append(entries, cs.decided(cl, d)...)...)
		if d.Status == store.AskAccepted && d.Scope == runlog.ScopeRun {
			cs.approvals.cover(c)
		}
	}
}

// decided makes a call ready if it was allowed, and else gives it its result.
func (cs *calls) decided(cl *call, d store.Decision) []runlog.Entry {
	switch {
	case d.Status == store.AskAccepted:
		cl.phase = ready
		if d.Scope == runlog.ScopeRun {
			cs.approvals.allow(cl.tool.Hash, cl.again)
		}
		return nil
	case cl.was != nil:
		return []runlog.Entry{cs.lose(cl, cl.why+", and a person did not have it made again")}
	}
	cl.hold.Release()
	return []runlog.Entry{cs.settle(cl, declined(d), false)}
}

// advance writes what has happened together with the dispatch of the calls that
// now have room, and makes those once that is durable. Calls that ask for their dispatch
// themselves, and the next turn, do not wait for it: they write before they have an effect.
func (cs *calls) advance(c *actors.Context, entries ...runlog.Entry) {
	cs.advanceAnd(c, nil, entries...)
}

// advanceAnd is advance, and calls then, if it is not nil, once the entries are durable.
func (cs *calls) advanceAnd(c *actors.Context, then func(), entries ...runlog.Entry) {
	t := cs.turn
	asks := cs.opened(entries)
	var room [8]runlog.Entry // of most turns, on the stack
	all := append(room[:0], entries...)
	starts, alone := false, false // any call, and one whose dispatch is written here
	t.steps++
	step := t.steps
	for _, cl := range t.calls {
		if cl.phase == ready && t.busy < cs.cfg.Parallel && cs.out == nil && !cs.recovery.ending() {
			cl.phase, cl.step, starts = sent, step, true
			t.busy++
			alone = alone || !cl.tool.Dispatches
			if !cl.tool.Dispatches && !cl.takesUp {
				all = append(all, cl.dispatchOf())
			}
		}
	}
	for i := range entries {
		if typ := entries[i].Type; typ == store.ToolResult || typ == store.ToolUnknown {
			t.left--
		}
	}
	b := journal.Batch{State: cs.asks.state()}
	if then == nil && cs.out == nil && !cs.recovery.ending() && asks == nil && !alone && (starts || cs.over(t)) {
		cs.journal.Hold(c, b, all...)
		cs.begin(c, t, step, nil)
		return
	}
	b.Then = func(c *actors.Context) {
		if then != nil {
			then()
		}
		cs.begin(c, t, step, asks)
	}
	if cs.recovery.ending() { // the end that it follows from is written with it
		cs.journal.Hold(c, b, all...)
		return
	}
	cs.journal.WriteBatch(c, b, all...)
}

// opened are the asks that entries open.
func (cs *calls) opened(entries []runlog.Entry) (asks []*openAsk) {
	for i := range entries {
		if e := &entries[i]; e.Type == store.AskOpened {
			asks = append(asks, cs.asks.open[e.Key])
		}
	}
	return asks
}

// over reports whether all calls of a turn have their results, and no question is left to them.
func (cs *calls) over(t *turn) bool {
	return t.left == 0 && !t.acted && len(cs.asks.open) == cs.asks.approvals()
}

// begin makes the calls of a step of the turn, and its asks, whose events are durable, or need not be yet.
func (cs *calls) begin(c *actors.Context, t *turn, step int, asks []*openAsk) {
	cs.asks.stored(c, asks...)
	switch {
	case cs.parking.on:
		cs.parking.dispatched(c, t, step)
		return
	case cs.out != nil:
		cs.unmade(c, t, step)
		return
	}
	for _, cl := range t.calls {
		if cl.step == step {
			cs.dispatch(c, cl)
		}
	}
	if cs.over(t) {
		t.acted = true
		cs.run.acted(c)
	}
}

// dispatch makes a call, in a task: a panic in it is its own error.
func (cs *calls) dispatch(c *actors.Context, cl *call) {
	m := &making{todo: Call{Run: cs.cfg.ID, Key: cl.key, Arguments: cl.args, cfg: cs.cfg, run: c.Self(), call: cl}}
	todo := &m.todo
	if !cl.tool.Dispatches {
		cs.pay(cl, true)
	}
	todo.spend, todo.left = cs.h.spend, cs.clock.remaining()
	if cl.tool.Go == nil || cl.takesUp {
		cl.task = actors.AwaitWork(c, m)
		return
	}
	cl.cancel = actors.AwaitAnswer(c, func(ctx context.Context, answer func(toolReturned, error)) {
		todo.cfg.tracedGo(ctx, cl, todo, func(res *mcp.CallToolResult, err error) { // a server's: it has passed a decoder
			answer(actors.Guard(func() (toolReturned, error) { return todo.look(ctx, res, err) }))
		})
	}, func(m toolReturned, err error) any {
		m.call, m.err = cl, err
		return &m
	})
}

// making is a call on its way, on the goroutine of its task.
type making struct {
	actors.Task
	todo  Call
	reply toolReturned
}

// Run implements [actors.Work].
func (m *making) Run(ctx context.Context) error {
	res, err := m.todo.cfg.traced(ctx, m.todo.call, &m.todo)
	if err == nil {
		res, err = toolresult.Writable(res)
	}
	m.reply, err = m.todo.look(ctx, res, err)
	return err
}

// Ended implements [actors.Work].
func (m *making) Ended(err error) any {
	m.reply.call, m.reply.err = m.todo.call, err
	return &m.reply
}

// look shows the guards the result of a call, on its goroutine.
func (c *Call) look(ctx context.Context, res *mcp.CallToolResult, err error) (toolReturned, error) {
	cfg, cl := c.cfg, c.call
	if !guard.AfterTool.Guarded(cfg.Guards) {
		return toolReturned{result: res}, err
	}
	if _, unknown := errors.AsType[*UnknownError](err); err != nil && !unknown && ctx.Err() == nil {
		res, err = toolresult.OfError(err), nil // guards see errors too
	}
	if err != nil || res == nil {
		return toolReturned{}, err
	}
	in := guard.Return{Run: cfg.ID, Agent: cfg.Agent, Turn: cl.turn.n, Key: cl.key, Server: cl.tool.Server, Tool: cl.name, Arguments: cl.args, Result: res}
	v, g := guard.AfterTool.Pass(ctx, cfg.Guards, in, func(v *guard.Return) (err error) {
		if v.Result, err = toolresult.Writable(v.Result); err == nil && v.Result == nil {
			err = errors.New("there is no result")
		}
		return err
	})
	switch {
	case g.Stop != nil:
		return toolReturned{result: mcp.ErrorResult("[withheld: a guard has stopped the run]"), guards: g}, nil
	case g.Refused != "":
		return toolReturned{result: mcp.ErrorResult("%s", g.Refused), guards: g}, nil
	}
	return toolReturned{result: v.Result, guards: g}, nil
}

// outcomes appends the events of a call that has returned: what it has come to, and what
// follows from that.
func (cs *calls) outcomes(out []runlog.Entry, c *actors.Context, m *toolReturned) []runlog.Entry {
	if unknown, ok := errors.AsType[*UnknownError](m.err); ok && !m.call.unsent() && !cs.finishing() {
		cs.pay(m.call, true)
		if out = append(out, cs.lost(c, m.call, unknown)...); m.call.made {
			out = append(out, cs.taint(m.call)...)
		}
		return out
	}
	out = append(out, cs.outcomeOf(c, m))
	out = append(out, m.guards.Entries(m.call.key)...)
	if !m.call.made { // it has brought nothing
		return out
	}
	return append(out, cs.taint(m.call)...)
}

// maxRepeats bounds how often a call is made again without a person's word, as its outcome is unknown.
const maxRepeats = 2

// lost goes on with a call whose outcome became unknown here, by the same rules as after a crash. A safe one
// that does not get an answer by then has cost nothing but its time: the model is told.
func (cs *calls) lost(c *actors.Context, cl *call, unknown *UnknownError) []runlog.Entry {
	if cs.recovery == nil {
		cs.recovery = &recovery{parts: cs.parts, policy: cs.cfg.Unknown}
	}
	if cl.was == nil {
		cl.was, cl.same = &runlog.CallState{Intent: cl.intent().Body.(*runlog.ToolIntent)}, true
	}
	if !cl.takesUp || cl.was.Round != nil {
		cl.was.SentAt = cl.sentAt
	}
	cl.why = unknown.Err.Error()
	if cl.takesUp {
		cl.why = left + "; " + cl.why
	}
	cl.takesUp, cl.dispatched, cl.goes, cl.between = false, false, false, false
	safe := cl.safeAgain()
	c.Log().Warn("the outcome of a call is unknown", "run", cs.cfg.ID, "tool", cl.name, "error", unknown.Err)
	switch policy := cs.recovery.unknownPolicy(); {
	case safe && timedOut(unknown.Err), (safe || policy == runlog.OutcomeAgain) && cl.repeats >= maxRepeats:
		return []runlog.Entry{cs.lose(cl, cl.why)}
	case safe:
		cl.repeats++
		cl.phase = ready
		return nil
	case policy == runlog.OutcomeAgain:
		cl.repeats++
	}
	return cs.recovery.unknown(cl)
}

// timedOut reports whether the time that the user gives a call was over: it is not given twice.
func timedOut(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}

// outcomeOf is the outcome of a call that has returned.
func (cs *calls) outcomeOf(c *actors.Context, m *toolReturned) runlog.Entry {
	if p, ok := errors.AsType[*actors.PanicError](m.err); ok {
		c.Log().Error("a tool panicked", "run", cs.cfg.ID, "tool", m.call.name, "error", p, "stack", string(p.Stack))
	}
	unknown, isUnknown := errors.AsType[*UnknownError](m.err)
	unsent := m.err != nil && m.call.unsent()
	cs.pay(m.call, !unsent)
	switch {
	case unsent && m.call.takesUp: // its server waits for a round that was not sent
		return cs.settle(m.call, mcp.ErrorResult("not carried out: the server wants input first, and the process that made the call has ended: %v", m.err), true)
	case unsent && m.call.was != nil:
		return cs.lose(m.call, m.call.why+", and it could not be made again: "+m.err.Error())
	case unsent:
		return cs.settle(m.call, toolresult.OfError(m.err), false)
	case isUnknown:
		return cs.lose(m.call, unknown.Err.Error())
	case m.err != nil && cs.finishing():
		return cs.lose(m.call, m.err.Error())
	case m.err != nil:
		return cs.settle(m.call, toolresult.OfError(m.err), true)
	case m.result == nil:
		return cs.settle(m.call, mcp.ErrorResult("the tool gave no result"), true)
	}
	return cs.settle(m.call, m.result, true)
}

// settle gives a call its result, for the model and for the journal.
func (cs *calls) settle(cl *call, res *mcp.CallToolResult, made bool) runlog.Entry {
	cl.phase, cl.made = returned, made
	cl.result = toolresult.ForModel(cl.id, res, cs.cfg.MaxResult)
	return runlog.Entry{Type: store.ToolResult, Key: cl.key, Body: &runlog.ToolResult{
		Turn: cl.turn.n, CallID: cl.id, Tool: cl.name, Server: cl.server(), Made: made, Late: cs.finishing() && made,
		Result: res, NoRoom: cl.noRoom}}
}

// lose gives a call of unknown outcome a result with that text.
func (cs *calls) lose(cl *call, reason string) runlog.Entry {
	cl.phase, cl.made = returned, true
	body := &runlog.ToolUnknown{Turn: cl.turn.n, CallID: cl.id, Tool: cl.name, Server: cl.server(), Reason: clip.Short(reason)}
	cl.result = toolresult.ForModel(cl.id, body.Shown(), cs.cfg.MaxResult)
	return runlog.Entry{Type: store.ToolUnknown, Key: cl.key, Body: body}
}

// abandon gives a call that has not returned in time its result.
func (cs *calls) abandon(cl *call, reason string) runlog.Entry {
	if !cl.unsent() || cl.was != nil {
		return cs.lose(cl, reason)
	}
	cs.pay(cl, false)
	return cs.settle(cl, mcp.ErrorResult("not called: %s", clip.Short(reason)), false)
}

// pay charges a call if it is made, and gives back its room if it is not; once.
func (cs *calls) pay(cl *call, made bool) {
	switch {
	case cl.hold == nil:
	case made:
		cs.h.spend.Made(cl.hold)
	default:
		cl.hold.Release()
	}
	cl.hold = nil
}

// taint notes what a call that was made has brought, and returns the event of it if
// that is news to the run: its own journal says what it knows, also if another run of
// the tree has seen it.
func (cs *calls) taint(cl *call) []runlog.Entry {
	seen := cs.cfg.Taint.Add(cl.tool.Taint)
	if seen == cs.seen {
		return nil
	}
	cs.seen = seen
	return []runlog.Entry{{Type: runlog.TaintedType, Key: cl.key, Body: &runlog.Tainted{Seen: seen, Tool: cl.name, Server: cl.tool.Server}}}
}

// unmade records that calls were not made after all: the run has ended between
// their dispatch and themselves.
func (cs *calls) unmade(c *actors.Context, t *turn, step int) {
	for _, cl := range t.calls {
		if cl.step == step {
			t.busy--
			cl.hold.Release()
			cs.journal.Write(c, nil, cs.settle(cl, mcp.ErrorResult("not called: the run has ended"), false))
		}
	}
	cs.shutdown.finish(c)
}

// abandonAll gives the calls that have not returned in time their results, as the run ends.
func (cs *calls) abandonAll(c *actors.Context) {
	if cs.turn == nil {
		return
	}
	for _, cl := range cs.turn.calls {
		if cl.phase == sent {
			cs.journal.Write(c, nil, cs.abandon(cl, "the run ended before the call returned"))
		}
	}
	cs.turn.busy = 0
}

// traced makes one call inside of the trace.
func (c *config) traced(ctx context.Context, cl *call, todo *Call) (res *mcp.CallToolResult, err error) {
	do := cl.tool.Do
	if cl.takesUp {
		do = func(ctx context.Context, call *Call) (*mcp.CallToolResult, error) {
			return cl.tool.TakeUp(ctx, call, cl.was)
		}
	}
	if c.Trace == nil {
		return do(ctx, todo)
	}
	ctx, end := c.Trace.Tool(ctx, todo)
	err = errPanicked
	defer func() { end(res, err) }()
	res, err = do(ctx, todo)
	return res, err
}

// tracedGo is traced for a tool that keeps no goroutine.
func (c *config) tracedGo(ctx context.Context, cl *call, todo *Call, done func(*mcp.CallToolResult, error)) {
	if c.Trace == nil {
		cl.tool.Go(ctx, todo, done)
		return
	}
	ctx, end := c.Trace.Tool(ctx, todo)
	cl.tool.Go(ctx, todo, func(res *mcp.CallToolResult, err error) {
		defer done(res, err)
		end(res, err)
	})
}
