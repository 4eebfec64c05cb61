// limit.go: what a run does that has reached a limit.
//
//	             stop, or wall time
//	limiting ──┬─────────────────────────────────────────▶ ending
//	           │ ask                  no, or nobody
//	           ├─────▶ askingMore ───────────────────────▶ ending
//	           │           │ yes: the limit is raised
//	           │           └──▶ back to what was to be done
//	           │ wrap-up                  replied
//	           └─────▶ thinking (last) ───────▶ concluding ─▶ ending

package loop

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// limitHit is a message to itself: what comes next does not fit a limit.
type limitHit struct {
	before []runlog.Entry // that wait to be written
	ask    *limitAsk
}

// limitAsk is a question for more. The two ways on are called once what was decided
// is durable.
type limitAsk struct {
	err   *LimitError
	again func(*actors.Context)        // more was allowed
	stop  func(*actors.Context, error) // it was not
}

// atLimit tells the run that it has reached a limit. Before are events that wait to be
// written; again is what was to be done, if there is room for it.
func (r *run) atLimit(c *actors.Context, err error, before []runlog.Entry, again func(*actors.Context)) {
	limit, ok := errors.AsType[*LimitError](err)
	if !ok {
		r.failed(c, err) // the account is closed: what the run is a part of has ended
		return
	}
	r.hit(c, limitHit{before, &limitAsk{err: limit, again: again, stop: r.limited}})
}

// hit sends a limit to the run itself, so that it is one of its messages.
func (r *run) hit(c *actors.Context, m limitHit) {
	r.state = (*run).limiting
	c.Self().Send(m)
}

// limiting goes on at a limit as the configuration says.
func (r *run) limiting(c *actors.Context, msg any) {
	m, ok := msg.(limitHit)
	if !ok {
		return
	}
	switch limit := m.ask.err; {
	case r.cfg.Limits.OnLimit == runlog.LimitAsk && limit.At() != nil:
		r.askLimit(c, m.before, m.ask)
	case r.cfg.Limits.OnLimit == runlog.LimitWrapUp && r.spend.holdsLast():
		r.wrapUp(c, limit, m.before)
	default:
		r.write(c, nil, m.before...)
		r.limited(c, limit)
	}
}

// limited ends the run at a limit.
func (r *run) limited(c *actors.Context, err error) {
	if limit, ok := errors.AsType[*LimitError](err); ok && r.out == nil && r.recorded && r.noted != limit {
		r.write(c, nil, r.limitReached(limit, runlog.LimitStop))
	}
	r.end(c, Outcome{State: store.Limited, Stop: runlog.StopLimit, Err: err})
}

// limitReached is the event of a limit.
func (r *run) limitReached(limit *LimitError, then string) runlog.Entry {
	r.noted = limit
	return runlog.Entry{Type: runlog.LimitReachedType, Body: &runlog.LimitReached{
		Account: limit.Account, Limit: limit.Limit, Max: limit.Max, Spent: spentOf(limit), Then: then}}
}

// spentOf is what the limit's account has spent of it.
func spentOf(limit *LimitError) string {
	if limit.At() == nil {
		return ""
	}
	return limit.Format(limit.At().Report().Spent)
}

// askLimit asks a human for more. The clock stands still meanwhile (TIME-05).
func (r *run) askLimit(c *actors.Context, before []runlog.Entry, l *limitAsk) {
	r.state = (*run).askingMore
	r.limitAsks++
	limit := l.err
	more, err := limit.Default()
	if err != nil { // such as of a limit that allows nothing
		r.write(c, nil, before...)
		l.stop(c, limit)
		return
	}
	raw, hash := payloadOf(runlog.LimitPayload{Account: limit.Account, Limit: limit.Limit, Max: limit.Max, Spent: spentOf(limit), More: more})
	a := &openAsk{limit: l, row: store.Ask{
		ID: fmt.Sprintf("%s-limit-%d", r.cfg.Nonce, r.limitAsks), Run: r.cfg.ID, Kind: runlog.AskLimit, Path: r.cfg.Path, Trust: "program",
		Payload: raw, Default: runlog.MoreAnswer(more), Hash: hash, Expires: store.Clock(time.Now().Add(r.cfg.AskExpiry))}}
	if err := a.row.Check(); err != nil {
		r.write(c, nil, before...)
		l.stop(c, fmt.Errorf("%w; more can not be asked for: %w", limit, err))
		return
	}
	entries := append(before, r.limitReached(limit, runlog.LimitAsk), r.listAsk(a))
	r.writeBatch(c, &batch{entries: entries, state: store.Waiting, then: func(c *actors.Context) { r.asksAreStored(c, a) }})
}

func (r *run) askingMore(c *actors.Context, msg any) { r.askMessage(c, msg) }

// limitSettled goes on with what was decided. An answer that can not be read is no yes.
func (r *run) limitSettled(c *actors.Context, a *openAsk, d store.Decision, entries []runlog.Entry) {
	l := a.limit
	more, err := moreOf(l.err, d)
	if err != nil {
		r.writeBatch(c, &batch{entries: entries, state: r.runState(), then: func(c *actors.Context) {
			if r.out == nil {
				l.stop(c, fmt.Errorf("%w; no more was allowed: %w", l.err, err))
			}
		}})
		return
	}
	entries = append(entries, runlog.Entry{Type: runlog.LimitRaisedType, Body: &runlog.LimitRaised{
		Account: l.err.Account, Limit: l.err.Limit, By: amountOf(l.err, more)}})
	r.writeBatch(c, &batch{entries: entries, state: r.runState(), then: func(c *actors.Context) {
		if r.out == nil {
			l.err.At().Raise(more)
			l.again(c)
		}
	}})
}

// moreOf is what a decision allows, or why it allows nothing.
func moreOf(limit *LimitError, d store.Decision) (budget.Limits, error) {
	switch d.Status {
	case store.AskAccepted:
	case store.AskExpired:
		return budget.Limits{}, errors.New("nobody answered in time")
	case store.AskCancelled:
		return budget.Limits{}, errors.New("the question was withdrawn")
	default:
		if reason := runlog.Reason(d.Answer); reason != "" {
			return budget.Limits{}, errors.New("the user declined it: " + clip.Short(reason))
		}
		return budget.Limits{}, errors.New("the user declined it")
	}
	amount, err := runlog.More(d.Answer)
	if err != nil {
		return budget.Limits{}, fmt.Errorf("the answer is not {\"more\": AMOUNT}: %w", err)
	}
	return limit.More(amount)
}

// amountOf writes what a limit was raised by.
func amountOf(limit *LimitError, more budget.Limits) string {
	return limit.Format(budget.Amount{Tokens: more.Tokens, Cost: more.Cost, ModelCalls: more.ModelCalls, ToolCalls: more.ToolCalls, Steps: more.Steps})
}

// admit holds room for the calls of a turn. Calls without any are refused, unless a
// human is to be asked for more: it then returns false, and act comes again.
func (r *run) admit(c *actors.Context, rulings []ruling) bool {
	t := r.turn
	for i, cl := range t.calls {
		if rulings[i].refusal != "" || cl.hold != nil {
			continue
		}
		if t.over == nil {
			hold, err := r.spend.reserveCall()
			if err == nil {
				cl.hold = hold
				continue
			}
			if limit, ok := errors.AsType[*LimitError](err); ok && r.cfg.Limits.OnLimit == runlog.LimitAsk {
				r.hit(c, limitHit{ask: &limitAsk{err: limit,
					again: func(c *actors.Context) { r.act(c, rulings) },
					stop: func(c *actors.Context, err error) {
						t.over = err
						r.act(c, rulings)
					}}})
				return false
			}
			t.over = err
		}
		rulings[i].refusal = "not called: " + t.over.Error()
	}
	return true
}

// cutShort reports whether the turn's answer was cut by what was left of a limit, and
// then goes on from there.
func (r *run) cutShort(c *actors.Context) bool {
	t := r.turn
	if t.resp.Finish != llm.FinishLength || t.spend == nil || t.spend.clampedBy == nil {
		return false
	}
	if len(t.resp.Content) > 0 && r.cfg.Limits.OnLimit == runlog.LimitWrapUp {
		r.say(t.resp.Message()) // what there is of it is of use to the last turn
	}
	r.atLimit(c, t.spend.clampedBy, nil, r.list)
	return true
}

// callsOver goes on after a turn some of whose calls did not fit a limit.
func (r *run) callsOver(c *actors.Context, err error) {
	if limit, ok := errors.AsType[*LimitError](err); ok && r.cfg.Limits.OnLimit == runlog.LimitAsk {
		r.limited(c, err) // it was asked about before
	} else if ok {
		r.atLimit(c, limit, nil, r.list)
	} else {
		r.failed(c, err)
	}
}

// lostTurn ends the run after a turn that has no answer.
func (r *run) lostTurn(c *actors.Context, err error) {
	over := r.turn.spend.abandon(mayBeBilled(err))
	r.write(c, nil, r.turn.spend.failed(err))
	switch {
	case r.wrapping != nil:
		r.limited(c, fmt.Errorf("%w; and there is no last answer: %w", r.wrapping, err))
	case over != nil:
		r.atLimit(c, over, nil, r.list)
	case errors.Is(err, llm.ErrContextLength) && r.squeeze(c): // it is asked again
	default:
		r.failed(c, fmt.Errorf("asking the model: %w", err))
	}
}

// begins makes a turn that is paid for the run's.
func (r *run) begins(spend *turnSpend) *turn {
	r.turn = &turn{n: r.spend.begun(), spend: spend}
	return r.turn
}

// intent is the event that precedes a turn.
func (t *turn) intent(req *llm.Request) runlog.Entry {
	return runlog.Entry{Type: runlog.ModelIntentType, Body: &runlog.ModelIntent{
		Turn: t.n, Reserved: t.spend.ask.Input, MaxTokens: req.MaxTokens, Held: t.spend.hold.Amount()}}
}

// timeLeft is what is left of the wall time.
func (r *run) timeLeft() time.Duration {
	if len(r.asks) > 0 || r.held > 0 {
		return r.wallLeft
	}
	return time.Until(r.wallEnds)
}
