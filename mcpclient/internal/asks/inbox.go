package asks

import (
	"errors"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/inbound"
)

// inbox runs the questions of calls, which outlive a generation of the connection:
// its actor is started when the first comes.
type inbox struct {
	conn  *conn.Conn
	actor atomic.Pointer[inboxActor] // the newest; nil before the first
	last  atomic.Int64               // id
}

// Inbox returns the actor that the questions of calls live below; the zero Ref before there
// was one.
func (a *Asks) Inbox() actors.Ref {
	newest := a.inbox.actor.Load()
	if newest == nil {
		return actors.Ref{}
	}
	ref, _ := newest.ready.Result()
	return ref
}

// maxInbox bounds the questions of all calls of a client that are under way.
const maxInbox = 256

// table returns that of the actor. It must not be called from a Receive. Of several callers
// the first one starts the actor, the others wait for it.
func (b *inbox) table() (*inbound.Table, error) {
	for {
		a := b.actor.Load()
		if a == nil || a.over() {
			next := &inboxActor{calls: inbound.NewTable(&inbound.Options{Limit: maxInbox}), started: make(chan struct{}), stopping: make(chan struct{})}
			if !b.actor.CompareAndSwap(a, next) {
				continue
			}
			a = next
			a.ready.Complete(a.start(b.conn))
		}
		<-a.ready.Done()
		_, err := a.ready.Result()
		return a.calls, err
	}
}

// inboxActor is the parent of the questions of calls, each of them an actor.
type inboxActor struct {
	calls             *inbound.Table
	ready             actors.Reply[actors.Ref]
	started, stopping chan struct{} // closed when it has started, and before its table closes
	closed            bool          // the table is
}

func (a *inboxActor) start(c *conn.Conn) (actors.Ref, error) {
	ref, err := c.Spawn(actors.Spec{Kind: actors.KindInbox, New: func() actors.Actor { return a }})
	if err != nil {
		return actors.Ref{}, err
	}
	select {
	case <-a.started:
		return ref, nil
	case <-ref.Stopped():
		return actors.Ref{}, errors.New("the connection is closed")
	}
}

// over reports whether another has to take the actor's place.
func (a *inboxActor) over() bool {
	if !a.ready.Completed() {
		return false
	}
	ref, err := a.ready.Result()
	if err != nil {
		return true
	}
	select {
	case <-a.stopping: // the connection's actor was restarted
	case <-ref.Stopped(): // before it was told
	default:
		return false
	}
	return true
}

// Receive implements [actors.Actor].
func (a *inboxActor) Receive(c *actors.Context, msg any) {
	switch msg.(type) {
	case actors.Started:
		if a.closed { // restarted: the next question makes another
			c.Stop()
			return
		}
		a.calls.Bind(c.Self())
		close(a.started)
	case actors.Stopping:
		if a.closed {
			return
		}
		a.closed = true
		close(a.stopping)
		a.calls.Close(actors.ErrStopped)
	}
}
