package loop

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

const askPoll = time.Second // how often the store is asked for an answer given elsewhere

// Messages to itself.
type (
	askSeen struct { // how an ask stands in the store
		open *openAsk
		ask  store.Ask
		err  error
	}
	pollAsks struct{}
)

// raise is a message from the goroutine of a call: it asks.
type raise struct {
	call  *call
	q     Question
	reply *actors.Reply[store.Decision]
	open  *openAsk // the run's; nil before it has the question
}

// decision goes on with the decision on a question. The entries are those of it that are still to be
// written.
type decision func(c *actors.Context, d store.Decision, entries []runlog.Entry)

// openAsk is a question that waits. The store decides which answer was the first.
type openAsk struct {
	row    store.Ask
	call   *call      // that it is about; nil for none
	raised *raise     // the call itself asks; nil for its approval
	login  *openLogin // that it is for; nil if it is for none
	then   decision

	stored    bool     // it is durable: answers may be given
	withdrawn bool     // as its call was left
	writing   int      // decisions on their way to the store, of which it takes one
	settled   bool     // it is decided, and off the list
	answers   []answer // given before it was stored
}

// asks are the open questions of a run. The clock of its wall time stands still while there
// is one (TIME-05).
type asks struct {
	*parts
	open    map[string]*openAsk // by ID
	timer   *actors.Timer
	closing int // being withdrawn, as the run ends
}

// receive takes the messages of the asks.
func (as *asks) receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case askSeen:
		as.seen(c, m)
	case pollAsks:
		if as.out == nil {
			as.poll(c)
		}
	}
}

// add adds a question to those that are open, and returns the event that opens it, in the
// store too: see [writing.encode].
func (as *asks) add(a *openAsk) runlog.Entry {
	as.clock.hold()
	as.talk.LetGo() // a person takes long
	if as.open == nil {
		as.open = make(map[string]*openAsk)
	}
	as.open[a.row.ID] = a
	return runlog.Entry{Type: store.AskOpened, Key: a.row.ID, Body: &runlog.AskOpened{Ask: a.row}}
}

// stored goes on with questions that can be answered from any process now.
func (as *asks) stored(c *actors.Context, asks ...*openAsk) {
	for _, a := range asks {
		if a.settled {
			continue
		}
		a.stored = true
		if as.finishing() {
			as.withdraw(c, a)
			continue
		}
		if as.cfg.Answers != nil && !as.parking.on {
			self := c.Self()
			as.cfg.Answers.Watch(a.row.ID, self, func(seen store.Ask) { self.Send(askSeen{a, seen, nil}) })
		}
		for _, given := range a.answers {
			as.settle(c, a, given)
		}
		a.answers = nil
		if row, ok := as.recovery.away(a.row.ID); ok {
			as.seen(c, askSeen{a, row, nil})
		}
		as.parts.approvals.coverOne(c, a)
	}
	if as.out == nil && len(as.open) > 0 {
		as.setTimer(c)
	}
}

// setTimer polls again soon, and exactly when the next ask expires.
func (as *asks) setTimer(c *actors.Context) {
	now := time.Now()
	var next time.Time // [Answers] reports all but the expiry
	if as.cfg.Answers == nil {
		next = now.Add(askPoll)
	}
	for _, a := range as.open {
		e := a.row.Expires
		if !e.After(now) { // the store did not answer then
			e = now.Add(askPoll)
		}
		if next.IsZero() || e.Before(next) {
			next = e
		}
	}
	if !next.IsZero() {
		as.timer = timer(c, as.timer, pollAsks{})
		as.timer.SetAt(next)
	}
}

// timer makes a timer that is seldom needed when it first is.
func timer(c *actors.Context, t *actors.Timer, msg any) *actors.Timer {
	if t == nil {
		t = c.NewTimer(msg)
	}
	return t
}

// poll reads answers given elsewhere from the store, and settles asks that have expired.
func (as *asks) poll(c *actors.Context) {
	now := time.Now()
	for _, open := range as.open {
		if !open.stored {
			continue
		}
		j, id, expired := as.cfg.Journal, open.row.ID, !now.Before(open.row.Expires)
		if !expired && as.cfg.Answers != nil {
			continue
		}
		actors.Await(c, func(ctx context.Context) (store.Ask, error) {
			if !expired {
				return j.Ask(ctx, id)
			}
			// The store may go by another clock. The first decision counts.
			a, err := j.SettleAsk(ctx, id, store.Decision{Status: store.AskExpired, By: "clock"})
			if errors.Is(err, store.ErrSettled) {
				err = nil
			}
			return a, err
		}, func(a store.Ask, err error) any { return askSeen{open, a, err} })
	}
	as.setTimer(c)
}

func (as *asks) seen(c *actors.Context, m askSeen) {
	switch {
	case m.open.settled, m.open.writing > 0: // meanwhile
		return
	case m.err == nil:
	case as.parking.on && !m.open.withdrawn:
		return
	case as.out != nil: // it was answered before it could be withdrawn
		c.Log().Warn("a question could not be withdrawn", "run", as.cfg.ID, "error", m.err)
		m.ask.Decision = store.Decision{Status: store.AskCancelled, By: "runtime"}
	case !time.Now().Before(m.open.row.Expires):
		// The store does not answer. Whatever it holds, this is no yes.
		m.ask.Decision = store.Decision{Status: store.AskExpired, By: "clock"}
	default:
		return
	}
	if d := m.ask.Decision; d.Status != store.AskPending {
		as.decided(c, m.open, d, []runlog.Entry{m.open.decision(d)})
	}
}

// answer decides an ask, as soon as the question is durable.
func (as *asks) answer(c *actors.Context, m answer) {
	if as.cfg.Journal == nil {
		m.reply.Complete(store.Ask{}, store.ErrNotFound)
		return
	}
	switch open := as.open[m.ask]; {
	case open == nil || as.finishing():
		j := as.cfg.Journal
		actors.Await(c, func(ctx context.Context) (store.Ask, error) {
			return j.SettleAsk(ctx, m.ask, m.decision)
		}, func(a store.Ask, err error) any {
			m.reply.Complete(a, err)
			return nil
		})
	case !open.stored:
		open.answers = append(open.answers, m)
	default:
		as.settle(c, open, m)
	}
}

// settle writes a decision together with its event; the store decides whether it is the
// first.
func (as *asks) settle(c *actors.Context, open *openAsk, m answer) {
	if m.decision.At.IsZero() {
		m.decision.At = store.Clock(time.Now())
	}
	if err := m.decision.Check(); err != nil {
		m.reply.Complete(store.Ask{}, err)
		return
	}
	id, d := open.row.ID, m.decision
	open.writing++
	as.journal.WriteBatch(c, journal.Batch{
		Settle: &journal.Settling{
			Settlement: store.Settlement{Ask: id, Decision: d},
			Lost: func(c *actors.Context) {
				open.writing--
				as.seeSettled(c, open, m)
			},
			Failed: func(err error) { m.reply.Complete(store.Ask{}, err) },
		},
		Then: func(c *actors.Context) {
			open.writing--
			row := open.row
			row.Decision = d
			m.reply.Complete(row, nil)
			as.decided(c, open, d, nil)
		},
	}, open.decision(d))
}

// seeSettled looks how an ask was settled by an answer that was faster.
func (as *asks) seeSettled(c *actors.Context, open *openAsk, m answer) {
	j, id := as.cfg.Journal, open.row.ID
	actors.Await(c, func(ctx context.Context) (store.Ask, error) {
		return j.Ask(ctx, id)
	}, func(a store.Ask, err error) any {
		settled := err
		if err == nil {
			settled = store.ErrSettled
		}
		m.reply.Complete(a, settled)
		return askSeen{open, a, err}
	})
}

// decision is the event of a decision. That of a question at a limit, or about an
// outcome, has the answer: what it says is of use to a resume.
func (a *openAsk) decision(d store.Decision) runlog.Entry {
	body := &runlog.AskSettled{Status: d.Status, By: d.By, Scope: d.Scope, Reason: runlog.Reason(d.Answer)}
	if a.row.Kind == runlog.AskLimit || a.row.Kind == runlog.AskOutcome {
		body.Answer = d.Answer
	}
	return runlog.Entry{Type: store.AskSettled, Key: a.row.ID, Body: body}
}

// decided goes on with a decision. The entries are those of it that are still to be written.
func (as *asks) decided(c *actors.Context, a *openAsk, d store.Decision, entries []runlog.Entry) {
	switch {
	case a.settled:
	case as.out == nil:
		as.close(a)
		a.then(c, d, entries)
	case as.parking.on && !as.journal.Final(): // the run goes on with the decision when it goes on
		as.close(a)
		if a.raised != nil {
			a.raised.reply.Complete(d, nil)
		}
		if len(entries) > 0 {
			as.journal.Write(c, nil, entries...)
		}
	case !as.journal.Final(): // a call that waits to be allowed is not made in any case
		a.fail(store.ErrFinished)
		switch {
		case a.raised != nil:
			a.raised.reply.Complete(d, nil)
		case a.call != nil:
			a.call.hold.Release()
			a.call.phase = returned
		}
		as.close(a)
		as.closing--
		if len(entries) > 0 {
			as.journal.Write(c, nil, entries...)
		}
		as.shutdown.finish(c)
	}
}

// fail answers those who have answered the ask that it can be answered no more.
func (a *openAsk) fail(err error) {
	for _, waiting := range a.answers {
		waiting.reply.Complete(store.Ask{}, err)
	}
	a.answers = nil
}

// close takes an ask off the list.
func (as *asks) close(a *openAsk) {
	delete(as.open, a.row.ID)
	a.settled = true
	if as.cfg.Answers != nil {
		as.cfg.Answers.Forget(a.row.ID)
	}
	if len(as.open) == 0 && as.out == nil {
		as.timer.Clear()
	}
	as.clock.release()
}

// withdrawAll takes all questions back, as the run ends.
func (as *asks) withdrawAll(c *actors.Context) {
	for _, a := range as.open {
		as.closing++ // until it is settled; one that is not durable yet is withdrawn once it is
		if a.stored {
			as.withdraw(c, a)
		}
	}
}

// withdraw takes a question back, unless it has been answered.
func (as *asks) withdraw(c *actors.Context, a *openAsk) {
	as.settle(c, a, answer{ask: a.row.ID, decision: store.Decision{Status: store.AskCancelled, By: "runtime"},
		reply: new(actors.Reply[store.Ask])})
}

// withdrawOld withdraws a question of the process before, unless it is settled.
func (as *asks) withdrawOld(c *actors.Context, q *runlog.Question) {
	if q.Settled != nil {
		return
	}
	a := &openAsk{row: q.Ask, stored: true}
	a.then = func(c *actors.Context, _ store.Decision, entries []runlog.Entry) {
		as.journal.WriteBatch(c, journal.Batch{State: as.state()}, entries...)
	}
	as.add(a)
	as.settle(c, a, answer{ask: a.row.ID, reply: new(actors.Reply[store.Ask]), decision: store.Decision{Status: store.AskCancelled, By: "runtime",
		Answer: runlog.DeclineAnswer("the process that asked has ended")}})
}

// abandon ends the wait for all questions of a run that has ended.
func (as *asks) abandon() {
	for _, a := range as.open {
		a.fail(store.ErrFinished)
		if a.raised != nil {
			a.raised.reply.Complete(store.Decision{Status: store.AskCancelled, By: "runtime"}, nil)
		}
	}
}

// approvals counts the questions that no call under way waits for.
func (as *asks) approvals() int {
	n := 0
	for _, a := range as.open {
		if !a.ofCall() {
			n++
		}
	}
	return n
}

// ofCall reports whether a call under way waits for the answer.
func (a *openAsk) ofCall() bool { return a.raised != nil || a.login != nil && !a.login.listing }

// state is waiting if the run waits for a person.
func (as *asks) state() store.RunState {
	if len(as.open) > 0 {
		return store.Waiting
	}
	return store.Running
}

// question is the row of a question of the run, which is not about a call.
func (c *config) question(kind, id string) store.Ask {
	if c.Asks != "" {
		id += "-" + c.Asks
	}
	return store.Ask{ID: id, Run: c.ID, Kind: kind, Path: c.Path, Trust: "program", Expires: store.Clock(time.Now().Add(c.AskExpiry))}
}
