package inbound_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/inbound"
)

// parked is the smallest handler there is.
type parked struct{ inbound.Call }

func (*parked) Handle(context.Context) error { return inbound.ErrParked }
func (*parked) Answer(error)                 {}

func TestCensus(t *testing.T) {
	const n, perCall = 10_000, 1536
	c := connect(t, &inbound.Options{Limit: n, Deadline: time.Hour})
	var before, after runtime.MemStats
	calls := make([]*parked, n)
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	for i := range calls {
		calls[i] = new(parked)
		if err := c.Serve(&calls[i].Call, calls[i], with(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if live := c.sys.Census().Live(actors.KindInbound); live != n {
		t.Errorf("got %d actors, want %d", live, n)
	}
	if more := runtime.NumGoroutine() - goroutines; more > 10 {
		t.Errorf("got %d more goroutines", more)
	}
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d bytes for each request in flight, deadline armed", each)
	if each > perCall && !raceEnabled {
		t.Errorf("a request in flight takes %d bytes, want at most %d", each, perCall)
	}
	for _, r := range calls {
		r.Finish(nil)
	}
	if s := c.Stats(); s.InFlight != 0 || s.IDs != 0 {
		t.Errorf("afterwards: %+v", s)
	}
}
