package conn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// SHL-13: a message is known to belong to the request on whose stream it came, also
// one that came early or in a batch; progress is passed on after its call has it.
func TestRelated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		p.negotiate = func(_ context.Context, s *conn.Session) error {
			s.Agree(mcp.V2025_03_26, nil)
			return nil
		}
		var got []string
		k := conn.New(newSystem(t), conn.Options{
			Name: "peer", Negotiate: p.Negotiate,
			Dial: func(ctx context.Context, gen uint64, sink mcp.Sink) (mcp.Link, error) {
				sink.(mcp.CallSink).FrameOf(mcp.IntID(7), []byte(`{"jsonrpc":"2.0","method":"early"}`))
				return p.Dial(ctx, gen, sink)
			},
			Received: func(_ *conn.Session, m *mcp.Message, related mcp.ID) {
				got = append(got, m.Method+" "+related.String())
			},
		})
		if err := k.StartConnect(t.Context()); err != nil {
			t.Fatal(err)
		}
		sink := p.last().sink.(mcp.CallSink)
		sink.FrameOf(mcp.IntID(8), []byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]`))
		sink.FrameOf(mcp.StringID("x"), []byte(`{"jsonrpc":"2.0","id":1,"method":"ask"}`))
		sink.FrameOf(mcp.IntID(9), []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`))
		sink.FrameOf(mcp.IntID(9), []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`)) // PROG-08
		sink.Frame([]byte(`{"jsonrpc":"2.0","method":"last"}`))
		want := []string{
			"early 7", "a 8", "b 8", "ask " + mcp.StringID("x").String(), "notifications/progress 9", "last " + mcp.ID{}.String(),
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// One request may fail while the connection, and every other request, goes on.
func TestOneRequestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{answer: func(l *link, m mcp.Outgoing) {
			if m.Name == "bad" {
				l.sink.(mcp.CallSink).Failed(m.ID, &call.TransportError{Method: m.Method, Status: 500})
			} else {
				l.result(m.ID)
			}
		}}
		b := connect(t, p, conn.Options{})
		_, err := b.Do(t.Context(), &call.Request{Method: "tools/call", Name: "bad"})
		if e, ok := errors.AsType[*call.TransportError](err); !ok || e.Status != 500 {
			t.Errorf("Do: got %v, want the transport's error", err)
		}
		if _, err := b.Do(t.Context(), ping); err != nil || b.Status().Generation != 1 {
			t.Errorf("the next call: %v on generation %d, want none on 1", err, b.Status().Generation)
		}
	})
}

// question is a request of the peer whose handler waits for its end.
type question struct {
	inbound.Call
	handle func(ctx context.Context) error
	answer func(err error)
}

func (q *question) Handle(ctx context.Context) error { return q.handle(ctx) }
func (q *question) Answer(err error)                 { q.answer(err) }

// The peer's requests are actors of their generation: they end with it, and a panic
// in one ends that one alone.
func TestInbound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		var mu sync.Mutex
		outcomes := map[string]error{}
		var sessions []*conn.Session
		var sys *actors.System
		opts := conn.Options{
			Inbound: &inbound.Options{Limit: 3},
			Received: func(s *conn.Session, m *mcp.Message, _ mcp.ID) {
				id, method := m.ID, m.Method
				q := &question{answer: func(err error) {
					mu.Lock()
					defer mu.Unlock()
					outcomes[method+id.String()] = err
				}}
				q.handle = func(ctx context.Context) error {
					switch method {
					case "panic":
						panic("boo")
					case "quick":
						return nil
					}
					<-ctx.Done()
					return context.Cause(ctx)
				}
				sys.Go("handler", func() {
					if err := s.Inbound().Serve(&q.Call, q, inbound.Request{ID: id, Method: method}); err != nil {
						q.answer(err)
					}
				})
				mu.Lock()
				defer mu.Unlock()
				sessions = append(sessions, s)
			},
		}
		sys = newSystem(t)
		opts.Name, opts.Dial, opts.Negotiate = "peer", p.Dial, p.Negotiate
		k := conn.New(sys, opts)
		if err := k.StartConnect(t.Context()); err != nil {
			t.Fatal(err)
		}
		ask := func(id int, method string) {
			p.last().sink.Frame(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method))
			synctest.Wait()
		}
		ask(1, "slow")
		ask(2, "quick")
		ask(3, "panic")
		ask(4, "slow")
		ask(5, "quick") // leaves an idle actor
		if n := sys.Census().Live(actors.KindInbound); n != 3 {
			t.Errorf("inbound actors: got %d, want 2 that work and an idle one", n)
		}
		p.last().cut(errRefused)
		synctest.Wait()
		time.Sleep(100 * time.Millisecond) // the reconnect; nothing is left of before
		if n := sys.Census().Live(actors.KindInbound); n != 0 {
			t.Errorf("inbound actors of a generation that is over: got %d, want 0", n)
		}
		time.Sleep(time.Second)
		if k.Status().State != conn.Ready {
			t.Fatalf("state: got %v, want ready", k.Status().State)
		}
		ask(1, "slow") // a table of its own: the id is free
		ask(5, "quick")
		mu.Lock()
		for key, want := range map[string]error{
			"slow1": conn.ErrGenerationOver, "slow4": conn.ErrGenerationOver, "quick2": nil, "quick5": nil,
		} {
			if err, has := outcomes[key]; !has || !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("outcome of %s: got %v (%v), want %v", key, err, has, want)
			}
		}
		if !actors.Panicked(outcomes["panic3"]) {
			t.Errorf("outcome of the panic: got %v", outcomes["panic3"])
		}
		clear(outcomes)
		first, last := sessions[0], sessions[len(sessions)-1]
		mu.Unlock()
		if first.Inbound() == last.Inbound() || last.Inbound().Listed() != 1 {
			t.Errorf("the second generation: %d, want one in flight", last.Inbound().Listed())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = k.Close(ctx)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if err := outcomes["slow1"]; !errors.Is(err, conn.ErrGenerationOver) {
			t.Errorf("after Close: got %v, want %v", err, conn.ErrGenerationOver)
		}
	})
}

// A child of the connection outlives its transports, and ends with it.
func TestSpawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		sys := newSystem(t)
		k := conn.New(sys, conn.Options{Name: "peer", Dial: p.Dial, Negotiate: p.Negotiate})
		spec := actors.Spec{Kind: actors.KindSubscription, New: func() actors.Actor {
			return actors.ReceiveFunc(func(*actors.Context, any) {})
		}}
		if _, err := k.Spawn(spec); !errors.Is(err, conn.ErrNotReady) {
			t.Errorf("before Start: got %v, want %v", err, conn.ErrNotReady)
		}
		if err := k.StartConnect(t.Context()); err != nil {
			t.Fatal(err)
		}
		var later actors.Ref
		k.SpawnChild(spec, func(ref actors.Ref, err error) { later = ref })
		ref, err := k.Spawn(spec)
		if err != nil {
			t.Fatal(err)
		}
		p.last().cut(errRefused)
		time.Sleep(time.Minute)
		if !ref.Alive() || !later.Alive() || k.Status().Generation != 2 {
			t.Errorf("after a reconnect: alive %v and %v on generation %d", ref.Alive(), later.Alive(), k.Status().Generation)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ref.Alive() || later.Alive() {
			t.Error("a child outlived the connection")
		}
		if _, err := k.Spawn(spec); !errors.Is(err, call.ErrClosed) {
			t.Errorf("after Close: got %v, want %v", err, call.ErrClosed)
		}
	})
}

// TIME-05: what the connection holds still is the current generation's.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{answer: func(*link, mcp.Outgoing) {}}
		b := connect(t, p, conn.Options{Lazy: true})
		b.Hold(mcp.ID{})() // before there is anything
		if out := b.Out(); len(out) != 0 {
			t.Errorf("Out: got %v", out)
		}
		go func() {
			time.Sleep(time.Second)
			release := b.Hold(b.Out()[0].ID)
			time.Sleep(time.Hour)
			release()
		}()
		start := time.Now()
		_, err := b.Do(t.Context(), &call.Request{Method: "tools/call", Tag: "mine"})
		if took := time.Since(start); !errors.Is(err, call.ErrTimeout) || took != time.Hour+time.Minute {
			t.Errorf("Do: got %v after %v, want a timeout after 1h1m", err, took)
		}
	})
}

// PING-02: a peer that gives no sign of life is given up, and one that does is not.
func TestPing(t *testing.T) {
	dead := func(ctx context.Context, _ *conn.Session) error { <-ctx.Done(); return context.Cause(ctx) }
	tests := []struct {
		name   string
		ping   func(ctx context.Context, s *conn.Session) error
		modern bool
		misses int
		fails  bool
		pings  int // within 69 s, one each 10 s
	}{
		{name: "answered", ping: func(context.Context, *conn.Session) error { return nil }, pings: 6},
		{name: "refused", ping: func(context.Context, *conn.Session) error { return mcp.ErrMethodNotFound }, pings: 6},
		{name: "dead", ping: dead, fails: true, pings: 2},
		{name: "dead, patient", ping: dead, misses: 4, fails: true, pings: 4},
		{name: "panics", ping: func(context.Context, *conn.Session) error { panic("boo") }, fails: true, pings: 2},
		{name: "modern", ping: dead, modern: true}, // PING-03
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &peer{}
				if tt.modern {
					p.negotiate = func(_ context.Context, s *conn.Session) error {
						s.Agree(mcp.V2026_07_28, nil)
						return nil
					}
				}
				pings := 0
				opts := conn.Options{
					PingEvery: 10 * time.Second, PingTimeout: 2 * time.Second, PingMisses: tt.misses,
					Ping: func(ctx context.Context, s *conn.Session) error {
						if s.Generation() == 1 {
							pings++
						}
						return tt.ping(ctx, s)
					},
				}
				b := connect(t, p, opts)
				if err := b.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(9 * time.Second)
				if tasks := b.sys.Census().Tasks; len(tasks) != 0 {
					t.Errorf("between two pings there are tasks: %v", tasks)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if fails := b.Status().Generation > 1; fails != tt.fails || pings != tt.pings {
					t.Errorf("got generation %d after %d pings, want a failure %v after %d", b.Status().Generation, pings, tt.fails, tt.pings)
				}
			})
		})
	}
}

// The error of a connection without a sign of life says so.
func TestPingError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		var failure error
		sys := newSystem(t)
		k := conn.New(sys, conn.Options{
			Name: "peer", Dial: p.Dial, Negotiate: p.Negotiate, PingEvery: time.Second,
			Ping: func(ctx context.Context, _ *conn.Session) error { <-ctx.Done(); return context.Cause(ctx) },
			OnStatus: func(s conn.Status) {
				if s.State == conn.Backoff && failure == nil {
					failure = s.Err
				}
			},
		})
		if err := k.StartConnect(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if !errors.Is(failure, conn.ErrNoPing) || !strings.Contains(failure.Error(), "2 pings within 10s") || !errors.Is(failure, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrNoPing after 2 misses of 10 s", failure)
		}
		if err := k.Close(t.Context()); err != nil { // a ping may be under way
			t.Error(err)
		}
	})
}

// Somebody who can not wait for the end of a pause asks for an attempt.
func TestRetryNow(t *testing.T) {
	for _, permanent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := &peer{dial: func(context.Context, uint64) error {
				if permanent {
					return conn.Permanent(errRefused)
				}
				return errRefused
			}}
			b := connect(t, p, conn.Options{MinBackoff: time.Hour, MaxBackoff: time.Hour})
			synctest.Wait()
			p.change(func() { p.dial = nil })
			b.Retry()
			synctest.Wait()
			b.Retry() // does nothing
			synctest.Wait()
			if s := b.Status(); s.State != conn.Ready || s.Generation != 2 {
				t.Errorf("permanent %v: got %v on generation %d, want ready on 2", permanent, s.State, s.Generation)
			}
		})
	}
}
