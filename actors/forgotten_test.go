package actors_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/troupe-dev/troupe/actors"
)

// holder is an actor with a child, and with something that it holds.
type holder struct{ held []byte }

func (h *holder) Receive(c *actors.Context, msg any) {
	if _, ok := msg.(actors.Started); ok {
		_, _ = c.Spawn(actors.Spec{Kind: actors.KindCall, New: newAdder})
	}
}

// P13: an actor that has stopped, and all it holds, can be collected although its
// parent lives on. The library's list of children alone would keep every other one.
func TestStoppedActorsAreCollected(t *testing.T) {
	const n = 100
	sys := start(t, nil)
	refs, held := make([]actors.Ref, n), make([]weak.Pointer[holder], n)
	for i := range refs {
		a := &holder{make([]byte, 1<<10)}
		held[i] = weak.Make(a)
		refs[i] = spawn(t, sys, actors.Spec{Kind: actors.KindCall, New: func() actors.Actor { return a }})
	}
	for _, ref := range refs {
		ref.Stop()
		<-ref.Stopped()
	}
	clear(refs)
	left := n
	for range 10 { // a worker may not have let go of the last ones yet
		runtime.GC()
		left = 0
		for _, a := range held {
			if a.Value() != nil {
				left++
			}
		}
	}
	if left > n/10 {
		t.Errorf("%d of %d stopped actors can not be collected", left, n)
	}
}
