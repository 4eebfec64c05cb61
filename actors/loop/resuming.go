// resuming.go: how a run goes on that a process has left.
//
//	opening ────▶ resuming: run.resumed is durable, the tools of the agent that works are known
//	                 │
//	                 ├─ no turn is open, or its answer was lost ─────────▶ preparing
//	                 ├─ the model's answer is there, and nothing more ───▶ deciding, concluding
//	                 ├─ its calls are decided ───────────────────────────▶ acting
//	                 └─ the run was about to end ────────────────────────▶ ending
//
// Each call goes on where its events leave it. What was sent and has no result is made again
// only if it may be made twice, with the same key; else its outcome is unknown: see outcomeask.go.

package loop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/actors/loop/internal/window"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Resumption is a run that was claimed to go on.
type Resumption struct {
	Head    store.Run     // as it was claimed for [Config].Owner
	Claimed time.Time     // before that
	State   *runlog.State // the fold of its journal, which is the run's from now on
	// Below is what the runs have spent that it has started, Raised what was allowed to those of
	// them that go on.
	Below   budget.Amount
	Raised  []runlog.LimitRaised
	Counted bool // it is a part of another that goes on: the account above has its costs already
	// Decided are the questions of the run that were decided meanwhile, by their IDs.
	Decided map[string]store.Ask
	Drift   bool // the agent's configuration is another one now
	// Unknown is what becomes of a call that the process before has sent, that has no result and may
	// not be made twice: [runlog.OutcomeAsk] (so is empty), OutcomeAgain, OutcomeTell or OutcomeEnd.
	Unknown string
	OnDrift string // [runlog.DriftContinue] or DriftAdopt, which is empty too

	lost *runlog.Entry // of the turn that was open; nil for none
}

// Spent is what the run has spent with all that it has started, and what a turn that was open may
// have cost.
func (re *Resumption) Spent() budget.Amount {
	held := re.State.Held()
	held.Steps = 0
	spent := re.State.Spent.Plus(held).Plus(re.Below)
	spent.Steps = 0 // a run's own
	return spent
}

// config returns the configuration of a run that goes on.
func (re *Resumption) config(common *shared, own *Own) *shared {
	s, began := re.State, re.State.Started
	if s.Turn.Open() {
		re.lose()
	}
	own.Nonce, own.Schema, own.Path = began.Nonce, began.Schema, began.Path
	own.Taint.Add(s.Seen)
	d := *common
	d.Limits = Limits{Steps: began.Steps, Tokens: began.Tokens, Cost: began.Cost, ModelCalls: began.ModelCalls, ToolCalls: began.ToolCalls,
		Depth: began.Depth, Wall: time.Duration(began.WallMS) * time.Millisecond, OnLimit: began.OnLimit}.withDefaults()
	d.MaxResult = began.MaxResult
	return &d
}

// lose charges the turn that was open with all that was held for it: it may have cost that.
func (re *Resumption) lose() {
	t, held := re.State.Turn, re.State.Held()
	in := min(t.Intent.Reserved, held.Tokens)
	re.lost = &runlog.Entry{Type: runlog.ModelFailedType, Time: re.State.Time, Body: &runlog.ModelFailed{Turn: t.N, Lost: true,
		Usage: runlog.Usage{Input: in, Output: held.Tokens - in, Cost: held.Cost, Estimated: true}, Error: "the process ended during the turn"}}
	re.State.Add(re.lost)
}

// restore gives an account the limits and the costs of the run.
func (re *Resumption) restore(s *spend.Spending, account string) {
	for _, raised := range append(re.Raised, re.State.Raised...) {
		limit := &budget.LimitError{Limit: raised.Limit}
		if more, err := limit.More(raised.By); err == nil && raised.Account == account {
			s.Account().Raise(more)
		}
	}
	below := re.Below
	below.Steps = 0
	s.Restore(spend.Bill{Usage: re.State.Usage, Steps: re.State.Steps, ToolCalls: re.State.ToolCalls, Spent: re.State.Spent.Plus(below)}, re.Counted)
}

// conversation is that of the run so far.
func (re *Resumption) conversation() conversation {
	s := re.State
	ids := idsOf(s.History)
	for _, c := range s.Calls {
		ids = append(ids, c.CallID)
	}
	if s.Turn != nil { // they may not be decided
		for _, use := range s.Turn.Wanted() {
			ids = append(ids, use.ID)
		}
	}
	slices.Sort(ids)
	return conversation{history: slices.Clip(s.History), ids: slices.Compact(ids), tools: unlisted, window: window.Restore(s.First, &s.Cut)}
}

// wallLeft is how much of its wall time a run has at its start here.
func (c *config) wallLeft() time.Duration {
	if c.Resumes != nil {
		return max(c.Resumes.State.Wall, time.Millisecond)
	}
	return c.Wall
}

// resume writes that the run goes on.
func (r *run) resume(c *actors.Context) {
	re := r.cfg.Resumes
	s := re.State
	r.check.repeated, r.check.redos, r.check.refusals, r.check.handOffs = s.Repeats, s.Redos, s.Refusals, len(s.HandOffs)
	r.calls.seen, r.calls.onUnknown, r.asks.decidedAway = s.Seen, re.Unknown, re.Decided
	if s.Steps > 0 {
		r.turn = &turn{n: s.Steps}
	}
	body := &runlog.RunResumed{Owner: r.cfg.Owner, Program: runlog.Program(), Drift: re.Drift}
	for _, cl := range s.Calls {
		if cl.Open() {
			body.Open = append(body.Open, cl.Key)
		}
		if q := cl.Approval; q != nil && q.Settled != nil && q.Settled.Status == store.AskAccepted && q.Settled.Scope == runlog.ScopeRun {
			p := q.Approval()
			r.calls.allow(p.Definition, allowanceOf(p.Again))
		}
	}
	entries := []runlog.Entry{{Type: runlog.RunResumedType, Body: body}}
	if re.lost != nil {
		entries = append(entries, *re.lost)
	}
	r.state = (*run).resuming
	r.journal.write(c, r.listAgain, entries...)
}

// resumed is a message to itself: the agent that works is known, and its tools.
type resumed struct {
	cfg    *config
	listed listed
	err    error
}

// listAgain finds the agent that works, and its tools.
func (r *run) listAgain(c *actors.Context) {
	if r.out != nil {
		return
	}
	cfg, handOffs, agent := r.cfg, r.cfg.Resumes.State.HandOffs, r.cfg.Resumes.State.Agent.To
	actors.Await(c, func(ctx context.Context) (resumed, error) {
		cfg, err := cfg.handedOver(ctx, handOffs)
		if err == nil && cfg.Agent != agent {
			err = fmt.Errorf("the agent %q works on it, and is %q here", agent, cfg.Agent)
		}
		if err != nil || cfg.Tools == nil {
			return resumed{cfg: cfg, listed: listed{offer: unlisted}}, err
		}
		offer, absent := cfg.Tools.Offer(ctx)
		return resumed{cfg: cfg, listed: listed{offer: offer, absent: absent}}, nil
	}, func(m resumed, err error) any { m.err = err; return m })
}

// handedOver returns the configuration of the agent that the run was handed to by these tools.
func (c *config) handedOver(ctx context.Context, tools []string) (*config, error) {
	for _, name := range tools {
		var t *Tool
		if c.Tools != nil {
			offer, _ := c.Tools.Offer(ctx)
			t = offer.byName[name]
		}
		if t == nil || t.HandOff == nil {
			return c, fmt.Errorf("the agent %q does not hand over by %q any more", c.Agent, name)
		}
		c = c.takeOver(t.HandOff())
	}
	return c, nil
}

func (r *run) resuming(c *actors.Context, msg any) {
	m, ok := msg.(resumed)
	if !ok {
		r.asks.receive(c, msg)
		return
	}
	if m.err == nil && m.cfg != r.cfg {
		m.err = reprice(r.h.spend, m.cfg)
	}
	if m.err != nil {
		r.failed(c, fmt.Errorf("resuming the run: %w", m.err))
		return
	}
	s := r.cfg.Resumes.State
	cfg, drifted := r.cfg.Resumes.keepTo(m.cfg, m.listed.offer)
	m.cfg, r.calls.drifted = cfg, r.cfg.Resumes.drifted(drifted)
	r.cfg, r.h.cfg.Resumes = m.cfg, nil // the run has it now
	r.cfg.Resumes = nil
	before := r.talk.offer(m.listed)
	if len(before) > 0 && sameTools(before[0].Body.(*runlog.ToolsListed), &s.Listed) {
		before = nil
	}
	if drifted != nil {
		c.Log().Warn("a run goes on that is not as it was recorded", "run", r.cfg.ID, "differences", drifted.Body.(*runlog.RunDrifted).What)
		before = append([]runlog.Entry{*drifted}, before...)
	}
	r.takeUpAsks(c, s)
	r.goOn(c, s, before)
}

// takeUpAsks finds the question at a limit that is open, and withdraws those that no call waits
// for any more.
func (r *run) takeUpAsks(c *actors.Context, s *runlog.State) {
	acts := s.Turn != nil && !s.Turn.Over && s.StopMet == nil && s.Limit == nil
	for _, q := range s.Asks {
		switch {
		case q.Ask.Kind == runlog.AskLimit:
			r.limits.n++
			if s.Limit != nil && s.Limit.Then == runlog.LimitAsk {
				r.limits.asked = q
			}
		case q.Ask.Kind == runlog.AskLogin:
			if r.logins.n++; q.Settled == nil {
				r.asks.withdrawOld(c, q)
			}
		case q.Settled == nil && q.Ask.Kind != runlog.AskKind && q.Ask.Kind != runlog.AskOutcome && !(acts && s.WaitsFor(q)): // the call that asked has gone with its process
			r.asks.withdrawOld(c, q)
		}
	}
	for _, call := range s.Calls {
		if call.Round != nil && !acts {
			call.Round.Asks = nil
		}
	}
}

// withdrawOld withdraws a question of the process before.
func (as *asks) withdrawOld(c *actors.Context, q *runlog.Question) {
	a := &openAsk{row: q.Ask, stored: true}
	a.then = func(c *actors.Context, _ store.Decision, entries []runlog.Entry) {
		as.journal.writeBatch(c, &batch{entries: entries, state: as.state()})
	}
	as.add(a)
	as.settle(c, a, answer{ask: a.row.ID, reply: new(actors.Reply[store.Ask]), decision: store.Decision{Status: store.AskCancelled, By: "runtime",
		Answer: runlog.DeclineAnswer("the process that asked has ended")}})
}

// goOn goes on where the journal ends.
func (r *run) goOn(c *actors.Context, s *runlog.State, before []runlog.Entry) {
	t, limit := s.Turn, limitOf(s.Limit)
	over := limit != nil && (s.Limit.Then == runlog.LimitStop || t != nil && t.Intent.Last && t.Failed)
	if t != nil && t.Result != nil {
		r.turn = turnAgain(t)
	}
	switch {
	case s.StopMet != nil && t != nil && t.Result != nil:
		r.journal.write(c, nil, before...)
		r.end(c, Outcome{State: store.Finished, Stop: runlog.StopCondition, Text: r.turn.resp.Text()})
	case over:
		r.journal.write(c, nil, before...)
		r.end(c, Outcome{State: store.Limited, Stop: runlog.StopLimit, Err: limit})
	case t == nil, t.Over, t.Result == nil:
		r.prepare(c, before...)
	case t.Intent.Last && limit != nil:
		r.journal.write(c, nil, before...)
		r.wrapping, r.turn.answers = limit, true
		r.conclude(c)
	case len(t.Calls) > 0:
		r.actAgain(c, t, before)
	case len(t.Wanted()) == 0 && (limit != nil || t.Intent.Clamped && t.Result.Finish == llm.FinishLength):
		r.prepare(c, before...) // the answer was cut short by a limit
	default:
		r.journal.write(c, nil, before...)
		r.decide(c)
	}
}

// limitOf is the error of a limit that the run has reached; nil for none.
func limitOf(b *runlog.LimitReached) *budget.LimitError {
	if b == nil {
		return nil
	}
	return &budget.LimitError{Account: b.Account, Limit: b.Limit, Max: b.Max}
}

// turnAgain is a turn whose answer is in the journal.
func turnAgain(t *runlog.TurnState) *turn {
	res := t.Result
	again := &turn{n: t.N, spoilt: res.Spoilt, resp: &llm.Response{Content: res.Message.Content, Finish: res.Finish, Thinking: res.Thinking,
		Model: res.Model, Usage: llm.Usage{Input: res.Usage.Input, Output: res.Usage.Output, Estimated: res.Usage.Estimated}}}
	if t.Refused != nil {
		again.guards = guard.Outcome{Refused: t.Refused.Text, Acted: []runlog.GuardActed{*t.Refused}}
	}
	return again
}

// actAgain takes up the calls of a turn, each where its events leave it.
func (r *run) actAgain(c *actors.Context, from *runlog.TurnState, entries []runlog.Entry) {
	r.act()
	t := r.turn
	var asks []*openAsk
	for i, use := range from.Wanted() {
		cl := &call{key: fmt.Sprintf("%s-%d-%d", r.cfg.Nonce, t.n, i), turn: t, id: use.ID, name: use.Name, args: use.Input, tool: r.talk.tools.byName[use.Name]}
		t.calls = append(t.calls, cl)
		if n := r.check.repeated.N; r.cfg.Repeats > 0 && n >= r.cfg.Repeats {
			cl.nth = n
		}
		at := slices.IndexFunc(from.Calls, func(cs *runlog.CallState) bool { return cs.CallID == use.ID })
		if at >= 0 && !from.Calls[at].Open() {
			was := from.Calls[at]
			cl.phase, cl.result, cl.made, cl.noRoom = returned, was.Shown, was.Made, was.NoRoom
			continue
		}
		t.left++
		if at < 0 || from.Calls[at].Intent == nil {
			entries = append(entries, r.calls.settle(cl, mcp.ErrorResult("not called: the process ended before it was decided on"), false))
			continue
		}
		more, ask := r.calls.takeUp(c, cl, from.Calls[at])
		if entries = append(entries, more...); ask != nil {
			asks = append(asks, ask)
		}
	}
	if slices.ContainsFunc(t.calls, func(cl *call) bool { return cl.noRoom }) && t.over == nil {
		hold, err := r.h.spend.ReserveCall()
		hold.Release()
		t.over = err
	}
	r.calls.advance(c, entries...)
	r.asks.stored(c, asks...)
	r.calls.endIfTold(c)
}

// takeUp goes on with a call that has no result. It returns the events of that, and the question
// that the call waits for.
func (cs *calls) takeUp(c *actors.Context, cl *call, was *runlog.CallState) ([]runlog.Entry, *openAsk) {
	cl.args, cl.raised = was.Intent.Arguments, was.Asked
	if was.Sent {
		return cs.takeUpSent(c, cl, was)
	}
	q, here := was.Approval, cl.tool != nil && cl.tool.Server == was.Intent.Server
	hold, err := cs.h.spend.ReserveCall()
	switch cl.hold = hold; {
	case err != nil || !here:
		if q != nil && q.Settled == nil {
			cs.asks.withdrawOld(c, q)
		}
		if err != nil {
			cl.noRoom, cs.turn.over = true, err
			return []runlog.Entry{cs.refuse(cl, "not called: "+err.Error())}, nil
		}
		return []runlog.Entry{cs.refuse(cl, "not called: its server does not offer the tool any more")}, nil
	case q != nil:
		return cs.takeUpApproval(c, cl, q)
	case !cs.sameTool(cl, was):
		return cs.askAnew(cl), nil
	}
	cl.phase = ready
	return nil, nil
}

// takeUpApproval goes on with the question whether a call may be made. If it was about another tool
// than that of today, a person is asked anew.
func (cs *calls) takeUpApproval(c *actors.Context, cl *call, q *runlog.Question) ([]runlog.Entry, *openAsk) {
	p := q.Approval()
	cl.again = p.Again
	switch same := bound(q, cl, p); {
	case same && q.Settled == nil:
		return nil, cs.wait(cl, q, func(c *actors.Context, d store.Decision, entries []runlog.Entry) { cs.approved(c, cl, d, entries) })
	case same, q.Settled != nil && q.Settled.Status != store.AskAccepted:
		return cs.decided(cl, q.Decision()), nil
	case q.Settled == nil:
		cs.asks.withdrawOld(c, q)
	}
	return cs.askAnew(cl), nil
}

// refuse gives a call the result that it is not made.
func (cs *calls) refuse(cl *call, why string) runlog.Entry {
	if cl.was != nil {
		return cs.lose(cl, left+". Again it was "+why)
	}
	cs.pay(cl, false)
	return cs.settle(cl, mcp.ErrorResult("%s", why), false)
}

// bound reports whether a question is about exactly this call of the tool as it is now: a person
// allows nothing else (SECA-41).
func bound(q *runlog.Question, cl *call, p runlog.ApprovalPayload) bool {
	if cl.tool == nil {
		return false
	}
	_, hash := payloadOf(runlog.ApprovalPayload{Server: cl.tool.Server, Tool: cl.name, Definition: cl.tool.Hash, Source: cl.tool.Source,
		Arguments: cl.args, Tainted: p.Tainted, Again: p.Again})
	return hash == q.Ask.Hash
}

// sameLimit reports whether a question is about that limit.
func sameLimit(q *runlog.Question, limit *budget.LimitError) bool {
	var p runlog.LimitPayload
	return jsonx.Unmarshal(q.Ask.Payload, &p) == nil && p.Account == limit.Account && p.Limit == limit.Limit
}

// takeUp waits for the answer to the question of the process before, or goes on with it.
func (l *limits) takeUp(c *actors.Context, q *runlog.Question, before []runlog.Entry, of *limitAsk) {
	l.asked = nil
	if q.Settled != nil {
		l.settled(c, of, q.Decision(), before)
		return
	}
	l.journal.write(c, nil, before...)
	a := &openAsk{row: q.Ask, then: func(c *actors.Context, d store.Decision, entries []runlog.Entry) { l.settled(c, of, d, entries) }}
	l.asks.add(a)
	l.asks.stored(c, a)
}

// dropAsked withdraws the question of the process before, if the run goes on without it.
func (l *limits) dropAsked(c *actors.Context) {
	if q := l.asked; q != nil {
		if l.asked = nil; q.Settled == nil {
			l.asks.withdrawOld(c, q)
		}
	}
}
