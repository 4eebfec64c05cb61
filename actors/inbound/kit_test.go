package inbound_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

var errGone = errors.New("the connection is gone")

// connection is the parent of the calls in these tests.
type connection struct {
	*inbound.Table
	sys     *actors.System
	ref     actors.Ref
	drained chan struct{}
}

func (c *connection) Receive(ctx *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		c.Bind(ctx.Self())
	case *actors.Reply[struct{}]: // it has started
		m.Complete(struct{}{}, nil)
	case actors.Stopping:
		c.Close(errGone)
	}
}

// connect starts a connection that is stopped, and has left nothing, when the
// test ends.
func connect(t testing.TB, opts *inbound.Options) *connection {
	t.Helper()
	return connectWith(t, nil, opts)
}

func connectWith(t testing.TB, system *actors.Options, opts *inbound.Options) *connection {
	t.Helper()
	sys, err := actors.NewSystem(system)
	if err != nil {
		t.Fatal(err)
	}
	c := &connection{Table: inbound.NewTable(opts), sys: sys, drained: make(chan struct{})}
	c.ref, err = sys.Spawn(actors.Spec{Kind: actors.KindSession, Name: "connection", New: func() actors.Actor { return c }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := actors.Ask(t.Context(), c.ref, func(r *actors.Reply[struct{}]) any { return r }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		census := sys.Census()
		if n := census.Live(); n != 0 || len(census.Tasks) != 0 {
			t.Errorf("left over: %+v", census)
		}
		if s := c.Stats(); s != (inbound.Stats{}) {
			t.Errorf("left in the table: %+v", s)
		}
	})
	return c
}

// progress is one report of a handler.
type progress struct {
	Progress, Total float64
	Message         string
}

// request is a handler for tests.
type request struct {
	inbound.Call
	handle func(ctx context.Context, r *request) error
	begun  chan struct{} // closed when the handler runs; nil if nobody looks

	writing chan struct{} // Answer waits for it; nil: not

	mu       sync.Mutex
	progress []progress

	answers, drops atomic.Int32
	outcome        actors.Reply[error] // given by Answer or Drop
}

func (r *request) Handle(ctx context.Context) error {
	if r.begun != nil {
		close(r.begun)
	}
	return r.handle(ctx, r)
}

func (r *request) Answer(err error) {
	if r.writing != nil {
		<-r.writing
	}
	r.answers.Add(1)
	r.outcome.Complete(err, nil)
}

func (r *request) Drop(err error) {
	r.drops.Add(1)
	r.outcome.Complete(err, nil)
}

func (r *request) Report(done, total float64, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, progress{done, total, message})
}

func (r *request) reports() []progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// wait returns the outcome once it was given.
func (r *request) wait(t testing.TB) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	out, err := r.outcome.Wait(ctx)
	if err != nil {
		t.Fatalf("no outcome: %v", err)
	}
	return out
}

func newRequest(handle func(ctx context.Context, r *request) error) *request {
	return &request{handle: handle, begun: make(chan struct{})}
}

func with(id int64) inbound.Request {
	return inbound.Request{ID: mcp.IntID(id), Method: mcp.MethodCallTool}
}

func nothing(context.Context, *request) error { return nil }

func untilDone(ctx context.Context, _ *request) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
