// Package answers looks in the store for answers that were given in other processes, for all
// runs of a runtime.
//
//	idle ──── a question is watched ────▶ looking, twice a second ──── none left ────▶ idle
package answers

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// interval is how often the store is asked for settled questions. It bounds how long an answer
// that was given in another process takes without [Poller.Wake].
const interval = 500 * time.Millisecond

// Poller reports to runs how their questions were decided. A thousand runs that wait cost one
// query a look, whose answer is as long as there is news. It is the loop.Answers of every run.
type Poller struct{ ref actors.Ref }

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
		absent []string // watched, and not in the store
		err    error
	}
)

// Start starts the actor that looks.
func Start(sys *actors.System, asks store.Asks) (*Poller, error) {
	watched := make(map[string]*watchedAsk) // outlives a restart: the runs do not ask again
	ref, err := sys.Spawn(actors.Spec{Kind: actors.KindInbox, Name: "answers", New: func() actors.Actor {
		for _, w := range watched {
			w.seen = false
		}
		return &poller{asks: asks, watched: watched, last: -1}
	}})
	return &Poller{ref}, err
}

// Watch implements loop.Answers.
func (p *Poller) Watch(ask string, run actors.Ref, settled func(store.Ask)) {
	p.ref.Send(watchAsk{ask, run, settled})
}

// Forget implements loop.Answers.
func (p *Poller) Forget(ask string) { p.ref.Send(forgetAsk{ask}) }

// Wake looks now.
func (p *Poller) Wake() { p.ref.Send(lookNow{}) }

// watchedAsk is a question that a run waits for.
type watchedAsk struct {
	run     actors.Ref
	settled func(store.Ask)
	seen    bool       // it was read once: from then on news is enough
	decided *store.Ask // its decision, which is reported until it is forgotten
}

// poller is touched by its own goroutine only.
type poller struct {
	asks    store.Asks
	watched map[string]*watchedAsk
	last    int64 // place in the order of settled asks; below zero for none yet
	timer   *actors.Timer
	looking bool
	again   bool // another look follows the one under way
}

// Receive implements [actors.Actor].
func (p *poller) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		p.timer = c.NewTimer(lookNow{})
		p.rest()
	case watchAsk:
		p.watched[m.ask] = &watchedAsk{run: m.run, settled: m.settled}
		if len(p.watched) == 1 {
			p.rest()
		}
	case forgetAsk:
		delete(p.watched, m.ask)
	case lookNow:
		p.look(c)
	case looked:
		p.looked(c, m)
	}
}

// rest waits for the next look; without a watched question there is none.
func (p *poller) rest() {
	if len(p.watched) == 0 {
		p.last = -1 // not to read, later, all that was settled meanwhile
		return
	}
	p.timer.Set(interval)
}

// look reads from the store the settlements since the last look, and the state of the questions that were
// not watched then.
func (p *poller) look(c *actors.Context) {
	if p.looking {
		p.again = true
		return
	}
	var fresh []string
	for id, w := range p.watched {
		switch {
		case !w.run.Alive():
			delete(p.watched, id)
		case w.decided != nil:
			w.settled(*w.decided)
		case !w.seen:
			w.seen = true
			fresh = append(fresh, id)
		}
	}
	if len(p.watched) == 0 {
		p.rest()
		return
	}
	p.looking = true
	asks, last := p.asks, p.last
	actors.Await(c, func(ctx context.Context) (looked, error) { return news(ctx, asks, last, fresh) },
		func(m looked, err error) any {
			m.err = err
			if err != nil {
				m.last, m.absent = last, fresh
			}
			return m
		})
}

// news reads the settlements after a place, and the questions that are watched for the
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
		case errors.Is(err, store.ErrNotFound): // its run learns of it when it expires
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

func (p *poller) looked(c *actors.Context, m looked) {
	p.looking = false
	if m.err != nil {
		c.Log().Warn("the store does not say what was answered", "error", m.err)
	}
	p.last = m.last
	for _, id := range m.absent { // their state is not known yet
		if w := p.watched[id]; w != nil {
			w.seen = false
		}
	}
	for _, ask := range m.asks {
		if w := p.watched[ask.ID]; w != nil {
			w.decided = &ask
			w.settled(ask)
		}
	}
	if p.again {
		p.again = false
		p.look(c)
		return
	}
	p.rest()
}
