// outcomeask.go: calls that the process before has sent, and that have no result.
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
// No call of unknown outcome is made again without a person's word, or a policy of the program.

package loop

import (
	"cmp"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// left is the reason of an unknown outcome.
const left = "the process that made the call has ended"

// takeUpSent goes on with a call that the process before has sent.
func (cs *calls) takeUpSent(c *actors.Context, cl *call, was *runlog.CallState) ([]runlog.Entry, *openAsk) {
	cl.was, cl.same = was, cs.sameTool(cl, was)
	q := was.Outcome
	defer func() {
		if !cl.takesUp {
			cs.withdrawRound(c, was)
		}
	}()
	switch {
	case was.Round != nil && q == nil && cl.same && cl.tool.TakeUp != nil:
		cl.phase, cl.takesUp = ready, true
		return nil, nil
	case cl.same && was.Intent.Safe && cl.tool.Safe && cl.tool.Child == nil:
		cl.phase = ready // it was charged
		return nil, nil
	case was.Run != "" && cl.child() == was.Run:
		cl.phase = ready
		return nil, nil
	case was.Task != "" && q == nil && cl.same && cl.tool.TakeUp != nil:
		cl.phase, cl.takesUp, cl.dispatched, cl.goes = ready, true, true, true
		return nil, nil
	case was.Anew: // it was to be made again, and its tool was another one
		return cs.takeUpApproval(c, cl, was.Approval)
	case q == nil:
		return cs.unknown(cl, was), nil
	case q.Settled != nil:
		return cs.outcomeDecided(cl, q.Decision()), nil
	}
	return nil, cs.wait(cl, q, func(c *actors.Context, d store.Decision, entries []runlog.Entry) {
		cs.outcomeAnswered(c, cl, d, entries)
	})
}

// wait has a call wait for the answer to a question of the process before.
func (cs *calls) wait(cl *call, q *runlog.Question, then func(*actors.Context, store.Decision, []runlog.Entry)) *openAsk {
	cl.phase = asking
	ask := &openAsk{row: q.Ask, call: cl, then: then}
	cs.asks.add(ask)
	return ask
}

// sameTool reports whether the tool of a call is the one that it was decided for.
func (cs *calls) sameTool(cl *call, was *runlog.CallState) bool {
	return cl.tool != nil && cl.tool.Hash == was.Intent.Hash && cl.tool.Server == was.Intent.Server
}

// unknown does what the policy says about a call of unknown outcome.
func (cs *calls) unknown(cl *call, was *runlog.CallState) []runlog.Entry {
	policy := cmp.Or(cs.onUnknown, runlog.OutcomeAsk)
	if policy != runlog.OutcomeAsk {
		return cs.outcomeDecided(cl, runlog.OutcomeDecision(policy, ""))
	}
	payload, hash := payloadOf(runlog.OutcomePayload{Server: was.Intent.Server, Tool: cl.name, Definition: was.Intent.Hash,
		Arguments: was.Intent.Arguments, Key: cl.key, Sent: was.SentAt})
	row := store.Ask{ID: cs.nextAsk(cl), Run: cs.cfg.ID, Kind: runlog.AskOutcome, Tool: cl.name, Server: was.Intent.Server,
		Path: cs.cfg.Path, Trust: "untrusted", Payload: payload, Hash: hash, Expires: store.Clock(time.Now().Add(cs.cfg.AskExpiry))}
	if cl.tool != nil {
		row.Origin, row.Trust = cl.tool.Origin, trust(cl.tool)
	}
	if err := row.Check(); err != nil {
		return []runlog.Entry{cs.lose(cl, fmt.Sprintf("%s, and a person cannot be asked: %v", left, err))}
	}
	cl.phase = asking
	return []runlog.Entry{cs.asks.add(&openAsk{row: row, call: cl, then: func(c *actors.Context, d store.Decision, entries []runlog.Entry) {
		cs.outcomeAnswered(c, cl, d, entries)
	}})}
}

// nextAsk is the ID of a further question about a call.
func (cs *calls) nextAsk(cl *call) string {
	cl.raised++
	return fmt.Sprintf("%s.%d", cl.key, cl.raised)
}

// outcomeAnswered goes on with the answer about a call of unknown outcome.
func (cs *calls) outcomeAnswered(c *actors.Context, cl *call, d store.Decision, entries []runlog.Entry) {
	cs.advance(c, append(entries, cs.outcomeDecided(cl, d)...)...)
	cs.endIfTold(c)
}

// endIfTold ends the run if a person, or the policy, says so of a call of unknown outcome. What was
// decided is on its way to the journal.
func (cs *calls) endIfTold(c *actors.Context) {
	if cs.ends != nil && cs.out == nil {
		cs.run.failed(c, cs.ends)
	}
}

// outcomeDecided does what was decided about a call of unknown outcome.
func (cs *calls) outcomeDecided(cl *call, d store.Decision) []runlog.Entry {
	switch way, text := runlog.Outcome(d); {
	case way == runlog.OutcomeHappened:
		said := "a person reports that the call took effect"
		if text != "" {
			said += ":\n" + clip.Text(text, cs.cfg.MaxResult)
		}
		return []runlog.Entry{cs.settle(cl, &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(said)}}, true)}
	case way == runlog.OutcomeAgain && cl.same:
		cl.phase = ready
		return nil
	case way == runlog.OutcomeAgain && cl.tool != nil:
		return cs.askAnew(cl)
	case way == runlog.OutcomeAgain:
		return []runlog.Entry{cs.lose(cl, left+", and its server does not offer the tool any more")}
	case way == runlog.OutcomeEnd:
		cs.ends = fmt.Errorf("%w: %s", ErrOutcomeUnknown, cl.name)
		return []runlog.Entry{cs.lose(cl, left)}
	case text != "":
		return []runlog.Entry{cs.lose(cl, left+". A person says: "+text)}
	}
	return []runlog.Entry{cs.lose(cl, left)}
}

// askAnew asks whether a call may be made whose tool is another one now than it was decided for.
// Its arguments have to fit that tool.
func (cs *calls) askAnew(cl *call) []runlog.Entry {
	err := misfit(cl.tool, cl.args)
	if err == nil {
		var asked runlog.Entry
		if asked, err = cs.openAskAs(cl, cs.nextAsk(cl)); err == nil {
			return []runlog.Entry{asked}
		}
	}
	return []runlog.Entry{cs.refuse(cl, fmt.Sprintf("not called: its tool is not the one any more that the call was decided for, and it cannot be asked about: %v", err))}
}
