// Package changed calls a function of the program when something has changed, as a part of an actor:
// one call at a time, and another one if it has changed meanwhile.
package changed

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
)

// Message is a message to the actor.
type Message interface{ aboutChange() }

// Now is the message that something has changed.
type Now struct{}

// handled says that the function has returned.
type handled struct{}

func (Now) aboutChange()     {}
func (handled) aboutChange() {}

// Calls are the calls of one function.
type Calls struct {
	busy  bool // a call is under way
	again bool // it has changed since that began
}

// Receive handles a message. F is called unless the actor is about to stop; failed is called with
// its panic.
func (n *Calls) Receive(c *actors.Context, msg Message, stopping bool, f func(context.Context), failed func(error)) {
	switch msg.(type) {
	case Now:
		if n.busy {
			n.again = true
			return
		}
	case handled:
		n.busy = false
		if !n.again {
			return
		}
	}
	if stopping {
		return
	}
	n.busy, n.again = true, false
	actors.Await(c,
		func(ctx context.Context) (struct{}, error) { f(ctx); return struct{}{}, nil },
		func(_ struct{}, err error) any {
			if err != nil {
				failed(err)
			}
			return handled{}
		})
}
