package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

var errGone = errors.New("gone")

// Each way in which a call can end, and what the peer is told.
func TestOutcomes(t *testing.T) {
	peerSays := &mcp.Error{Code: mcp.CodeInvalidParams, Message: "no"}
	tests := []struct {
		name     string
		method   string
		idle     time.Duration
		ctx      time.Duration
		answer   func(b *bench, id mcp.ID)
		want     error
		after    time.Duration
		withdraw bool
	}{
		{name: "result", answer: func(b *bench, id mcp.ID) { b.result(1, id, `{}`) }},
		{name: "error of the peer", want: peerSays, answer: func(b *bench, id mcp.ID) {
			b.Deliver(1, &mcp.Message{Kind: mcp.KindError, ID: id, Error: peerSays})
		}},
		{name: "silence", want: call.ErrTimeout, after: time.Minute, withdraw: true},                      // TIME-01, TIME-04
		{name: "own limit", idle: time.Second, want: call.ErrTimeout, after: time.Second, withdraw: true}, // TIME-02
		{name: "no limit", idle: -1, want: call.ErrTimeout, after: 10 * time.Minute, withdraw: true},      // the hard maximum holds
		{name: "initialize", method: mcp.MethodInitialize, want: call.ErrTimeout, after: time.Minute},     // CANC-04
		{name: "context", ctx: time.Second, want: context.DeadlineExceeded, after: time.Second, withdraw: true},
		{name: "lost", want: errGone, answer: func(b *bench, _ mcp.ID) { b.Lost(1, errGone) }},
		{name: "answer with another id", want: call.ErrTimeout, after: time.Minute, withdraw: true, // BASE-02, BASE-15
			answer: func(b *bench, id mcp.ID) { b.result(1, mcp.StringID(id.String()), `{}`) }},
		{name: "answer of an older generation", want: call.ErrTimeout, after: time.Minute, withdraw: true,
			answer: func(b *bench, id mcp.ID) { b.result(7, id, `{}`) }},
		{name: "answered twice", answer: func(b *bench, id mcp.ID) { b.result(1, id, `{}`); b.result(1, id, `{"x":1}`) }},
		{name: "malformed", want: call.ErrInvalidResponse, answer: func(b *bench, id mcp.ID) {
			b.Malformed(1, id, errors.New("not an object")) // BASE-06
		}},
		{name: "unknown result type", want: call.ErrInvalidResponse, answer: func(b *bench, id mcp.ID) { // BASE-12
			b.Agree(1, mcp.V2026_07_28, nil)
			b.Deliver(1, &mcp.Message{Kind: mcp.KindResult, ID: id, Result: json.RawMessage(`{}`), ResultType: "dance"})
		}},
		{name: "result type in a legacy session", answer: func(b *bench, id mcp.ID) { // BASE-13
			b.Agree(1, mcp.V2025_11_25, nil)
			b.Deliver(1, &mcp.Message{Kind: mcp.KindResult, ID: id, Result: json.RawMessage(`{}`), ResultType: "dance"})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				w := b.connect(1, func(_ *wire, s sent) {
					if tt.answer != nil {
						tt.answer(b, s.ID)
					}
				})
				ctx := t.Context()
				if tt.ctx > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.ctx)
					defer cancel()
				}
				method := "tools/call"
				if tt.method != "" {
					method = tt.method
				}
				start := time.Now()
				_, err := b.Do(ctx, &call.Request{Method: method, Idle: tt.idle})
				if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
					t.Errorf("Do: got %v, want %v", err, tt.want)
				}
				if took := time.Since(start); took != tt.after {
					t.Errorf("Do took %v, want %v", took, tt.after)
				}
				synctest.Wait()
				want := []string{method}
				if tt.withdraw {
					want = append(want, mcp.NotificationCancelled)
				}
				if got := w.methods(); !slices.Equal(got, want) {
					t.Errorf("sent %v, want %v", got, want)
				}
				if tt.withdraw && w.all()[1].Params.RequestID != w.all()[0].ID { // CANC-01
					t.Errorf("withdrew %v, want %v", w.all()[1].Params.RequestID, w.all()[0].ID)
				}
				if n := b.Stats().Pending; n != 0 {
					t.Errorf("pending: got %d, want 0", n)
				}
			})
		})
	}
}

// PROG-01, PROG-08, TIME-03: progress keeps a call alive, up to its maximum.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		tokens := make(chan mcp.ID, 1)
		b.connect(1, func(_ *wire, s sent) { tokens <- s.Params.Meta.ProgressToken() })
		var got []float64
		go func() {
			token := <-tokens
			for i := range 100 {
				time.Sleep(47 * time.Second)
				b.progress(1, token, float64(i))
				b.progress(1, token, float64(i))             // not increasing
				b.progress(1, mcp.StringID("x"), float64(i)) // unknown
			}
		}()
		start := time.Now()
		_, err := b.Do(t.Context(), &call.Request{Method: "tools/call", OnProgress: func(p call.Progress) { got = append(got, p.Progress) }})
		var timeout *call.TimeoutError
		if !errors.As(err, &timeout) || timeout.Idle || timeout.After != call.DefaultMax {
			t.Errorf("Do: got %v, want the hard maximum", err)
		}
		if took := time.Since(start); took != call.DefaultMax {
			t.Errorf("Do took %v, want %v", took, call.DefaultMax)
		}
		if want := []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}; !slices.Equal(got, want) {
			t.Errorf("progress: got %v, want %v", got, want)
		}
		time.Sleep(time.Hour * 2)
		if n := b.Stats().DroppedProgress; n != 2*12+3*88 {
			t.Errorf("dropped progress: got %d", n)
		}
	})
}

func TestNoProgressTokenUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		w := b.connect(1, b.echo(1))
		if _, err := b.Do(t.Context(), &call.Request{Method: "tools/list"}); err != nil {
			t.Fatal(err)
		}
		if got := w.all()[0].Text; strings.Contains(got, "_meta") {
			t.Errorf("sent %s, want no _meta", got)
		}
	})
}

// A call without a connection waits for one, for as long as it may.
func TestWaitsForConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wanted atomic.Int32
		b := newTable(t, &call.Options{MaxWaiting: 1, Wanted: func() { wanted.Add(1) }})
		req := &call.Request{Method: "tools/call", Idle: time.Second}
		b.NotYet(errGone)
		_, err := b.Do(t.Context(), req)
		var timeout *call.TimeoutError
		if !errors.As(err, &timeout) || !timeout.Unsent || !errors.Is(err, errGone) {
			t.Errorf("Do: got %v, want a timeout that says why there was no connection", err)
		}
		first := b.Start(req, nil)
		synctest.Wait()
		if _, err := b.Do(t.Context(), req); !errors.Is(err, call.ErrBusy) {
			t.Errorf("a call beyond MaxWaiting: got %v, want %v", err, call.ErrBusy)
		}
		b.connect(1, b.echo(1))
		if res, err := first.Wait(t.Context()); err != nil || string(res.Raw) != `{"echo":"tools/call"}` {
			t.Errorf("the call that waited: got %s, %v", res.Raw, err)
		}
		if n := wanted.Load(); n != 2 {
			t.Errorf("Wanted was called %d times, want 2", n)
		}
		b.Lost(1, errGone)
		second := b.Start(req, nil)
		synctest.Wait()
		b.Unavailable(errGone)
		if _, err := second.Wait(t.Context()); !errors.Is(err, call.ErrConnectionLost) || !errors.Is(err, errGone) {
			t.Errorf("the call that waited in vain: got %v", err)
		}
		if _, err := b.Do(t.Context(), &call.Request{Method: mcp.MethodDiscover, Early: true}); !errors.Is(err, call.ErrConnectionLost) {
			t.Errorf("an early request: got %v, want it to end at once", err)
		}
	})
}

// A call of the negotiation whose actor is made too late ends at once: it has no
// time limit, and nobody would send it on another connection.
func TestEarlyCallWhoseConnectionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		w := &wire{}
		b.Open(1, w)
		busy := make(hold)
		b.ref.Send(busy)
		reply := b.Start(&call.Request{Method: mcp.MethodInitialize, Early: true, Idle: -1, Max: -1}, nil)
		b.Lost(1, errGone)
		close(busy)
		synctest.Wait()
		_, err := reply.Result()
		if lost, ok := errors.AsType[*call.LostError](err); !ok || !lost.Unsent || !errors.Is(err, errGone) {
			t.Errorf("outcome: got %v, %v, want that it was lost unsent", reply.Completed(), err)
		}
		b.connect(2, nil)
		synctest.Wait()
		if got := w.methods(); len(got) != 0 || b.Stats().Pending != 0 || b.live() != 0 {
			t.Errorf("sent %v; %+v, %d actors, want nothing left", got, b.Stats(), b.live())
		}
	})
}

// What an older negotiation still says does not change the connection of today.
func TestAgreeOfAnOlderGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		b.connect(1, nil)
		b.Lost(1, errGone)
		w := b.connect(2, b.echo(2))
		b.Agree(2, mcp.V2026_07_28, []byte(`"v":2`))
		b.Agree(1, "", nil)
		if _, err := b.Do(t.Context(), &call.Request{Method: "m"}); err != nil {
			t.Fatal(err)
		}
		if got, want := w.all()[0].Text, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"v":2}}}`; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	})
}

// A safe request is sent again on the next connection, with another id each time
// (BASE-04), and not for ever.
func TestSafeRequestIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		safe := b.Start(&call.Request{Method: "tools/list", Safe: true}, nil)
		unsafe := b.Start(&call.Request{Method: "tools/call"}, nil)
		synctest.Wait()
		var ids []mcp.ID
		for gen := range uint64(5) {
			w := b.connect(gen+1, nil)
			synctest.Wait()
			for _, s := range w.all() {
				if slices.Contains(ids, s.ID) {
					t.Errorf("id %v was used again", s.ID)
				}
				ids = append(ids, s.ID)
			}
			b.Lost(gen+1, errGone)
		}
		for name, r := range map[string]*call.Call{"safe": safe, "unsafe": unsafe} {
			if _, err := r.Wait(t.Context()); !errors.Is(err, call.ErrConnectionLost) || !errors.Is(err, errGone) {
				t.Errorf("%s: got %v, want the connection lost", name, err)
			}
		}
		if len(ids) != 4 { // three attempts and one
			t.Errorf("sent %d requests, want 4", len(ids))
		}
		if n := b.Stats().Resent; n != 2 {
			t.Errorf("resent: got %d, want 2", n)
		}
	})
}

// What the transport refuses was not sent, so any call may wait for the next one.
func TestUnsentIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		b.Open(1, &wire{err: errGone})
		b.Ready()
		r := b.Start(&call.Request{Method: "tools/call"}, nil)
		synctest.Wait()
		b.Lost(1, errGone)
		b.connect(2, b.echo(2))
		if _, err := r.Wait(t.Context()); err != nil {
			t.Errorf("got %v, want a result", err)
		}
		b.Open(3, &wire{err: call.ErrBusy})
		b.Ready()
		if _, err := b.Do(t.Context(), &call.Request{Method: "tools/call"}); !errors.Is(err, call.ErrBusy) {
			t.Errorf("a full transport: got %v, want %v", err, call.ErrBusy)
		}
	})
}

// gate is a link whose Send waits, and then returns what comes.
type gate chan error

func (g gate) Send(m mcp.Outgoing) error {
	if m.Kind == mcp.KindRequest {
		return <-g
	}
	return nil
}

func (g gate) Close() error { return nil }

// The connection is lost while a request is being written: whether it was decides if it is sent again.
func TestLostWhileWriting(t *testing.T) {
	for name, refused := range map[string]error{"written": nil, "not written": errGone} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				g := make(gate)
				b.Open(1, g)
				b.Ready()
				reply := make(chan error, 1)
				go func() {
					_, err := b.Do(t.Context(), &call.Request{Method: "tools/call"})
					reply <- err
				}()
				synctest.Wait()
				b.Lost(1, errGone)
				synctest.Wait()
				if len(reply) > 0 {
					t.Fatalf("the call has ended while its request is written: %v", <-reply)
				}
				g <- refused
				synctest.Wait()
				w := b.connect(2, b.echo(2))
				synctest.Wait()
				err := <-reply
				if lost, ok := errors.AsType[*call.LostError](err); refused == nil && (!ok || lost.Unsent || len(w.all()) != 0) {
					t.Errorf("a request that may have been carried out: got %v, and %v was sent again", err, w.methods())
				}
				if refused != nil && (err != nil || len(w.all()) != 1) {
					t.Errorf("a request that was not sent: got %v, and %v on the next connection", err, w.methods())
				}
			})
		})
	}
}

// Killing a call's actor concerns its caller alone, and the peer is told.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refs []actors.Ref
		sys, err := actors.NewSystem(&actors.Options{Trace: func(ev actors.TraceEvent) {
			if ev.Actor.Kind() == actors.KindCall && !slices.Contains(refs, ev.Actor) {
				refs = append(refs, ev.Actor)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{Table: call.NewTable(sys, nil), sys: sys}
		b.parent = &parent{table: b.Table}
		if _, err := sys.Spawn(actors.Spec{Kind: actors.KindClient, New: func() actors.Actor { return b.parent }}); err != nil {
			t.Fatal(err)
		}
		w := b.connect(1, nil)
		var replies [2]*call.Call
		for i := range replies {
			replies[i] = b.Start(&call.Request{Method: "tools/call"}, nil)
			synctest.Wait()
		}
		refs[0].Stop()
		if _, err := replies[0].Wait(t.Context()); !errors.Is(err, actors.ErrStopped) {
			t.Errorf("the killed call: got %v, want %v", err, actors.ErrStopped)
		}
		synctest.Wait()
		if replies[1].Completed() {
			t.Error("its sibling ended too")
		}
		last := w.all()[len(w.all())-1]
		if last.Method != mcp.NotificationCancelled || last.Params.RequestID != w.all()[0].ID {
			t.Errorf("on the wire: got %s, want the cancellation of %v", last.Text, w.all()[0].ID)
		}
		b.result(1, w.all()[1].ID, `{}`)
		if _, err := replies[1].Wait(t.Context()); err != nil {
			t.Errorf("its sibling: got %v, want a result", err)
		}
		// The next call gets another actor.
		next := b.Start(&call.Request{Method: "tools/call"}, nil)
		synctest.Wait()
		if err := sys.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := next.Wait(t.Context()); !errors.Is(err, call.ErrClosed) {
			t.Errorf("a call at the shutdown: got %v, want %v", err, call.ErrClosed)
		}
		time.Sleep(time.Second)
	})
}

// restartable does not close its table when it stops.
type restartable struct{ table *call.Table }

func (p *restartable) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		p.table.Bind(c.Self())
	case actors.Stopping:
		p.table.Unbind(m.Err)
	case blow:
		panic(errGone)
	}
}

// A connection that fails takes its calls with it, and works again afterwards.
func TestFailureOfTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t, nil)
		b := &bench{Table: call.NewTable(sys, nil), sys: sys}
		ref, err := sys.Spawn(actors.Spec{Kind: actors.KindClient, New: func() actors.Actor { return &restartable{b.Table} }})
		if err != nil {
			t.Fatal(err)
		}
		b.connect(1, nil)
		r := b.Start(&call.Request{Method: "tools/call"}, nil)
		synctest.Wait()
		ref.Send(blow{})
		if _, err := r.Wait(t.Context()); !errors.Is(err, call.ErrConnectionLost) || !errors.Is(err, errGone) {
			t.Errorf("got %v, want the connection lost because of its failure", err)
		}
		time.Sleep(time.Second) // the restart
		b.connect(2, b.echo(2))
		if _, err := b.Do(t.Context(), &call.Request{Method: "ping"}); err != nil {
			t.Errorf("after the restart: got %v", err)
		}
	})
}

// Limits, draining and closing.
func TestLimitAndDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, &call.Options{Limit: 2})
		w := b.connect(1, nil)
		var replies [3]*call.Call
		for i := range replies {
			replies[i] = b.Start(&call.Request{Method: "tools/call"}, nil)
			synctest.Wait() // their order on the wire
		}
		if _, err := replies[2].Wait(t.Context()); !errors.Is(err, call.ErrBusy) {
			t.Errorf("beyond the limit: got %v, want %v", err, call.ErrBusy)
		}
		synctest.Wait()
		b.Drain(func() { close(b.parent.drained) })
		if _, err := b.Do(t.Context(), &call.Request{Method: "ping"}); !errors.Is(err, call.ErrClosed) {
			t.Errorf("while draining: got %v, want %v", err, call.ErrClosed)
		}
		b.result(1, w.all()[0].ID, `{}`)
		synctest.Wait()
		select {
		case <-b.parent.drained:
			t.Error("drained with a call pending")
		default:
		}
		b.Close(call.ErrClosed)
		<-b.parent.drained
		if _, err := replies[0].Wait(t.Context()); err != nil {
			t.Errorf("the call that was answered: got %v", err)
		}
		if _, err := replies[1].Wait(t.Context()); !errors.Is(err, call.ErrClosed) {
			t.Errorf("the call that was not: got %v, want %v", err, call.ErrClosed)
		}
		synctest.Wait()
		if got := w.methods(); !slices.Equal(got, []string{"tools/call", "tools/call", mcp.NotificationCancelled}) {
			t.Errorf("sent %v", got)
		}
	})
}

// Cancelling may come at any moment, also before the call has an actor.
func TestCancelBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t, nil)
		table := call.NewTable(sys, nil)
		r := table.Start(&call.Request{Method: "tools/call"}, nil) // there is no parent yet
		r.Cancel(errGone)
		r.Cancel(nil)
		if _, err := sys.Spawn(actors.Spec{Kind: actors.KindClient, New: func() actors.Actor { return &parent{table: table} }}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(t.Context()); !errors.Is(err, errGone) {
			t.Errorf("got %v, want %v", err, errGone)
		}
	})
}

// Idle actors are used again, and end when nobody needs them.
func TestActorsAreUsedAgainAndTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		b.connect(1, b.echo(1))
		for range 100 {
			if _, err := b.Do(t.Context(), &call.Request{Method: "ping"}); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.sys.Census().Actors[actors.KindCall].Spawned; n != 1 {
			t.Errorf("spawned %d actors for calls that came one by one, want 1", n)
		}
		time.Sleep(11 * time.Second)
		if b.live() != 0 {
			t.Errorf("live: got %d, want 0", b.live())
		}
	})
}

func TestEncoding(t *testing.T) {
	tests := []struct {
		name    string
		req     call.Request
		members string
		want    string
	}{
		{"plain", call.Request{Method: "m"}, "", `{"jsonrpc":"2.0","id":1,"method":"m"}`},
		{"params", call.Request{Method: "m", Params: json.RawMessage(`{"a":1}`)}, "", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`},
		{"members", call.Request{Method: "m"}, `"v":1`, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"v":1}}}`},
		{"members and params", call.Request{Method: "m", Params: json.RawMessage(` { "a":1}`)}, `"v":1`, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"v":1},"a":1}}`},
		{"empty params", call.Request{Method: "m", Params: json.RawMessage(`{ }`)}, `"v":1`, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"v":1}}}`},
		{"own meta", call.Request{Method: "m", Meta: mcp.Meta{"a/b": json.RawMessage(`2`), mcp.MetaProgressToken: json.RawMessage(`9`)}}, `"v":1`,
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"v":1,"a/b":2}}}`},
		{"token", call.Request{Method: "m", OnProgress: func(call.Progress) {}}, `"v":1`,
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"v":1,"progressToken":1}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				w := b.connect(1, b.echo(1))
				b.Agree(1, mcp.V2025_11_25, []byte(tt.members))
				if _, err := b.Do(t.Context(), &tt.req); err != nil {
					t.Fatal(err)
				}
				if got := w.all()[0].Text; got != tt.want {
					t.Errorf("sent %s, want %s", got, tt.want)
				}
			})
		})
	}
	for _, params := range []string{`[]`, `{`} {
		synctest.Test(t, func(t *testing.T) {
			b := newTable(t, nil)
			b.connect(1, b.echo(1))
			b.Agree(1, mcp.V2025_11_25, []byte(`"v":1`))
			if _, err := b.Do(t.Context(), &call.Request{Method: "m", Params: json.RawMessage(params)}); err == nil {
				t.Errorf("params %s: got no error", params)
			}
		})
	}
}
