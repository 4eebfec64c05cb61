package call_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// newSystem returns a system that is shut down, with nothing left, when the test ends.
func newSystem(t testing.TB, opts *actors.Options) *actors.System {
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
		if n := sys.Census().Live(); n != 0 {
			t.Errorf("actors left: %+v", sys.Census().Actors)
		}
	})
	return sys
}

// parent is the least that a table needs of a connection.
type parent struct {
	table   *call.Table
	drained chan struct{}
}

type (
	blow struct{}
	hold chan struct{} // the parent is busy until it is closed
)

func (p *parent) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		p.table.Bind(c.Self())
	case blow:
		panic("blown")
	case hold:
		<-m
	case actors.Stopping:
		p.table.Unbind(m.Err)
		p.table.Close(call.ErrClosed)
	}
}

// sent is one message on the wire.
type sent struct {
	ID     mcp.ID `json:"id"`
	Method string `json:"method"`
	Params struct {
		RequestID mcp.ID   `json:"requestId"`
		Meta      mcp.Meta `json:"_meta"`
	} `json:"params"`
	Text string       `json:"-"`
	Out  mcp.Outgoing `json:"-"` // without the frame
}

// wire is a link that keeps what was sent, and answers with answer if that is set.
type wire struct {
	answer func(w *wire, s sent)
	err    error

	mu   sync.Mutex
	sent []sent
}

func (w *wire) Send(m mcp.Outgoing) error {
	if w.err != nil {
		return w.err
	}
	s := sent{Text: string(m.Frame), Out: m}
	s.Out.Frame = nil
	if err := jsonx.Unmarshal(m.Frame, &s); err != nil {
		panic(err)
	}
	w.mu.Lock()
	w.sent = append(w.sent, s)
	w.mu.Unlock()
	if w.answer != nil && m.Kind == mcp.KindRequest {
		w.answer(w, s)
	}
	return nil
}

func (w *wire) Close() error { return nil }

func (w *wire) all() []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]sent(nil), w.sent...)
}

// methods returns the methods that were sent, in order.
func (w *wire) methods() (out []string) {
	for _, s := range w.all() {
		out = append(out, s.Method)
	}
	return out
}

// bench is a table with its parent.
type bench struct {
	*call.Table
	sys    *actors.System
	parent *parent
	ref    actors.Ref

	lastGen atomic.Uint64 // of the chaos
}

func newTable(t testing.TB, opts *call.Options) *bench {
	t.Helper()
	return newTableOn(t, newSystem(t, nil), opts)
}

func newTableOn(t testing.TB, sys *actors.System, opts *call.Options) *bench {
	t.Helper()
	b := &bench{Table: call.NewTable(sys, opts), sys: sys}
	b.parent = &parent{table: b.Table, drained: make(chan struct{})}
	ref, err := sys.Spawn(actors.Spec{Kind: actors.KindClient, Name: "client", New: func() actors.Actor { return b.parent }})
	if err != nil {
		t.Fatal(err)
	}
	b.ref = ref
	return b
}

// connect opens generation gen on a fresh wire.
func (b *bench) connect(gen uint64, answer func(w *wire, s sent)) *wire {
	w := &wire{answer: answer}
	b.Open(gen, w)
	b.Ready()
	return w
}

func (b *bench) result(gen uint64, id mcp.ID, result string) {
	b.Deliver(gen, &mcp.Message{Kind: mcp.KindResult, ID: id, Result: []byte(result)})
}

func (b *bench) progress(gen uint64, token mcp.ID, done float64) {
	b.Progress(gen, &mcp.ProgressParams{ProgressToken: token, Progress: done})
}

// echo answers each request at once with its own text.
func (b *bench) echo(gen uint64) func(*wire, sent) {
	return func(_ *wire, s sent) { b.result(gen, s.ID, fmt.Sprintf(`{"echo":%q}`, s.Method)) }
}

func (b *bench) live() int { return b.sys.Census().Live(actors.KindCall) }
