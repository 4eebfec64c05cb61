package inbound_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

type empty struct{ inbound.Call }

func (*empty) Handle(context.Context) error { return nil }
func (*empty) Answer(error)                 {}

// BenchmarkCall is what an actor for each request costs: no transport, an empty
// handler, a deadline.
func BenchmarkCall(b *testing.B) {
	b.Run("actor/callers=1", func(b *testing.B) {
		c := connect(b, &inbound.Options{Deadline: 30 * time.Second})
		in := with(1)
		b.ReportAllocs()
		for b.Loop() {
			r := new(empty)
			if err := c.Serve(&r.Call, r, in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("actor/callers=64", func(b *testing.B) {
		c := connect(b, &inbound.Options{Deadline: 30 * time.Second})
		b.ReportAllocs()
		parallel(b, 64, func(caller int64, n int) {
			in := with(caller)
			for range n {
				r := new(empty)
				if err := c.Serve(&r.Call, r, in); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("floor/callers=1", func(b *testing.B) {
		f := floor{calls: make(map[mcp.ID]context.CancelCauseFunc)}
		id := mcp.IntID(1)
		b.ReportAllocs()
		for b.Loop() {
			f.serve(id, func(context.Context) {})
		}
	})
	b.Run("floor/callers=64", func(b *testing.B) {
		f := floor{calls: make(map[mcp.ID]context.CancelCauseFunc)}
		b.ReportAllocs()
		parallel(b, 64, func(caller int64, n int) {
			id := mcp.IntID(caller)
			for range n {
				f.serve(id, func(context.Context) {})
			}
		})
	})
}

func parallel(b *testing.B, callers int, run func(caller int64, n int)) {
	b.ResetTimer()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() { run(int64(caller), b.N/callers+1) })
	}
	wg.Wait()
}

// floor is the least that makes a request cancellable: no actor, no deadline,
// no supervision.
type floor struct {
	mu    sync.Mutex
	calls map[mcp.ID]context.CancelCauseFunc
}

func (f *floor) serve(id mcp.ID, handle func(context.Context)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	f.mu.Lock()
	f.calls[id] = cancel
	f.mu.Unlock()
	handle(ctx)
	f.mu.Lock()
	delete(f.calls, id)
	f.mu.Unlock()
	cancel(nil)
}
