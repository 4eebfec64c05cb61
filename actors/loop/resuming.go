// resuming.go: how a run goes on that a process has left.
//
//	opening ────▶ resuming: run.resumed is durable, the tools of the agent that works are known
//	                 │
//	                 ├─ no turn is open, or its answer was lost ─────────▶ preparing
//	                 ├─ the model's answer is there, and nothing more ───▶ deciding, concluding
//	                 ├─ its calls are decided ───────────────────────────▶ acting
//	                 └─ the run was about to end ────────────────────────▶ ending (see ending.go)
//
// Each call goes on where its events leave it: see recovery.go.

package loop

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// resuming takes a run up that a process has left, and hands it on where its journal ends.
type resuming struct {
	*parts
	from    *Resumption
	listing bool // the agent that works and its tools are looked for
}

// begin writes that the run goes on.
func (rs *resuming) begin(c *actors.Context) {
	s := rs.from.State
	rs.check.empties, rs.check.cuts, rs.last.told = s.Empties, s.Cuts, s.NoMoreTools
	rs.check.redos, rs.check.refusals, rs.check.handOffs = s.Redos, s.Refusals, len(s.HandOffs)
	rs.repeats.seen = s.Repeats
	rs.calls.seen, rs.away = s.Seen, s.Outage
	rs.recovery = &recovery{parts: rs.parts, policy: cmp.Or(rs.from.Unknown, rs.cfg.Unknown), decidedAway: rs.from.Decided}
	if s.Steps > 0 {
		rs.turn = &turn{n: s.Steps}
	}
	body := &runlog.RunResumed{Owner: rs.cfg.Owner, Program: runlog.Program(), Drift: rs.from.Drift, Limits: rs.from.limits}
	if with := rs.from.With; len(with) > 0 && !bytes.Equal(with, s.With) {
		body.With = with
	}
	for _, cl := range s.Calls {
		if cl.Open() {
			body.Open = append(body.Open, cl.Key)
		}
	}
	entries := []runlog.Entry{{Type: runlog.RunResumedType, Body: body}}
	if rs.from.lost != nil {
		entries = append(entries, *rs.from.lost)
	}
	if rs.toEnd() {
		rs.run.end(c, endsAs(s.Ending), entries...)
		return
	}
	rs.journal.Write(c, rs.list, entries...)
}

// resumed is a message to itself: the agent that works is known, and its tools.
type resumed struct {
	cfg    *config
	listed listed
	err    error
}

// list finds the agent that works, and its tools, unless the run ends.
func (rs *resuming) list(c *actors.Context) {
	if rs.out == nil {
		rs.find(c)
	}
}

// find finds the agent that works, and its tools. The run gets [resumed].
func (rs *resuming) find(c *actors.Context) {
	rs.listing = true
	cfg, handOffs, agent := rs.cfg, rs.from.State.HandOffs, rs.from.State.Agent.To
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

// receive takes the messages of a run that is taken up.
func (rs *resuming) receive(c *actors.Context, msg any) {
	m, ok := msg.(resumed)
	if !ok {
		rs.asks.receive(c, msg)
		return
	}
	if m.err == nil && m.cfg != rs.cfg {
		m.err = reprice(rs.h.spend, m.cfg)
	}
	if m.err == nil { // they were here when the run was claimed
		if lacks := rs.from.Lacking(m.listed.offer); len(lacks) > 0 {
			m.err = &LackingError{lacks}
		}
	}
	if m.err != nil {
		rs.refuse(c, m.err)
		return
	}
	cfg, drifted := rs.from.keepTo(m.cfg, m.listed.offer)
	rs.recovery.drifted = rs.from.drifted(drifted)
	rs.cfg, rs.h.cfg.Resumes = cfg, nil // the run has it now
	rs.cfg.Resumes = nil
	rs.approvals.differs = rs.from.State.Differs(cfg.System, cfg.Model.Name())
	rs.approvals.restore(rs.from.State.Calls)
	before := rs.talk.offer(m.listed)
	if len(before) > 0 && sameTools(before[0].Body.(*runlog.ToolsListed), &rs.from.State.Listed) {
		before = nil
	}
	if drifted != nil {
		c.Log().Warn("a run goes on that is not as it was recorded", "run", rs.cfg.ID, "differences", drifted.Body.(*runlog.RunDrifted).What)
		before = append([]runlog.Entry{*drifted}, before...)
	}
	rs.takeUpAsks(c)
	rs.goOn(c, before)
}

// refuse leaves a run that cannot go on here, as it is: with another configuration it may. One that no other process can have
// fails.
func (rs *resuming) refuse(c *actors.Context, err error) {
	if !rs.cfg.Stored {
		rs.run.failed(c, fmt.Errorf("resuming the run: %w", err))
		return
	}
	refused := &RefusedError{rs.cfg.ID, err.Error()}
	rs.parking.start(c, refused, runlog.RunParked{Why: clip.Short(refused.Error())})
}

// takeUpAsks finds the question at a limit that is open, and withdraws those that no call waits
// for any more.
func (rs *resuming) takeUpAsks(c *actors.Context) {
	s := rs.from.State
	acts := s.Turn != nil && !s.Turn.Over && s.StopMet == nil && s.Limit == nil
	for _, q := range s.Asks {
		switch {
		case q.Ask.Kind == runlog.AskLimit:
			rs.limits.n++
			if s.Limit != nil && s.Limit.Then == runlog.LimitAsk {
				rs.limits.asked = q
			}
		case q.Ask.Kind == runlog.AskLogin:
			rs.logins.n++
			rs.asks.withdrawOld(c, q)
		case q.Ask.Kind != runlog.AskKind && q.Ask.Kind != runlog.AskOutcome && !(acts && s.WaitsFor(q)): // the call that asked has gone with its process
			rs.asks.withdrawOld(c, q)
		}
	}
	for _, call := range s.Calls {
		if call.Round != nil && !acts {
			call.Round.Asks = nil
		}
	}
}

// goOn hands the run on where the journal ends.
func (rs *resuming) goOn(c *actors.Context, before []runlog.Entry) {
	s := rs.from.State
	t, limit := s.Turn, limitOf(s.Limit)
	over := limit != nil && (s.Limit.Then == runlog.LimitStop || t != nil && t.Intent.Last && t.Failed && !t.Lost)
	if t != nil && t.Result != nil {
		rs.turn = turnAgain(t)
	}
	switch {
	case s.StopMet != nil && t != nil && t.Result != nil:
		rs.run.end(c, Outcome{State: store.Finished, Stop: runlog.StopCondition, Text: rs.turn.resp.Text()}, before...)
	case over:
		rs.run.end(c, Outcome{State: store.Limited, Stop: stopAt(limit), Err: limit}, before...)
	case limit != nil && t != nil && t.Intent.Last && t.Lost:
		rs.last.again(c, limit, before)
	case t == nil, t.Over, t.Result == nil:
		rs.run.prepare(c, before...)
	case t.Intent.Last && limit != nil:
		rs.conclude(c, t, limit, before)
	case len(t.Calls) > 0:
		rs.act(c, t, before)
	case len(t.Wanted()) == 0 && (limit != nil || t.Intent.Clamped && t.Result.Finish == llm.FinishLength):
		rs.run.prepare(c, before...) // the answer was cut short by a limit
	default:
		rs.journal.Write(c, nil, before...)
		rs.run.decide(c)
	}
}

// conclude goes on behind an answer of the last turn. Its calls have all their results, or none.
func (rs *resuming) conclude(c *actors.Context, t *runlog.TurnState, limit *budget.LimitError, before []runlog.Entry) {
	rs.last.limit, rs.turn.answers = limit, true
	if results, answered := rs.from.State.Answered(); answered {
		rs.talk.Say(rs.turn.resp.Message())
		rs.talk.Say(results)
		rs.last.onceMore(c, before)
		return
	}
	rs.journal.Write(c, nil, before...)
	if len(t.Wanted()) > 0 {
		rs.last.refuse(c)
	} else {
		rs.run.conclude(c)
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
	again := &turn{n: t.N, spoilt: res.Spoilt, resp: &llm.Response{Content: res.Message.Content, State: res.Message.State, Finish: res.Finish, Thinking: res.Thinking,
		Model: res.Model, Usage: llm.Usage{Input: res.Usage.Input, Output: res.Usage.Output, Estimated: res.Usage.Estimated}}}
	if t.Refused != nil {
		again.guards = guard.Outcome{Refused: t.Refused.Text, Acted: []runlog.GuardActed{*t.Refused}}
	}
	return again
}

// act takes up the calls of a turn, each where its events leave it.
func (rs *resuming) act(c *actors.Context, from *runlog.TurnState, entries []runlog.Entry) {
	rs.run.act()
	t := rs.turn
	var asks []*openAsk
	wanted := from.Wanted()
	t.counted = from.Counted
	rs.calls.add(wanted)
	for i, use := range wanted {
		cl := t.calls[i]
		at := slices.IndexFunc(from.Calls, func(cs *runlog.CallState) bool { return cs.CallID == use.ID })
		if at >= 0 {
			cl.traits = from.Calls[at].Traits()
		}
		if at >= 0 && !from.Calls[at].Open() {
			was := from.Calls[at]
			cl.phase, cl.result, cl.made, cl.noRoom = returned, was.Shown, was.Made, was.NoRoom
			continue
		}
		t.left++
		if at < 0 || from.Calls[at].Intent == nil {
			entries = append(entries, rs.calls.settle(cl, mcp.ErrorResult("not called: the process ended before it was decided on"), false))
			continue
		}
		more, ask := rs.recovery.takeUp(c, cl, from.Calls[at])
		if entries = append(entries, more...); ask != nil {
			asks = append(asks, ask)
		}
	}
	if slices.ContainsFunc(t.calls, func(cl *call) bool { return cl.noRoom }) && t.over == nil {
		var hold budget.Hold
		if t.over = rs.h.spend.ReserveCall(&hold); t.over == nil {
			hold.Release()
		}
	}
	rs.calls.advance(c, entries...)
	rs.asks.stored(c, asks...)
	rs.recovery.endIfTold(c)
}
