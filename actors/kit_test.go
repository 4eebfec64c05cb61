package actors_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// start returns a system that is shut down, with nothing left, when the test ends.
func start(t testing.TB, opts *actors.Options) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if census := sys.Census(); census.Live() != 0 || len(census.Tasks) != 0 || len(sys.Tree()) != 0 {
			t.Errorf("left over: %+v, %+v", census, sys.Tree())
		}
	})
	return sys
}

func spawn(tb testing.TB, sys *actors.System, spec actors.Spec) actors.Ref {
	tb.Helper()
	ref, err := sys.Spawn(spec)
	if err != nil {
		tb.Fatalf("Spawn(%q): %v", spec.Name, err)
	}
	return ref
}

// Messages of these tests.
type (
	add struct {
		n     int
		reply *actors.Reply[int]
	}
	blow  struct{}                      // panics
	do    func(c *actors.Context)       // runs in Receive
	probe struct{ *actors.Reply[bool] } // answered at once
	plain struct{ n int }
	// ping carries its own queue node, as the messages of a recycled call do.
	ping struct {
		actors.Node
		n int
	}
)

// adder sums up what it is sent.
type adder struct{ sum int }

func (a *adder) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case add:
		a.sum += m.n
		m.reply.Complete(a.sum, nil)
	case blow:
		panic("blown")
	case do:
		m(c)
	case probe:
		m.Complete(true, nil)
	}
}

func newAdder() actors.Actor { return new(adder) }

func ask(t testing.TB, ref actors.Ref, n int) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	return actors.Ask(ctx, ref, func(r *actors.Reply[int]) any { return add{n, r} })
}

// run makes an adder, or any actor that takes do, run f, and waits for it.
func run(t testing.TB, ref actors.Ref, f func(c *actors.Context)) {
	t.Helper()
	done := make(chan struct{})
	ref.Send(do(func(c *actors.Context) { defer close(done); f(c) }))
	select {
	case <-done:
	case <-ref.Stopped():
		select { // it may have run, and have stopped then
		case <-done:
		default:
			t.Error("the actor stopped before it ran a function")
		}
	}
}

// recorder is an actor that hands what it receives to a function.
type recorder struct {
	got    func(c *actors.Context, msg any)
	failed func(c *actors.Context, child actors.Ref, err error)
}

func (r recorder) Receive(c *actors.Context, msg any) {
	if m, ok := msg.(do); ok {
		m(c)
		return
	}
	if r.got != nil {
		r.got(c, msg)
	}
}

func (r recorder) ChildFailed(c *actors.Context, child actors.Ref, err error) {
	if r.failed != nil {
		r.failed(c, child, err)
	}
}

// syncBuffer is what several goroutines log to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) Count(s string) int { return strings.Count(b.String(), s) }

// logTo logs everything, whatever its level.
func logTo(b *syncBuffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug - 100}))
}
