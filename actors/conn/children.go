package conn

import (
	"context"
	"sync"

	"github.com/troupe-dev/troupe/actors"
)

// spawnWanted tells the connection's actor that children wait to be started.
type spawnWanted struct{}

// children are the actors still to be started. No one is forgotten, whatever
// becomes of the message that asks for it.
type children struct {
	mu     sync.Mutex
	wanted []child
	closed error // why none are started any more
}

type child struct {
	spec actors.Spec
	then func(actors.Ref, error)
}

func (ch *children) add(c child) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed == nil {
		ch.wanted = append(ch.wanted, c)
	}
	return ch.closed
}

func (ch *children) take() []child {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	wanted := ch.wanted
	ch.wanted = nil
	return wanted
}

func (ch *children) spawn(c *actors.Context) {
	for _, w := range ch.take() {
		w.then(c.Spawn(w.spec))
	}
}

func (ch *children) close(why error) {
	ch.mu.Lock()
	ch.closed = why
	ch.mu.Unlock()
	for _, w := range ch.take() {
		w.then(actors.Ref{}, why)
	}
}

// SpawnThen starts a child of the connection's actor, which outlives transports and
// ends with the connection, and calls then with it: once, on the actor's goroutine
// or the caller's, so that it must not block. A connection that is not started yet
// starts it later. It may be called from a Receive.
func (k *Conn) SpawnThen(spec actors.Spec, then func(actors.Ref, error)) {
	if err := k.children.add(child{spec, then}); err != nil {
		then(actors.Ref{}, err)
		return
	}
	k.send(&spawnWanted{})
}

// Spawn is SpawnThen for those who can wait: it must not be called from a Receive.
// Before [Conn.Start] the error is [ErrNotReady].
func (k *Conn) Spawn(spec actors.Spec) (actors.Ref, error) {
	if k.Ref().IsZero() {
		return actors.Ref{}, ErrNotReady
	}
	var reply actors.Reply[actors.Ref]
	k.SpawnThen(spec, func(ref actors.Ref, err error) { reply.Complete(ref, err) })
	return reply.Wait(context.Background())
}
