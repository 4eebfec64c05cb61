// Package consent remembers what was consented to of a server's definition.
package consent

import (
	"context"
	"sync/atomic"
)

// Given is the consent for all instances of one server.
type Given struct {
	asking atomic.Pointer[chan struct{}] // has room for one: it is full while a person is asked; nil at first
	// Of the definitions that were consented to, and refused, last; of the one that asks.
	hash, refused string
}

// None is no consent yet.
func None() *Given { return new(Given) }

// Ask asks once for each definition, one attempt after the other. An empty hash is asked for
// each time. Again says that the same definition was refused when it was asked for last.
func (g *Given) Ask(ctx context.Context, hash string, ask func(again bool) error) error {
	if g.asking.Load() == nil {
		one := make(chan struct{}, 1)
		g.asking.CompareAndSwap(nil, &one)
	}
	asking := *g.asking.Load()
	select {
	case asking <- struct{}{}:
		defer func() { <-asking }()
	case <-ctx.Done(): // an earlier attempt still asks
		return context.Cause(ctx)
	}
	if hash != "" && g.hash == hash {
		return nil
	}
	if err := ask(hash != "" && g.refused == hash); err != nil {
		if ctx.Err() == nil { // else the attempt is over, whatever the answer
			g.refused = hash
		}
		return err
	}
	g.hash = hash
	return nil
}
