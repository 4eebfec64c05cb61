package elicit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
)

// deaf is a link that takes everything.
type deaf struct{}

func (deaf) Send(mcp.Outgoing) error { return nil }
func (deaf) Close() error            { return nil }

// bench is a table on a connection that is ready.
type bench struct {
	*elicit.Table
	conn   *conn.Conn
	sys    *actors.System
	tracer actors.Tracer

	mu    sync.Mutex
	panic func(any) bool // the messages at which the next actor to see one fails
}

func newBench(t testing.TB, opts elicit.Options) *bench {
	t.Helper()
	b := &bench{}
	b.tracer.Keep = func(ev actors.TraceEvent) bool { return ev.Actor.Kind() == actors.KindElicitation }
	sys, err := actors.NewSystem(&actors.Options{Trace: b.trace})
	if err != nil {
		t.Fatal(err)
	}
	b.sys = sys
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if n := sys.Census().Live(); n != 0 {
			t.Errorf("actors left: %+v", sys.Census().Actors)
		}
		if n := b.Len(); n != 0 {
			t.Errorf("left pending: %d", n)
		}
	})
	b.conn = conn.New(sys, conn.Options{
		Name: "peer",
		Dial: func(context.Context, uint64, mcp.Sink) (mcp.Link, error) { return deaf{}, nil },
		Negotiate: func(_ context.Context, s *conn.Session) error {
			s.Agree(mcp.V2025_11_25, nil)
			return nil
		},
	})
	b.Table = elicit.New(b.conn.SpawnChild, opts)
	if err := b.conn.StartConnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) trace(ev actors.TraceEvent) {
	b.tracer.Record(ev)
	if ev.Actor.Kind() != actors.KindElicitation {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.panic != nil && b.panic(ev.Message) {
		b.panic = nil
		panic("injected")
	}
}

func (b *bench) open(t testing.TB, id string) *elicit.Pending {
	t.Helper()
	p, err := b.Open(id)
	if err != nil {
		t.Fatalf("Open(%q): %v", id, err)
	}
	return p
}

// told collects what waiters are told.
type told struct {
	mu   sync.Mutex
	errs []error
}

func (o *told) resume(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs = append(o.errs, err)
}

func (o *told) want(t *testing.T, want ...error) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.EqualFunc(o.errs, want, errors.Is) {
		t.Errorf("told: got %v, want %v", o.errs, want)
	}
}

// Each way in which a pending elicitation ends, what those who wait are told, and
// what its actor has seen.
func TestEnds(t *testing.T) {
	cause := errors.New("the person left")
	tests := []struct {
		name  string
		end   func(b *bench, p *elicit.Pending)
		want  error
		after time.Duration
		trace string
	}{
		{"completion", func(b *bench, _ *elicit.Pending) { b.Complete("a") }, nil, 0, "completed"},                        // URL-30
		{"completion twice", func(b *bench, _ *elicit.Pending) { b.Complete("a"); b.Complete("a") }, nil, 0, "completed"}, // URL-31
		{"manual retry", func(_ *bench, p *elicit.Pending) { p.Retry() }, nil, 0, "retried"},                              // URL-17
		{"cancel", func(_ *bench, p *elicit.Pending) { p.Cancel(cause) }, cause, 0, "cancelled"},
		{"cancel without a cause", func(_ *bench, p *elicit.Pending) { p.Cancel(nil) }, elicit.ErrCancelled, 0, "cancelled"},
		{"expiry", func(*bench, *elicit.Pending) {}, elicit.ErrExpired, time.Hour, "expired"},
		{"kill", func(_ *bench, p *elicit.Pending) { p.Ref().Stop() }, elicit.ErrFailed, 0, ""},
		{"panic", func(b *bench, p *elicit.Pending) {
			b.mu.Lock()
			b.panic = func(any) bool { return true }
			b.mu.Unlock()
			p.Retry()
		}, elicit.ErrFailed, 0, "retried"},
		{"connection closed", func(b *bench, _ *elicit.Pending) { _ = b.conn.Close(context.Background()) }, elicit.ErrFailed, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, elicit.Options{})
				p, other := b.open(t, "a"), b.open(t, "b")
				if again := b.open(t, "a"); again != p {
					t.Error("the same id was opened twice")
				}
				var got, of, gone told
				p.Wait(got.resume)
				p.Wait(got.resume)
				p.Wait(gone.resume)() // aborted
				synctest.Wait()
				start := time.Now()
				if tt.after == 0 {
					other.Wait(of.resume)
				}
				tt.end(b, p)
				synctest.Wait()
				time.Sleep(tt.after)
				synctest.Wait()
				got.want(t, tt.want, tt.want)
				gone.want(t)
				if tt.name != "connection closed" {
					of.want(t) // exactly its own waits
				}
				if time.Since(start) != tt.after {
					t.Errorf("took %v, want %v", time.Since(start), tt.after)
				}
				var late told
				p.Wait(late.resume)
				late.want(t, tt.want)
				p.Retry() // nobody is there any more
				p.Cancel(cause)
				lines := slices.DeleteFunc(b.tracer.Lines(), func(l string) bool {
					return strings.HasSuffix(l, "Started") || strings.HasSuffix(l, "Stopping")
				})
				want := []string{"elicitation open", "elicitation open"}
				if tt.trace != "" {
					want = append(want, "elicitation "+tt.trace)
				}
				if tt.after > 0 { // the other as well
					want = append(want, "elicitation "+tt.trace)
				}
				if !slices.Equal(lines, want) {
					t.Errorf("trace: got %v, want %v", lines, want)
				}
			})
		})
	}
}

// URL-32: a completion may come before anybody has opened the id, and between two
// calls that are answered with the same one. It is kept for a bounded time.
func TestEarlyCompletion(t *testing.T) { // SECA-35
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, elicit.Options{Early: 3, EarlyFor: time.Minute})
		b.Complete("early")
		b.Complete("early")
		for range 2 {
			var got told
			b.open(t, "early").Wait(got.resume)
			got.want(t, nil)
		}
		for i := range 5 { // URL-31: unknown ids do nothing but to push out others
			b.Complete(fmt.Sprint("flood", i))
		}
		var pushed, kept, stale told
		b.open(t, "early").Wait(pushed.resume)
		b.open(t, "flood4").Wait(kept.resume)
		time.Sleep(time.Minute)
		b.open(t, "flood3").Wait(stale.resume)
		synctest.Wait()
		pushed.want(t)
		kept.want(t, nil)
		stale.want(t)
		b.Complete("flood3") // known, but too long ago: it counts as new
		synctest.Wait()
		stale.want(t, nil)
		var again told
		b.open(t, "flood3").Wait(again.resume)
		again.want(t, nil)
		b.Complete("")
		b.Complete(strings.Repeat("x", 2000)) // ROB-3
		if _, err := b.Open(strings.Repeat("x", 2000)); !errors.Is(err, elicit.ErrID) {
			t.Errorf("Open of a long id: got %v, want %v", err, elicit.ErrID)
		}
	})
}

// A completion that comes while the actor is still to be started is not lost, and
// neither is an elicitation whose connection can not start it.
func TestBeforeTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := &slowParent{}
		table := elicit.New(parent.spawn, elicit.Options{})
		var done, failed told
		p, err := table.Open("a")
		if err != nil {
			t.Fatal(err)
		}
		p.Wait(done.resume)
		p.Retry()
		p.Cancel(nil) // comes second: does not count
		q, err := table.Open("b")
		if err != nil {
			t.Fatal(err)
		}
		q.Wait(failed.resume)
		b := newBench(t, elicit.Options{})
		b.conn.SpawnChild(parent.spec[0], parent.then[0])
		synctest.Wait()
		done.want(t, nil)
		parent.then[1](actors.Ref{}, actors.ErrClosed)
		failed.want(t, elicit.ErrFailed)
		if n := table.Len(); n != 0 {
			t.Errorf("pending: got %d, want 0", n)
		}
	})
}

type slowParent struct {
	spec []actors.Spec
	then []func(actors.Ref, error)
}

func (p *slowParent) spawn(spec actors.Spec, then func(actors.Ref, error)) {
	p.spec, p.then = append(p.spec, spec), append(p.then, then)
}

// A panic of somebody who waits does not keep the others from being told.
func TestWaiterPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, elicit.Options{})
		p := b.open(t, "a")
		var got told
		for range 8 {
			p.Wait(func(error) { panic("boo") })
			p.Wait(got.resume)
		}
		b.Complete("a")
		synctest.Wait()
		got.want(t, make([]error, 8)...)
	})
}

func TestLimit(t *testing.T) { // SECA-33
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, elicit.Options{Limit: 2})
		b.open(t, "a")
		b.open(t, "b")
		if _, err := b.Open("c"); !errors.Is(err, elicit.ErrLimit) {
			t.Errorf("Open beyond the limit: got %v, want %v", err, elicit.ErrLimit)
		}
		b.Complete("a")
		synctest.Wait()
		b.open(t, "c")
	})
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Ten thousand pending elicitations hold no goroutine each, and nothing afterwards.
func TestCensus(t *testing.T) {
	n := 10_000
	if raceDetector {
		n = 1000
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, elicit.Options{})
		time.Sleep(time.Minute) // idle workers end
		goroutines, before := mcptest.BubbleGoroutines(), heap()
		all := make([]*elicit.Pending, n)
		var toldOf atomic.Int64
		for i := range all {
			all[i] = b.open(t, fmt.Sprint("id", i))
			all[i].Wait(func(error) { toldOf.Add(1) })
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		live := func() int { return b.sys.Census().Live(actors.KindElicitation) }
		if got := live(); got != n {
			t.Errorf("actors: got %d, want %d", got, n)
		}
		t.Logf("%d B for each pending elicitation", (heap()-before)/uint64(n))
		if more := mcptest.BubbleGoroutines() - goroutines; more > 0 {
			t.Errorf("%d pending elicitations have %d goroutines", n, more)
		}
		for i, p := range all {
			switch i % 4 {
			case 0:
				b.Complete(p.ID())
			case 1:
				p.Cancel(nil)
			case 2:
				p.Retry()
			default:
				p.Ref().Stop()
			}
		}
		synctest.Wait()
		if toldOf.Load() != int64(n) || live() != 0 || b.Len() != 0 {
			t.Errorf("afterwards: %d told of %d, %d actors and %d pending", toldOf.Load(), n, live(), b.Len())
		}
	})
}

// One that may be completed elsewhere is looked at every few seconds, and once more before
// it expires; an error is no completion.
func TestOpenLooking(t *testing.T) {
	tests := []struct {
		name  string
		opts  elicit.Options
		done  func(after time.Duration) (bool, error)
		want  error
		after time.Duration
	}{
		{"soon", elicit.Options{}, func(d time.Duration) (bool, error) { return d >= 10*time.Second, nil }, nil, 12 * time.Second},
		{"never", elicit.Options{}, func(time.Duration) (bool, error) { return false, nil }, elicit.ErrExpired, time.Hour},
		{"an error", elicit.Options{}, func(time.Duration) (bool, error) { return true, errors.New("no store") }, elicit.ErrExpired, time.Hour},
		{"a panic", elicit.Options{}, func(time.Duration) (bool, error) { panic("injected") }, elicit.ErrExpired, time.Hour},
		{"just before it expires", elicit.Options{LookEvery: 59 * time.Minute}, func(d time.Duration) (bool, error) { return d > 59*time.Minute, nil }, nil, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.opts)
				began := time.Now()
				p, err := b.OpenLooking("a", time.Time{}, func(context.Context) (bool, error) { return tt.done(time.Since(began)) })
				if err != nil {
					t.Fatal(err)
				}
				over := make(chan error, 1)
				p.Wait(func(err error) { over <- err })
				if err := <-over; !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || time.Since(began) != tt.after {
					t.Errorf("got %v after %v, want %v after %v", err, time.Since(began), tt.want, tt.after)
				}
			})
		})
	}
}
