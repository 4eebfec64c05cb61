package journal

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Creator is the part of a [store.Store] that records runs.
type Creator interface {
	Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error)
}

// Creation is one attempt to record a run. It is a message to the run where the store answers late.
type Creation struct {
	First []runlog.Entry
	Again bool   // an attempt before may have come through
	Late  func() // called in place of the message if the run's actor has gone, on any goroutine; it calls Take
	Began time.Time

	run         actors.Ref
	owner, hash string
	// events are those of First where the store does not keep them. They are used again once it has answered.
	events *[]store.Event

	stage    atomic.Int32
	answered atomic.Bool
	Head     store.Run // the store's answer: the run, or the one that has its ID
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

// Begin begins it, and reports whether the store has answered at once. An error, and a panic of the store, are
// an answer.
func (m *Creation) Begin(c *actors.Context, to Creator, r store.Run, owner string, lease time.Duration) bool {
	m.Began, m.run, m.owner, m.hash = time.Now(), c.Self(), owner, r.InputHash
	room := firstEvents.Get().(*[]store.Event)
	events, err := runlog.Encode((*room)[:0], m.First)
	if err != nil {
		m.answer(store.Run{}, err)
		return true
	}
	*room = events
	if starter, ok := to.(store.Starter); ok {
		m.events = room
		_, err = actors.Guard(func() (none struct{}, _ error) {
			starter.StartCreate(r, owner, lease, events, m.answer)
			return none, nil
		})
		if err != nil {
			m.answer(store.Run{}, err)
		}
	} else {
		actors.Await(c, func(ctx context.Context) (store.Run, error) { return to.Create(ctx, r, owner, lease, events...) },
			func(head store.Run, err error) any { m.answer(head, err); return nil })
	}
	return !m.stage.CompareAndSwap(creationBegins, creationWaits)
}

// answer takes the store's answer, on any goroutine. The first one counts.
func (m *Creation) answer(head store.Run, err error) {
	if !m.answered.CompareAndSwap(false, true) {
		return
	}
	m.Head, m.err = head, err
	switch {
	case m.stage.CompareAndSwap(creationBegins, creationOver):
	case m.stage.CompareAndSwap(creationWaits, creationOver):
		m.run.Send(m)
	default:
		m.Late()
	}
}

// Leased returns when the lease that lasts so long was taken, by how much of it was left: that of a run which is a job's,
// or which another has started, was taken before.
func (m *Creation) Leased(lasts time.Duration) time.Time {
	if h := &m.Head; !h.Expires.IsZero() {
		if left := h.Expires.Sub(h.Created); left < lasts {
			return m.Began.Add(left - lasts)
		}
	}
	return m.Began
}

// Leave is called when the run's actor has gone. It reports whether the answer has come and its message has not been
// taken: then Late will not be called.
func (m *Creation) Leave() bool {
	return m != nil && !m.stage.CompareAndSwap(creationBegins, creationLeft) && !m.stage.CompareAndSwap(creationWaits, creationLeft)
}

// Take returns the error of the attempt, once; else it numbers the entries. An attempt that seemed to fail, and had
// come through, is no error of the next one.
func (m *Creation) Take() error {
	if room := m.events; room != nil {
		m.events = nil
		clear(*room)
		firstEvents.Put(room)
	}
	if m.err != nil {
		mine := m.Head.Owner == m.owner && m.Head.InputHash == m.hash && m.Head.Seq == int64(len(m.First))
		if !m.Again || !errors.Is(m.err, store.ErrExists) || !mine {
			return m.err
		}
	}
	for i := range m.First {
		m.First[i].Seq = int64(i + 1)
	}
	return nil
}
