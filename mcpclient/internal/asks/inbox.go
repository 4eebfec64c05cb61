package asks

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/inbound"
)

// inbox runs the questions of calls, which outlive a generation of the connection:
// its actor is started when the first comes.
type inbox struct {
	conn *conn.Conn

	mu    sync.Mutex  // guards the actor and its ref: whichever question is first starts it
	actor *inboxActor // nil before, and when it has to be made anew
	ref   actors.Ref
	last  atomic.Int64 // id
}

// Inbox returns the actor that the questions of calls live below; the zero Ref before there
// was one.
func (a *Asks) Inbox() actors.Ref {
	a.inbox.mu.Lock()
	defer a.inbox.mu.Unlock()
	return a.inbox.ref
}

// maxInbox bounds the questions of all calls of a client that are under way.
const maxInbox = 256

// table returns that of the actor. It must not be called from a Receive.
func (b *inbox) table() (*inbound.Table, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.actor != nil {
		select {
		case <-b.actor.stopping: // the connection's actor was restarted
		case <-b.ref.Stopped(): // before it was told
		default:
			return b.actor.calls, nil
		}
	}
	a := &inboxActor{calls: inbound.NewTable(&inbound.Options{Limit: maxInbox}), started: make(chan struct{}), stopping: make(chan struct{})}
	ref, err := b.conn.Spawn(actors.Spec{Kind: actors.KindInbox, New: func() actors.Actor { return a }})
	if err != nil {
		return nil, err
	}
	select {
	case <-a.started:
	case <-ref.Stopped():
		return nil, errors.New("the connection is closed")
	}
	b.actor, b.ref = a, ref
	return a.calls, nil
}

// inboxActor is the parent of the questions of calls, each of them an actor.
type inboxActor struct {
	calls             *inbound.Table
	started, stopping chan struct{} // closed when it has started, and before its table closes
	closed            bool          // the table is
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
