// answers.go: the actor that looks at the store for answers given elsewhere.
//
//	idle ──── a question is watched ────▶ looking, once a second ──── none left ────▶ idle

package agent

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// answerPoll is how often the store is asked for what was settled. It bounds how long
// an answer given in another process takes without [Runtime.Wake].
const answerPoll = 500 * time.Millisecond

// answers tells runs what was decided of their questions, for all runs of a runtime: a
// thousand that wait cost one query a look, whose answer is as long as there is news.
// It is the [loop.Answers] of every run.
type answers struct {
	ref actors.Ref
}

// Messages.
type (
	watchAsk struct {
		ask     string
		run     actors.Ref
		settled func(store.Ask)
	}
	forgetAsk struct{ ask string }
	lookNow   struct{}
	looked    struct {
		last   int64
		asks   []store.Ask
		absent []string // watched, and not there
		err    error
	}
)

func startAnswers(sys *actors.System, asks store.Asks) (*answers, error) {
	watched := make(map[string]*watchedAsk) // outlives a restart: the runs do not ask again
	ref, err := sys.Spawn(actors.Spec{Kind: actors.KindInbox, Name: "answers", New: func() actors.Actor {
		for _, w := range watched {
			w.seen = false
		}
		return &answerPoller{asks: asks, watched: watched, last: -1}
	}})
	return &answers{ref}, err
}

// Watch implements [loop.Answers].
func (a *answers) Watch(ask string, run actors.Ref, settled func(store.Ask)) {
	a.ref.Send(watchAsk{ask, run, settled})
}

// Forget implements [loop.Answers].
func (a *answers) Forget(ask string) { a.ref.Send(forgetAsk{ask}) }

// Wake lets the runs hear now of answers that were given in other processes. They hear
// within a second without it.
func (rt *Runtime) Wake() { rt.answers.ref.Send(lookNow{}) }

// watchedAsk is a question that a run waits for.
type watchedAsk struct {
	run     actors.Ref
	settled func(store.Ask)
	seen    bool       // it was looked at once: from then on news is enough
	told    *store.Ask // what it was decided as; told again until it is forgotten
}

// answerPoller is touched by its own goroutine only.
type answerPoller struct {
	asks    store.Asks
	watched map[string]*watchedAsk
	last    int64 // place in the order of settled asks; below zero for none yet
	timer   *actors.Timer
	looking bool
	again   bool // another look follows the one under way
}

// Receive implements [actors.Actor].
func (a *answerPoller) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		a.timer = c.NewTimer(lookNow{})
		a.rest()
	case watchAsk:
		a.watched[m.ask] = &watchedAsk{run: m.run, settled: m.settled}
		if len(a.watched) == 1 {
			a.rest()
		}
	case forgetAsk:
		delete(a.watched, m.ask)
	case lookNow:
		a.look(c)
	case looked:
		a.looked(c, m)
	}
}

// rest waits for the next look; without a watched question there is none.
func (a *answerPoller) rest() {
	if len(a.watched) == 0 {
		a.last = -1 // not to read, later, all that was settled meanwhile
		return
	}
	a.timer.Set(answerPoll)
}

// look asks the store what was settled since the last look, and how those stand that
// were not there then.
func (a *answerPoller) look(c *actors.Context) {
	if a.looking {
		a.again = true
		return
	}
	var fresh []string
	for id, w := range a.watched {
		switch {
		case !w.run.Alive():
			delete(a.watched, id)
		case w.told != nil:
			w.settled(*w.told)
		case !w.seen:
			w.seen = true
			fresh = append(fresh, id)
		}
	}
	if len(a.watched) == 0 {
		a.rest()
		return
	}
	a.looking = true
	asks, last := a.asks, a.last
	actors.Await(c, func(ctx context.Context) (looked, error) { return news(ctx, asks, last, fresh) },
		func(m looked, err error) any {
			m.err = err
			if err != nil {
				m.last, m.absent = last, fresh
			}
			return m
		})
}

// news reads what was settled after a place, and the questions that are watched for the
// first time: those may have been settled before it.
func news(ctx context.Context, asks store.Asks, last int64, fresh []string) (m looked, err error) {
	m.last = last
	if last < 0 {
		if _, m.last, err = asks.SettledAsks(ctx, -1, 0); err != nil {
			return m, err
		}
	}
	for _, id := range fresh {
		ask, err := asks.Ask(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound): // it will be told when it expires
		case err != nil:
			return m, err
		case ask.Status != store.AskPending:
			m.asks = append(m.asks, ask)
		}
	}
	for last >= 0 {
		page, next, err := asks.SettledAsks(ctx, m.last, 0)
		if err != nil {
			return m, err
		}
		m.asks, m.last = append(m.asks, page...), next
		if len(page) == 0 || len(m.asks) >= store.MaxPage {
			break // the rest comes with the next look
		}
	}
	return m, nil
}

func (a *answerPoller) looked(c *actors.Context, m looked) {
	a.looking = false
	if m.err != nil {
		c.Log().Warn("the store does not say what was answered", "error", m.err)
	}
	a.last = m.last
	for _, id := range m.absent { // nothing is known of these yet
		if w := a.watched[id]; w != nil {
			w.seen = false
		}
	}
	for _, ask := range m.asks {
		if w := a.watched[ask.ID]; w != nil {
			w.told = &ask
			w.settled(ask)
		}
	}
	if a.again {
		a.again = false
		a.look(c)
		return
	}
	a.rest()
}
