package inbound_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// Whatever happens to it, a call has one outcome, and nothing is left of it.
func TestChaos(t *testing.T) {
	const callers = 64
	calls := 100_000
	if raceEnabled {
		calls /= 10
	}
	c := connect(t, &inbound.Options{Limit: 80, Deadline: time.Hour})
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(caller)))
			for i := range calls / callers {
				chaoticCall(t, c, rng, int64(caller*calls+i))
			}
		})
	}
	wg.Wait()
	s := c.Stats()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && s.InFlight != 0; s = c.Stats() {
		runtime.Gosched() // an outcome comes before the end of its handler
	}
	if s.InFlight != 0 || s.IDs != 0 || s.Actors != s.Idle {
		t.Errorf("the table is not balanced: %+v", s)
	}
	// Stopping is asynchronous: the parent carries it out.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && c.sys.Census().Live(actors.KindInbound) != s.Idle; {
		runtime.Gosched()
	}
	if live := c.sys.Census().Live(actors.KindInbound); live != s.Idle {
		t.Errorf("got %d live actors, want the %d idle ones", live, s.Idle)
	}
}

func chaoticCall(t *testing.T, c *connection, rng *rand.Rand, id int64) {
	r := &request{}
	in := inbound.Request{ID: mcp.IntID(id), Method: "chaos"}
	disturb := func() {}
	switch rng.IntN(12) {
	case 0:
		r.handle = func(context.Context, *request) error { panic("chaos") }
	case 1:
		disturb = func() { c.Cancel(in.ID, "chaos") }
		r.handle = untilDone
	case 2: // a cancel that may come too late
		disturb = func() { c.Cancel(in.ID, "chaos") }
		r.handle = nothing
	case 3:
		disturb = func() { r.Actor().Stop() }
		r.handle = untilDone
	case 4:
		disturb = func() { r.Actor().Send(inbound.Bomb()) }
		r.handle = untilDone
	case 5: // may hit the actor while it is idle, or has its next call
		disturb = func() { r.Actor().Stop() }
		r.handle = nothing
	case 6: // a handler that does not care for its deadline
		in.Deadline = time.Duration(rng.IntN(1000)) * time.Microsecond
		r.handle = func(_ context.Context, r *request) error {
			if in.Deadline > 0 {
				_, err := r.outcome.Wait(context.Background())
				return err
			}
			return nil
		}
	case 7:
		r.handle = func(_ context.Context, r *request) error { r.Progress(1, 2, ""); r.Progress(2, 2, ""); return nil }
	case 8:
		r.handle = func(context.Context, *request) error { return errors.New("chaos") }
	case 9:
		r.handle = func(context.Context, *request) error {
			c.sys.Go("test", func() { r.Finish(nil) })
			return inbound.ErrParked
		}
	default:
		r.handle = nothing
	}
	if err := c.Begin(&r.Call, r, in); err != nil {
		if err != inbound.ErrBusy {
			t.Errorf("Begin(%d): %v", id, err)
		}
		return
	}
	var disturbed sync.WaitGroup
	disturbed.Go(disturb)
	r.Run()
	r.wait(t)
	disturbed.Wait()
	if n := r.answers.Load() + r.drops.Load(); n != 1 {
		t.Errorf("call %d: got %d outcomes, want 1", id, n)
	}
}
