package loop

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// creation is one attempt to record a run. It is a message to the run where the store answers late.
type creation struct {
	run   *Run
	actor actors.Ref
	first []runlog.Entry
	again bool // an attempt before may have come through
	began time.Time
	// events are those of first where the store does not keep them. They are used again once it has answered.
	events *[]store.Event

	stage    atomic.Int32
	answered atomic.Bool
	head     store.Run // this and err are the store's answer
	err      error
}

var firstEvents = sync.Pool{New: func() any { return new([]store.Event) }}

// The stages of a creation.
const (
	creationBegins int32 = iota // the actor begins it
	creationWaits               // and waits for the message
	creationOver                // the store has answered
	creationLeft                // the actor has gone before
)

// start begins it, and reports whether the store has answered at once. An error, and a panic of the store, are
// an answer.
func (m *creation) start(c *actors.Context) bool {
	cfg := &m.run.cfg
	room := firstEvents.Get().(*[]store.Event)
	events, err := runlog.Encode((*room)[:0], m.first)
	if err != nil {
		m.answer(store.Run{}, err)
		return true
	}
	*room = events
	head := store.Run{ID: cfg.ID, Agent: cfg.Agent, Title: title(cfg.Origin.Input), InputHash: cfg.Origin.InputHash, Parent: cfg.Origin.Parent}
	if to, ok := cfg.Journal.(store.Starter); ok {
		m.events = room
		_, err = actors.Guard(func() (none struct{}, _ error) {
			to.StartCreate(head, cfg.Owner, cfg.Lease, events, m.answer)
			return none, nil
		})
		if err != nil {
			m.answer(store.Run{}, err)
		}
	} else {
		actors.Await(c, func(ctx context.Context) (store.Run, error) {
			return cfg.Journal.Create(ctx, head, cfg.Owner, cfg.Lease, events...)
		}, func(head store.Run, err error) any { m.answer(head, err); return nil })
	}
	return !m.stage.CompareAndSwap(creationBegins, creationWaits)
}

// answer takes the store's answer, on any goroutine. The first one counts.
func (m *creation) answer(head store.Run, err error) {
	if !m.answered.CompareAndSwap(false, true) {
		return
	}
	m.head, m.err = head, err
	switch {
	case m.stage.CompareAndSwap(creationBegins, creationOver):
	case m.stage.CompareAndSwap(creationWaits, creationOver):
		m.actor.Send(m)
	default:
		_ = m.take()
	}
}

// leave reports whether the actor, which has gone, has to take the answer: it has come, and its message has not.
func (m *creation) leave() bool {
	return m != nil && !m.stage.CompareAndSwap(creationBegins, creationLeft) && !m.stage.CompareAndSwap(creationWaits, creationLeft)
}

// take returns the error of the attempt. It answers the callers of Opened, unless the run may be tried again, and ends
// the run if the actor has gone by then.
func (m *creation) take() error {
	if room := m.events; room != nil {
		m.events = nil
		clear(*room)
		firstEvents.Put(room)
	}
	r, err := m.run, m.err
	if m.again && errors.Is(err, store.ErrExists) && m.head.Owner == r.cfg.Owner && m.head.InputHash == r.cfg.Origin.InputHash && m.head.Seq == int64(len(m.first)) {
		err = nil // an attempt that seemed to fail had come through
	}
	if journal.Passing(err) {
		return err
	}
	b := begun{epoch: m.head.Epoch}
	if err != nil {
		b.taken = &m.head
	} else {
		for i := range m.first {
			m.first[i].Seq = int64(i + 1)
		}
		r.cfg.Sink.Journalled(m.first)
	}
	if r.open(b, err) || err != nil {
		return err
	}
	out := Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: actors.ErrStopped}
	var unasked []runlog.Entry
	if last := m.first[len(m.first)-1]; last.Type == runlog.ModelIntentType {
		unasked = []runlog.Entry{{Time: last.Time, Type: runlog.ModelFailedType,
			Body: &runlog.ModelFailed{Turn: 1, Lost: true, Error: out.Err.Error()}}}
	}
	m.actor.System().Go("run-"+r.cfg.ID, func() {
		if err := r.recordDeath(m.head.Epoch, out, unasked); err != nil {
			m.actor.System().Log().Warn("the end of a run that was recorded too late was not", "run", r.cfg.ID, "error", err)
		}
	})
	return actors.ErrStopped
}
