package actors_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/actors"
)

// P13: an actor that has stopped, and all it holds, can be collected although its
// parent and its siblings live on. The library's list of children alone would keep one
// of two.
func TestStoppedActorsAreCollected(t *testing.T) {
	const n = 100
	sys := start(t, nil)
	var collected atomic.Int32
	refs := make([]actors.Ref, n)
	for i := range refs {
		a := &adder{}
		runtime.AddCleanup(a, func(int) { collected.Add(1) }, 0)
		refs[i] = spawn(t, sys, actors.Spec{Kind: actors.KindCall, New: func() actors.Actor { return a }})
	}
	for _, ref := range refs {
		ref.Stop()
		<-ref.Stopped()
	}
	clear(refs)
	for range 20 {
		runtime.GC()
		if collected.Load() >= n-2 { // the library's queues hold the last they have handed out
			return
		}
		sys.Census() // lets the cleanups run
	}
	t.Errorf("%d of %d stopped actors can not be collected", n-collected.Load(), n)
}
