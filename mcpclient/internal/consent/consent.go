// Package consent remembers what was consented to of a server's definition.
package consent

import (
	"context"
	"sync/atomic"
)

// Given is the consent for all instances of one server.
type Given struct {
	asking atomic.Pointer[chan struct{}] // has room for one: it is full while a person is asked; nil at first
	hash   string                        // of the definition that was consented to; of the one that asks
}

// None is no consent yet.
func None() *Given { return new(Given) }

// Ask asks once for each definition, one attempt after the other. An empty hash is asked for
// each time.
func (g *Given) Ask(ctx context.Context, hash string, ask func() error) error {
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
	if err := ask(); err != nil {
		return err
	}
	g.hash = hash
	return nil
}
