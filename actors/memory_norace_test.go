//go:build !race

package actors_test

import (
	"runtime"
	"testing"

	"github.com/troupe-dev/troupe/actors"
)

// TestIdleActorMemory holds the budget of an idle call actor. (The race detector
// keeps books of its own.)
func TestIdleActorMemory(t *testing.T) {
	const budget = 620
	if got := idleBytes(t, 100_000, true); got > budget {
		t.Errorf("an idle inline actor takes %.0f B, want at most %d", got, budget)
	}
}

// TestIdleParentMemory holds the budget of an actor that may be restarted and has one child,
// as a connection is, with that child.
func TestIdleParentMemory(t *testing.T) {
	const n, budget = 2000, 1700
	sys := start(t, nil)
	refs := make([]actors.Ref, 0, n)
	before := heap()
	for range n {
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindClient, New: func() actors.Actor {
			return actors.ReceiveFunc(func(c *actors.Context, msg any) {
				if _, ok := msg.(actors.Started); ok {
					if _, err := c.Spawn(actors.Spec{Kind: actors.KindTransport, New: func() actors.Actor { return idler{} }}); err != nil {
						t.Error(err)
					}
				}
			})
		}})
		refs = append(refs, ref)
	}
	if got := (heap() - before) / n; got > budget {
		t.Errorf("an idle parent and its child take %d B, want at most %d", got, budget)
	}
	runtime.KeepAlive(refs)
}
