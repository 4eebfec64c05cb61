package inbound_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

func TestOutcomes(t *testing.T) {
	failed := errors.New("no such file")
	tests := []struct {
		name   string
		handle func(context.Context, *request) error
		during func(*connection, *request) // while the handler runs
		want   func(error) bool
		drop   bool
	}{
		{"result", nothing, nil, func(err error) bool { return err == nil }, false},
		{"error", func(context.Context, *request) error { return failed }, nil,
			func(err error) bool { return errors.Is(err, failed) }, false},
		{"panic", func(context.Context, *request) error { panic("boom") }, nil, actors.Panicked, false},
		// CANC-03, CANC-09: nothing is written
		{"cancel", untilDone, func(c *connection, r *request) { c.Cancel(r.ID(), "enough") },
			func(err error) bool {
				e, ok := errors.AsType[*inbound.CancelledError](err)
				return ok && e.Reason == "enough" && errors.Is(err, context.Canceled)
			}, true},
		{"killed", untilDone, func(_ *connection, r *request) { r.Actor().Stop() },
			func(err error) bool { return errors.Is(err, actors.ErrStopped) }, false},
		{"actor fails", untilDone, func(_ *connection, r *request) { r.Actor().Send(inbound.Bomb()) }, actors.Panicked, false},
		{"closed", untilDone, func(c *connection, _ *request) { c.ref.Stop() },
			func(err error) bool { return errors.Is(err, errGone) }, false},
		{"a cancel from elsewhere", func(context.Context, *request) error { return &inbound.CancelledError{} }, nil,
			func(err error) bool { return errors.Is(err, context.Canceled) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, nil)
				r := newRequest(tt.handle)
				if err := c.Begin(&r.Call, r, with(1)); err != nil {
					t.Fatalf("Begin: %v", err)
				}
				go r.Run()
				<-r.begun
				if tt.during != nil {
					tt.during(c, r)
				}
				if err := r.wait(t); !tt.want(err) {
					t.Errorf("outcome: got %v", err)
				}
				synctest.Wait()
				if a, d := r.answers.Load(), r.drops.Load(); a+d != 1 || (d == 1) != tt.drop {
					t.Errorf("got %d answers and %d drops, want one, a drop: %v", a, d, tt.drop)
				}
				if s := c.Stats(); s.InFlight != 0 || s.IDs != 0 {
					t.Errorf("table afterwards: %+v", s)
				}
			})
		})
	}
}

// The log learns where it happened, the peer only that it did (LOG-06).
func TestPanicIsLoggedAndNotTold(t *testing.T) {
	var log lockedBuffer
	c := connectWith(t, &actors.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	r := newRequest(func(context.Context, *request) error { panic("the password is hunter2") })
	if err := c.Serve(&r.Call, r, with(1)); err != nil {
		t.Fatal(err)
	}
	if e := mcp.ErrorOf(r.wait(t)); e.Code != mcp.CodeInternal || e.Message != "internal error" || e.Data != nil {
		t.Errorf("wire error: got %+v, want a bare -32603", e)
	}
	other := newRequest(nothing) // the parent has handled the failure before it starts the next actor
	if err := c.Serve(&other.Call, other, with(2)); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, "hunter2") || !strings.Contains(got, "TestPanicIsLoggedAndNotTold.func1") {
		t.Errorf("log: got %q, want the value and the stack of the handler", got)
	}
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestDeadlineOfAStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &inbound.Options{Deadline: time.Minute, Limit: 1})
		release := make(chan struct{})
		r := newRequest(func(context.Context, *request) error { <-release; return nil })
		start := time.Now()
		if err := c.Begin(&r.Call, r, with(1)); err != nil {
			t.Fatal(err)
		}
		go r.Run()
		if err := r.wait(t); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("outcome: got %v, want the deadline's", err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("answered after %v, want 1m", took)
		}
		if err := r.Err(); err != context.DeadlineExceeded {
			t.Errorf("Err: got %v", err)
		}
		// It counts until its handler ends, but its id is free (BASE-05).
		other := newRequest(nothing)
		if err := c.Serve(&other.Call, other, with(1)); err != inbound.ErrBusy {
			t.Errorf("while it hangs: got %v, want ErrBusy", err)
		}
		close(release)
		synctest.Wait()
		other = newRequest(nothing)
		if err := c.Serve(&other.Call, other, with(1)); err != nil {
			t.Errorf("afterwards: got %v", err)
		}
		if n := r.answers.Load(); n != 1 {
			t.Errorf("got %d answers, want 1", n)
		}
	})
}

// A recycled actor's timer stays armed from an earlier request; it must not
// ring for a later one before its time.
func TestDeadlineOfARecycledActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &inbound.Options{Deadline: time.Minute, Trim: time.Hour})
		for i := range 5 {
			r := newRequest(nothing)
			if err := c.Serve(&r.Call, r, with(int64(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Second)
		}
		start := time.Now()
		r := newRequest(untilDone)
		if err := c.Serve(&r.Call, r, with(9)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("ended after %v, want 1m", took)
		}
		if s := c.Stats(); s.Actors != 1 {
			t.Errorf("got %d actors, want one that was used again", s.Actors)
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &inbound.Options{Limit: 2})
		parked := func(id int64) *request {
			r := newRequest(func(context.Context, *request) error { return inbound.ErrParked })
			if err := c.Serve(&r.Call, r, with(id)); err != nil {
				t.Fatalf("Serve(%d): %v", id, err)
			}
			return r
		}
		refused := func(id mcp.ID, want error, code int64) {
			t.Helper()
			r := newRequest(nothing)
			err := c.Serve(&r.Call, r, inbound.Request{ID: id})
			if err != want || mcp.ErrorOf(err).Code != code {
				t.Errorf("Serve(%s): got %v, want %v with code %d", id, err, want, code)
			}
			if r.answers.Load() != 0 {
				t.Errorf("Serve(%s) was refused and answered", id)
			}
		}
		first := parked(7)
		refused(mcp.IntID(7), inbound.ErrDuplicateID, mcp.CodeInvalidRequest) // BASE-05
		second := newRequest(func(context.Context, *request) error { return inbound.ErrParked })
		if err := c.Serve(&second.Call, second, inbound.Request{ID: mcp.StringID("7")}); err != nil {
			t.Errorf("1 and \"1\" are different ids (BASE-02): got %v", err)
		}
		refused(mcp.IntID(8), inbound.ErrBusy, mcp.CodeInternal)
		first.Finish(nil)
		first.Finish(errors.New("a second outcome"))
		if err := first.wait(t); err != nil || first.answers.Load() != 1 {
			t.Errorf("a parked request: got %v and %d answers", err, first.answers.Load())
		}
		c.Drain(func() { close(c.drained) })
		refused(mcp.IntID(9), inbound.ErrClosed, mcp.CodeInternal)
		select {
		case <-c.drained:
			t.Error("drained with a request in flight")
		default:
		}
		second.Finish(nil)
		<-c.drained
	})
}

// A connection that is drained may be closed: nothing is left to be written.
func TestDrainedComesAfterTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, nil)
		r := newRequest(nothing)
		r.writing = make(chan struct{})
		if err := c.Begin(&r.Call, r, with(1)); err != nil {
			t.Fatal(err)
		}
		c.Drain(func() { close(c.drained) })
		go r.Run()
		synctest.Wait()
		select {
		case <-c.drained:
			t.Error("drained while the answer is being written")
		default:
		}
		close(r.writing)
		<-c.drained
	})
}

func TestMessagesOfAnEarlierRequest(t *testing.T) {
	c := connect(t, nil)
	first := newRequest(nothing)
	if err := c.Serve(&first.Call, first, with(1)); err != nil {
		t.Fatal(err)
	}
	second := newRequest(func(ctx context.Context, r *request) error {
		if r.Actor() != first.Actor() {
			t.Error("the actor was not used again")
		}
		r.Actor().Send(first.StaleCancel())
		first.Progress(1, 2, "late")
		first.Finish(errors.New("late"))
		return ctx.Err()
	})
	if err := c.Serve(&second.Call, second, with(2)); err != nil {
		t.Fatal(err)
	}
	if err := second.wait(t); err != nil {
		t.Errorf("outcome: got %v, want none of the stale messages'", err)
	}
	if got := append(first.reports(), second.reports()...); len(got) != 0 {
		t.Errorf("progress: got %v", got)
	}
}

func TestCancelUnknown(t *testing.T) {
	c := connect(t, nil)
	if c.Cancel(mcp.IntID(1), "") { // CANC-06
		t.Error("Cancel found a request that never was")
	}
}

func TestContext(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &inbound.Options{Context: context.WithValue(context.Background(), key{}, "value")})
		causes := make(chan error, 3)
		var leaked context.Context
		r := newRequest(func(ctx context.Context, r *request) error {
			if got := ctx.Value(key{}); got != "value" {
				t.Errorf("Value: got %v", got)
			}
			if _, ok := ctx.Deadline(); ok || ctx.Err() != nil {
				t.Errorf("at first: got a deadline (%v) or an error %v", ok, ctx.Err())
			}
			child, stop := context.WithTimeout(ctx, time.Hour)
			defer stop()
			leaked = ctx
			context.AfterFunc(ctx, func() { causes <- context.Cause(ctx) })
			c.Cancel(r.ID(), "why")
			<-child.Done()
			causes <- context.Cause(child)
			causes <- context.Cause(ctx)
			return nil
		})
		if err := c.Serve(&r.Call, r, with(1)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if e, ok := errors.AsType[*inbound.CancelledError](<-causes); !ok || e.Reason != "why" {
				t.Errorf("cause: got %v, want the peer's cancel", e)
			}
		}
		if leaked.Err() != context.Canceled {
			t.Errorf("Err: got %v", leaked.Err())
		}

		r = newRequest(func(ctx context.Context, _ *request) error { leaked = ctx; return nil })
		if err := c.Serve(&r.Call, r, with(2)); err != nil {
			t.Fatal(err)
		}
		<-leaked.Done()
		if got := context.Cause(leaked); got != inbound.ErrFinished {
			t.Errorf("cause after the end: got %v, want ErrFinished", got)
		}
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &inbound.Options{Deadline: time.Hour})
		r := newRequest(func(_ context.Context, r *request) error {
			r.Progress(1, 10, "one")
			synctest.Wait()
			if got := r.reports(); !slices.Equal(got, []progress{{Progress: 1, Total: 10, Message: "one"}}) {
				t.Errorf("at once: got %v", got)
			}
			r.Progress(1, 10, "again") // PROG-03
			r.Progress(0.5, 10, "back")
			for i := range 1000 { // PROG-05
				r.Progress(2+float64(i), 0, "")
			}
			synctest.Wait()
			if got := len(r.reports()); got != inbound.ProgressBurst {
				t.Errorf("after a flood: got %d reports, want %d", got, inbound.ProgressBurst)
			}
			time.Sleep(time.Second)
			if got := r.reports(); len(got) != inbound.ProgressBurst+1 || got[len(got)-1].Progress != 1001 {
				t.Errorf("a second later: got %d reports, want one more, the newest", len(got))
			}
			r.Progress(2000, 0, "last")
			return nil
		})
		if err := c.Serve(&r.Call, r, with(1)); err != nil {
			t.Fatal(err)
		}
		if got := r.reports(); got[len(got)-1].Message != "last" {
			t.Errorf("what was reported last must come before the answer: got %v", got[len(got)-1])
		}

		// PROG-04: none after the outcome
		r = newRequest(func(_ context.Context, r *request) error {
			time.Sleep(2 * time.Hour)
			r.Progress(1, 0, "late")
			if r.Emit(func() { t.Error("emitted after the answer") }) {
				t.Error("Emit: got true after the answer")
			}
			return nil
		})
		if err := c.Serve(&r.Call, r, with(2)); err != nil {
			t.Fatal(err)
		}
		if got := r.reports(); len(got) != 0 {
			t.Errorf("after the deadline: got %v", got)
		}
	})
}

func TestIdleActorsAreTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &inbound.Options{Idle: 10})
		var parked []*request
		for i := range 20 {
			r := newRequest(func(context.Context, *request) error { return inbound.ErrParked })
			if err := c.Serve(&r.Call, r, with(int64(i))); err != nil {
				t.Fatal(err)
			}
			parked = append(parked, r)
		}
		for _, r := range parked {
			r.Finish(nil)
		}
		synctest.Wait()
		if s := c.Stats(); s.Actors != 10 || s.Idle != 10 {
			t.Errorf("after a burst: got %+v, want 10 idle actors", s)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if n := c.sys.Census().Live(actors.KindInbound); n != 0 || c.Stats().Actors != 0 {
			t.Errorf("after some seconds: got %d actors, want 0", n)
		}
		r := newRequest(nothing)
		if err := c.Serve(&r.Call, r, with(99)); err != nil {
			t.Errorf("Serve afterwards: %v", err)
		}
	})
}

func TestStopOfTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, nil)
		var all []*request
		for i := range 100 {
			r := newRequest(untilDone)
			if i%2 == 0 {
				r.handle = func(context.Context, *request) error { return inbound.ErrParked }
			}
			if err := c.Begin(&r.Call, r, with(int64(i))); err != nil {
				t.Fatal(err)
			}
			go r.Run()
			all = append(all, r)
		}
		synctest.Wait()
		c.ref.Stop()
		<-c.ref.Stopped()
		for i, r := range all {
			if err := r.wait(t); !errors.Is(err, errGone) {
				t.Errorf("request %d: got %v", i, err)
			}
		}
		r := newRequest(nothing)
		if err := c.Serve(&r.Call, r, with(1)); err != inbound.ErrClosed {
			t.Errorf("Serve afterwards: got %v, want ErrClosed", err)
		}
	})
}
