package loop

import (
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// takeUpRaised answers a question of a call whose round the process before has left with the
// question that was asked then, if it is the same one, and reports whether there is one: an answer
// counts once, and an open question stays as it is.
func (cs *calls) takeUpRaised(c *actors.Context, m *raise) bool {
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
		cs.advance(c, entries...)
	}
	if q.Settled == nil {
		m.open = &openAsk{row: q.Ask, call: cl, raised: m, then: then}
		cs.asks.add(m.open)
		cs.advance(c)
		cs.asks.stored(c, m.open)
		return true
	}
	row, ok := cs.asks.decidedAway[q.Ask.ID] // the journal does not have the answer
	if !ok || row.Status == store.AskCancelled {
		return false
	}
	then(c, row.Decision, nil)
	return true
}

// withdrawRound withdraws the questions of a round that no call asks again.
func (cs *calls) withdrawRound(c *actors.Context, was *runlog.CallState) {
	if was == nil || was.Round == nil {
		return
	}
	for _, q := range was.Round.Asks {
		if q.Settled == nil {
			cs.asks.withdrawOld(c, q)
		}
	}
	was.Round.Asks = nil
}
