// ending.go: an end that is decided, and that has to wait for calls to return or for questions to be withdrawn.
//
//	decided ── run.ending is durable ──▶ nothing begins any more ──▶ calls have returned ──▶ run.finished
//	                                          │                                               ▲
//	                                          └─ the process ends; resumed ───────────────────┘
//
// A run that goes on with run.ending goes straight to its end: calls that were sent and have no result are of unknown
// outcome, runs that calls have started are ended with it, and questions are withdrawn.

package loop

import (
	"errors"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// ending is the event that says how the run ends.
func (o *Outcome) ending() runlog.Entry {
	b := &runlog.RunEnding{State: o.State, Stop: o.Stop, Text: o.Text, Structured: o.Structured, Incomplete: o.Incomplete, Unknown: errors.Is(o.Err, ErrOutcomeUnknown)}
	if o.Err != nil {
		b.Error = clip.Short(o.Err.Error())
	}
	if limit, ok := errors.AsType[*budget.LimitError](o.Err); ok && o.State == store.Limited {
		b.Limit = &runlog.LimitReached{Account: limit.Account, Limit: limit.Limit, Max: limit.Max, Spent: spentOf(limit), Then: runlog.LimitStop}
	}
	if g, ok := errors.AsType[*guard.Error](o.Err); ok {
		b.Guard = &runlog.GuardActed{Guard: g.Guard, Point: g.Point, Action: runlog.GuardStopped, Text: g.Reason}
	}
	return runlog.Entry{Type: runlog.RunEndingType, Body: b}
}

// endsAs is the outcome of a run whose end was decided before its process ended.
func endsAs(b *runlog.RunEnding) Outcome {
	return Outcome{State: b.State, Stop: b.Stop, Text: b.Text, Structured: b.Structured, Incomplete: b.Incomplete, Err: errorOf(b)}
}

// errorOf is the error of an end, of the type that it had where that can be told.
func errorOf(b *runlog.RunEnding) error {
	if b.Error == "" && b.State == store.Finished {
		return nil
	}
	e := &endedError{text: b.Error}
	switch {
	case b.Limit != nil:
		e.as = limitOf(b.Limit)
	case b.Guard != nil:
		e.as = &guard.Error{Guard: b.Guard.Guard, Point: b.Guard.Point, Reason: b.Guard.Text}
	case b.Unknown:
		e.as = ErrOutcomeUnknown
	case b.State == store.Cancelled:
		cause, ok := strings.CutPrefix(b.Error, new(CancelledError).Error()+": ")
		if !ok {
			cause = b.Error
		}
		if cause == "" || cause == new(CancelledError).Error() {
			return new(CancelledError)
		}
		return &CancelledError{errors.New(cause)}
	}
	return e
}

// endedError is the error with which a run was to end before its process did.
type endedError struct {
	text string
	as   error // nil for one that is only known by its text
}

func (e *endedError) Error() string { return e.text }

// Unwrap returns the error that it was.
func (e *endedError) Unwrap() error { return e.as }

// toEnd reports whether the run is taken up to end: the journal says how. A run that was begun here has no resuming.
func (rs *resuming) toEnd() bool { return rs != nil && rs.from.State.Ending != nil }

// leftOpen takes in what the process before has left of a run that ends while it is taken up: its questions, which are withdrawn,
// and its calls, each of which was either not sent or is of unknown outcome. A call that has started a run ends when that does.
func (rs *resuming) leftOpen() (entries []runlog.Entry) {
	s := rs.from.State
	for _, q := range s.Asks {
		if q.Settled == nil {
			rs.asks.add(&openAsk{row: q.Ask, stored: true})
		}
	}
	if s.Turn == nil || s.Turn.Result == nil || s.Turn.Over {
		return nil
	}
	rs.turn = turnAgain(s.Turn)
	rs.calls.add(s.Turn.Wanted())
	for _, cl := range rs.turn.calls {
		cl.phase = returned
		for _, was := range s.Turn.Calls {
			switch {
			case was.CallID != cl.id || !was.Open() || !was.Sent:
			case was.Run != "":
				cl.was, cl.args, cl.phase = was, was.Intent.Arguments, sent
				rs.turn.busy++
			default:
				cl.was = was
				entries = append(entries, rs.calls.lose(cl, left))
			}
		}
	}
	return entries
}

// listBelow finds the tools whose calls have started runs that go on: those end with this one.
func (rs *resuming) listBelow(c *actors.Context) {
	if rs.turn != nil && rs.turn.busy > 0 && !rs.listing {
		rs.find(c)
	}
}

// endBelow takes up the calls that have started runs, and cancels them: each run has an end of its own.
func (rs *resuming) endBelow(c *actors.Context, m resumed) {
	if rs.turn == nil || rs.journal.Final() {
		return
	}
	for _, cl := range rs.turn.calls {
		if cl.phase != sent || cl.task != nil {
			continue
		}
		if m.err == nil {
			cl.tool = m.listed.offer.byName[cl.name]
		}
		if cl.child() == cl.was.Run {
			rs.calls.dispatch(c, cl)
			cl.stop(rs.out.Err)
			continue
		}
		rs.turn.busy--
		rs.journal.Write(c, nil, rs.calls.lose(cl, left))
	}
	rs.shutdown.finish(c)
}
