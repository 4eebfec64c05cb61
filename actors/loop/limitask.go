package loop

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// limitHit is a message to itself: the next step does not fit a limit.
type limitHit struct {
	before []runlog.Entry // that wait to be written
	ask    *limitAsk
}

// limitAsk is a question for more. The two ways on are called once what was decided
// is durable.
type limitAsk struct {
	err   *budget.LimitError
	again func(*actors.Context)        // more was allowed
	stop  func(*actors.Context, error) // it was not
}

// spentOf is the amount that the limit's account has spent of it.
func spentOf(limit *budget.LimitError) string {
	if limit.At() == nil {
		return ""
	}
	return limit.Format(limit.At().Report().Spent)
}

// moreOf is the amount that a decision allows, or the error why it allows nothing.
func moreOf(limit *budget.LimitError, d store.Decision) (budget.Limits, error) {
	switch d.Status {
	case store.AskAccepted:
	case store.AskExpired:
		return budget.Limits{}, errors.New("no answer came in time")
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

// amountOf writes the amount by which a limit was raised.
func amountOf(limit *budget.LimitError, more budget.Limits) string {
	return limit.Format(budget.Amount{Tokens: more.Tokens, Cost: more.Cost, ModelCalls: more.ModelCalls, ToolCalls: more.ToolCalls, Steps: more.Steps})
}

// limits are the limits that a run has reached, and its questions for more.
type limits struct {
	*parts
	n     int
	asked *runlog.Question   // by the process before, and not taken up again yet; nil for none
	noted *budget.LimitError // the limit whose event is written last
}

// ask asks a person for more. The clock stands still meanwhile (TIME-05).
func (l *limits) ask(c *actors.Context, before []runlog.Entry, of *limitAsk) {
	limit := of.err
	if q := l.asked; q != nil && sameLimit(q, limit) {
		l.takeUp(c, q, before, of)
		return
	}
	l.n++
	more, err := limit.Default()
	if err != nil { // such as of a limit that allows nothing
		l.journal.Write(c, nil, before...)
		of.stop(c, limit)
		return
	}
	a := &openAsk{row: l.cfg.question(runlog.AskLimit, fmt.Sprintf("%s-limit-%d", l.cfg.Nonce, l.n)), then: l.settled(of)}
	a.row.Payload, a.row.Hash = runlog.Payload(runlog.LimitPayload{Account: limit.Account, Limit: limit.Limit, Max: limit.Max, Spent: spentOf(limit), More: more})
	a.row.Default = runlog.MoreAnswer(more)
	if err := a.row.Check(); err != nil {
		l.journal.Write(c, nil, before...)
		of.stop(c, fmt.Errorf("%w; more cannot be asked for: %w", limit, err))
		return
	}
	entries := append(before, l.reached(limit, runlog.LimitAsk), l.asks.add(a))
	l.journal.WriteBatch(c, journal.Batch{State: store.Waiting, Then: func(c *actors.Context) { l.asks.stored(c, a) }}, entries...)
}

// takeUp waits for the answer to the question of the process before, or goes on with it.
func (l *limits) takeUp(c *actors.Context, q *runlog.Question, before []runlog.Entry, of *limitAsk) {
	l.asked = nil
	if q.Settled != nil {
		l.settled(of)(c, q.Decision(), before)
		return
	}
	l.journal.Write(c, nil, before...)
	a := &openAsk{row: q.Ask, then: l.settled(of)}
	l.asks.add(a)
	l.asks.stored(c, a)
}

// sameLimit reports whether a question is about that limit.
func sameLimit(q *runlog.Question, limit *budget.LimitError) bool {
	var p runlog.LimitPayload
	return jsonx.Unmarshal(q.Ask.Payload, &p) == nil && p.Account == limit.Account && p.Limit == limit.Limit
}

// dropAsked withdraws the question of the process before, if the run goes on without it.
func (l *limits) dropAsked(c *actors.Context) {
	if q := l.asked; q != nil {
		l.asked = nil
		l.asks.withdrawOld(c, q)
	}
}

// settled goes on with a decision. An answer that cannot be read is no yes.
func (l *limits) settled(of *limitAsk) decision {
	return func(c *actors.Context, d store.Decision, entries []runlog.Entry) {
		more, err := moreOf(of.err, d)
		if err == nil {
			entries = append(entries, runlog.Entry{Type: runlog.LimitRaisedType, Body: &runlog.LimitRaised{
				Account: of.err.Account, Limit: of.err.Limit, By: amountOf(of.err, more)}})
		}
		l.journal.WriteBatch(c, journal.Batch{State: l.asks.state(), Then: func(c *actors.Context) {
			switch {
			case l.out != nil:
			case err != nil:
				of.stop(c, fmt.Errorf("%w; no more was allowed: %w", of.err, err))
			default:
				of.err.At().Raise(more)
				of.again(c)
			}
		}}, entries...)
	}
}

// reached is the event of a limit.
func (l *limits) reached(limit *budget.LimitError, then string) runlog.Entry {
	l.noted = limit
	return runlog.Entry{Type: runlog.LimitReachedType, Body: &runlog.LimitReached{
		Account: limit.Account, Limit: limit.Limit, Max: limit.Max, Spent: spentOf(limit), Then: then}}
}

// atLimit reports to the run that it has reached a limit. Before are events that wait to be
// written; again is the step that was to be done, if there is room for it.
func (l *limits) atLimit(c *actors.Context, err error, before []runlog.Entry, again func(*actors.Context)) {
	limit, ok := errors.AsType[*budget.LimitError](err)
	if !ok {
		l.run.failed(c, err, before...) // the account is closed: what the run is a part of has ended
		return
	}
	l.run.hit(c, limitHit{before, &limitAsk{err: limit, again: again,
		stop: func(c *actors.Context, err error) { l.run.limited(c, err) }}})
}

// callsOver goes on after a turn some of whose calls did not fit a limit.
func (l *limits) callsOver(c *actors.Context, err error) {
	if limit, ok := errors.AsType[*budget.LimitError](err); ok && l.cfg.Limits.OnLimit == runlog.LimitAsk {
		l.run.limited(c, err) // it was asked about before
	} else if ok {
		l.atLimit(c, limit, nil, l.run.list)
	} else {
		l.run.failed(c, err)
	}
}

// cutShort reports whether the turn's answer was cut by what was left of a limit, and
// then goes on from there.
func (l *limits) cutShort(c *actors.Context) bool {
	t := l.turn
	if t.resp.Finish != llm.FinishLength || t.spend == nil || t.spend.ClampedBy() == nil {
		return false
	}
	if len(t.resp.Content) > 0 && l.cfg.Limits.OnLimit == runlog.LimitWrapUp {
		l.talk.Say(t.resp.Message()) // what there is of it is of use to the last turn
	}
	l.atLimit(c, t.spend.ClampedBy(), nil, l.run.list)
	return true
}
