// recovery.go: calls that the process before has left without a result, and those of this one that came
// back without an answer that can be used. What was not sent is asked
// about, or made, as if it were decided now. And what was:
//
//	sent ─┬─ safe to repeat ─────────────────────────────▶ made again, with the same key
//	      ├─ its server waits for a round of input ──────▶ that round is sent, with the answers so far
//	      ├─ a task of its server ───────────────────────▶ that task is asked for again
//	      ├─ starts a run ───────────────────────────────▶ made again: that run goes on
//	      └─ asked about ─┬─ it happened ────────────────▶ has that result
//	                      ├─ again ─┬─ the tool of then ─▶ made again, with the same key
//	                      │         └─ another one ──────▶ its approval is asked for anew
//	                      ├─ tell ───────────────────────▶ the model reads that it is unknown
//	                      └─ end ────────────────────────▶ so it does, and the run ends
//
// A call that was sent where the run was imported from is not made again: the model reads that its outcome is unknown.
// No call of unknown outcome is made again without a person's word, or a policy of the program.

package loop

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// left is the reason of an unknown outcome, of a call that another process has made.
const left = runlog.ProcessEnded

// recovery brings the calls to a result whose outcome is unknown.
type recovery struct {
	*parts
	policy      string   // [Own].Unknown, or [Resumption].Unknown
	drifted     []string // tools that differ from what the run has recorded: a person is asked before they are called
	decidedAway map[string]store.Ask
	ends        error // why the run ends, once what was decided is written; nil for not at all
}

// differs reports whether a person is asked before a tool is called, since it is not the recorded one. A
// run that was begun here has no recovery.
func (re *recovery) differs(tool string) bool { return re != nil && slices.Contains(re.drifted, tool) }

// ending reports whether the run ends once what was decided is written.
func (re *recovery) ending() bool { return re != nil && re.ends != nil }

// away returns a question that was decided while no process worked on the run.
func (re *recovery) away(id string) (row store.Ask, ok bool) {
	if re != nil {
		row, ok = re.decidedAway[id]
	}
	return row, ok
}

// takeUp goes on with a call that has no result. It returns the events of that, and the question
// that the call waits for.
func (re *recovery) takeUp(c *actors.Context, cl *call, was *runlog.CallState) ([]runlog.Entry, *openAsk) {
	cl.args, cl.raised = was.Intent.Arguments, was.Asked
	if was.Sent {
		return re.takeUpSent(c, cl, was)
	}
	q := was.Approval
	switch err := cl.reserve(re.h.spend); {
	case err != nil:
		if q != nil {
			re.asks.withdrawOld(c, q)
		}
		cl.noRoom, re.turn.over = true, err
		return []runlog.Entry{re.refuse(cl, "not called: "+err.Error())}, nil
	case q != nil:
		return re.takeUpApproval(c, cl, q)
	case !cl.sameTool(was):
		return re.askAnew(cl), nil
	}
	cl.phase = ready
	return nil, nil
}

// takeUpApproval goes on with the question whether a call may be made. If it was about another tool
// than that of today, or of a run with other instructions or another model, a person is asked anew. What was declined
// stays so, and needs no tool.
func (re *recovery) takeUpApproval(c *actors.Context, cl *call, q *runlog.Question) ([]runlog.Entry, *openAsk) {
	p := q.Approval()
	cl.again = p.Again
	row, away := re.away(q.Ask.ID)
	switch same := re.approvals.bound(q, cl, p.Tainted); {
	case q.Settled == nil && (same || away && row.Status != store.AskAccepted):
		return nil, re.wait(cl, q, re.calls.approved(cl))
	case q.Settled != nil && (same || q.Settled.Status != store.AskAccepted):
		return re.calls.decided(cl, q.Decision()), nil
	}
	re.asks.withdrawOld(c, q)
	return re.askAnew(cl), nil
}

// takeUpSent goes on with a call that the process before has sent.
func (re *recovery) takeUpSent(c *actors.Context, cl *call, was *runlog.CallState) ([]runlog.Entry, *openAsk) {
	cl.was, cl.why, cl.same = was, left, cl.sameTool(was)
	q := was.Outcome
	defer func() {
		if !cl.takesUp {
			re.withdrawRound(c, was)
		}
	}()
	switch {
	case was.Imported:
		return []runlog.Entry{re.calls.lose(cl, "it was sent where the run was imported from, which has no result of it")}, nil
	case was.Round != nil && q == nil && cl.same && cl.tool.TakeUp != nil:
		cl.phase, cl.takesUp = ready, true
		return nil, nil
	case cl.safeAgain():
		cl.phase = ready // it was charged
		return nil, nil
	case was.Run != "" && cl.child() == was.Run:
		cl.phase = ready
		return nil, nil
	case was.Task != "" && q == nil && cl.same && cl.tool.TakeUp != nil:
		cl.phase, cl.takesUp, cl.dispatched, cl.goes = ready, true, true, true
		return nil, nil
	case was.Anew: // it was to be made again, and its tool was another one
		return re.takeUpApproval(c, cl, was.Approval)
	case q == nil:
		return re.unknown(cl), nil
	case q.Settled != nil:
		return re.decided(cl, q.Decision()), nil
	}
	return nil, re.wait(cl, q, re.answered(cl))
}

// wait has a call wait for the answer to a question of the process before.
func (re *recovery) wait(cl *call, q *runlog.Question, then decision) *openAsk {
	cl.phase = asking
	ask := &openAsk{row: q.Ask, call: cl, then: then}
	re.asks.add(ask)
	return ask
}

// refuse gives a call the result that it is not made.
func (re *recovery) refuse(cl *call, why string) runlog.Entry {
	if cl.was != nil {
		return re.calls.lose(cl, cl.why+". Again it was "+why)
	}
	re.calls.pay(cl, false)
	return re.calls.settle(cl, mcp.ErrorResult("%s", why), false)
}

// askAnew asks whether a call may be made whose tool is another one now than it was decided for.
// Its arguments have to fit that tool.
func (re *recovery) askAnew(cl *call) []runlog.Entry {
	err := misfit(cl.tool, cl.args)
	if err == nil {
		var asked runlog.Entry
		if asked, err = re.approvals.ask(cl, cl.nextAsk(), re.calls.approved(cl)); err == nil {
			return []runlog.Entry{asked}
		}
	}
	return []runlog.Entry{re.refuse(cl, fmt.Sprintf("not called: its tool is not the one any more that the call was decided for, and it cannot be asked about: %v", err))}
}

// unknown does what the policy says about a call of unknown outcome.
func (re *recovery) unknown(cl *call) []runlog.Entry {
	if policy := re.unknownPolicy(); policy != runlog.OutcomeAsk {
		return re.decided(cl, runlog.OutcomeDecision(policy, ""))
	}
	was := cl.was
	row := cl.question(re.cfg, runlog.AskOutcome, cl.nextAsk())
	row.Server = was.Intent.Server
	row.Payload, row.Hash = runlog.Payload(runlog.OutcomePayload{Server: was.Intent.Server, Tool: cl.name, Definition: was.Intent.Hash,
		Arguments: was.Intent.Arguments, Key: cl.key, Sent: was.SentAt, Why: clip.Short(cl.why)})
	if err := row.Check(); err != nil {
		return []runlog.Entry{re.calls.lose(cl, fmt.Sprintf("%s, and a person cannot be asked: %v", cl.why, err))}
	}
	cl.phase = asking
	return []runlog.Entry{re.asks.add(&openAsk{row: row, call: cl, then: re.answered(cl)})}
}

// answered goes on with the answer about a call of unknown outcome.
func (re *recovery) answered(cl *call) decision {
	return func(c *actors.Context, d store.Decision, entries []runlog.Entry) {
		re.calls.advance(c, append(entries, re.decided(cl, d)...)...)
		re.endIfTold(c)
	}
}

// unknownPolicy is what becomes of a call of unknown outcome.
func (re *recovery) unknownPolicy() string {
	policy := cmp.Or(re.policy, runlog.OutcomeAsk)
	if policy == runlog.OutcomeAsk && re.cfg.Journal == nil { // there is no person to ask
		return runlog.OutcomeTell
	}
	return policy
}

// endIfTold ends the run if a person, or the policy, says so of a call of unknown outcome. What was
// decided is on its way to the journal.
func (re *recovery) endIfTold(c *actors.Context) {
	if re.ending() && re.out == nil {
		re.run.failed(c, re.ends)
	}
}

// decided does what was decided about a call of unknown outcome.
func (re *recovery) decided(cl *call, d store.Decision) []runlog.Entry {
	reason := cl.why
	switch way, text := runlog.Outcome(d); {
	case way == runlog.OutcomeHappened:
		said := "a person reports that the call took effect"
		if text != "" {
			said += ":\n" + clip.Text(text, re.cfg.MaxResult)
		}
		return []runlog.Entry{re.calls.settle(cl, &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(said)}}, true)}
	case way == runlog.OutcomeAgain && cl.same:
		cl.phase = ready
		return nil
	case way == runlog.OutcomeAgain:
		return re.askAnew(cl)
	case way == runlog.OutcomeEnd:
		re.ends = fmt.Errorf("%w: %s", ErrOutcomeUnknown, cl.name)
	case text != "":
		reason += ". A person says: " + text
	}
	return []runlog.Entry{re.calls.lose(cl, reason)}
}

// takeUpRaised answers a question of a call whose round the process before has left with the
// question that was asked then, if it is the same one, and reports whether there is one: an answer
// counts once, and an open question stays as it is.
func (re *recovery) takeUpRaised(c *actors.Context, m *raise) bool {
	cl := m.call
	if !cl.takesUp || cl.was.Round == nil {
		return false
	}
	asked := cl.was.Round.Asks
	i := slices.IndexFunc(asked, func(q *runlog.Question) bool { return q.Ask.Kind == m.q.Kind && q.Ask.Hash == m.q.Hash })
	if i < 0 {
		return false
	}
	q := asked[i]
	cl.was.Round.Asks = slices.Delete(asked, i, i+1)
	then := func(c *actors.Context, d store.Decision, entries []runlog.Entry) {
		m.reply.Complete(d, nil)
		re.calls.advance(c, entries...)
	}
	if q.Settled == nil {
		m.open = &openAsk{row: q.Ask, call: cl, raised: m, then: then}
		re.asks.add(m.open)
		re.calls.advance(c)
		re.asks.stored(c, m.open)
		return true
	}
	row, ok := re.away(q.Ask.ID) // the journal does not have the answer
	if !ok || row.Status == store.AskCancelled {
		return false
	}
	then(c, row.Decision, nil)
	return true
}

// withdrawRound withdraws the questions of a round that no call asks again.
func (re *recovery) withdrawRound(c *actors.Context, was *runlog.CallState) {
	if was == nil || was.Round == nil {
		return
	}
	for _, q := range was.Round.Asks {
		re.asks.withdrawOld(c, q)
	}
	was.Round.Asks = nil
}
