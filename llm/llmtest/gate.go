package llmtest

import (
	"context"
	"sync"
)

// Gate holds turns at a point of their script until it is opened, so that a test can act
// while a turn is surely under way.
type Gate struct {
	reach, open     sync.Once
	reached, opened chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate {
	return &Gate{reached: make(chan struct{}), opened: make(chan struct{})}
}

// Reached is closed when the first turn waits at the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets all turns pass, from now on. It may be called again.
func (g *Gate) Open() { g.open.Do(func() { close(g.opened) }) }

// pass waits until the gate is open or ctx ends.
func (g *Gate) pass(ctx context.Context) {
	g.reach.Do(func() { close(g.reached) })
	select {
	case <-g.opened:
	case <-ctx.Done():
	}
}
