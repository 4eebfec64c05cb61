package conn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

var errRefused = errors.New("refused")

// newSystem returns a system that is shut down, with nothing left, when the test ends.
func newSystem(t testing.TB) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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

// peer is what is at the other end: it makes links and answers requests.
type peer struct {
	dial      func(ctx context.Context, gen uint64) error // before a link is there
	negotiate func(ctx context.Context, s *conn.Session) error
	answer    func(l *link, m mcp.Outgoing) // nil answers at once
	closing   time.Duration                 // how long a link takes to close

	mu     sync.Mutex
	links  []*link
	dials  []time.Duration // when, from the first on
	first  time.Time
	closed int
}

type link struct {
	peer *peer
	sink mcp.Sink
	once sync.Once
	over chan struct{}
}

func (p *peer) Dial(ctx context.Context, gen uint64, sink mcp.Sink) (mcp.Link, error) {
	p.mu.Lock()
	if p.first.IsZero() {
		p.first = time.Now()
	}
	p.dials = append(p.dials, time.Since(p.first))
	dial := p.dial
	p.mu.Unlock()
	if dial != nil {
		if err := dial(ctx, gen); err != nil {
			return nil, err
		}
	}
	l := &link{peer: p, sink: sink, over: make(chan struct{})}
	p.mu.Lock()
	p.links = append(p.links, l)
	p.mu.Unlock()
	return l, nil
}

func (p *peer) Negotiate(ctx context.Context, s *conn.Session) error {
	p.mu.Lock()
	negotiate := p.negotiate
	p.mu.Unlock()
	if negotiate != nil {
		return negotiate(ctx, s)
	}
	s.Agree(mcp.V2025_11_25, nil)
	return nil
}

// change changes the peer's behaviour.
func (p *peer) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *peer) last() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.links[len(p.links)-1]
}

func (l *link) Send(m mcp.Outgoing) error {
	select {
	case <-l.over:
		return errors.New("broken pipe")
	default:
	}
	if m.Kind == mcp.KindRequest {
		l.peer.mu.Lock()
		answer := l.peer.answer
		l.peer.mu.Unlock()
		if answer == nil {
			l.result(m.ID)
		} else {
			answer(l, m)
		}
	}
	return nil
}

func (l *link) result(id mcp.ID) { l.sink.Frame(mcp.AppendResult(nil, id, []byte(`{}`))) }

// cut ends the link from the peer's side.
func (l *link) cut(err error) {
	l.once.Do(func() {
		close(l.over)
		l.sink.Lost(err)
	})
}

func (l *link) Close() error {
	time.Sleep(l.peer.closing)
	l.peer.mu.Lock()
	l.peer.closed++
	l.peer.mu.Unlock()
	l.cut(nil)
	return nil
}

// bench is a connection to a peer, with the states it went through.
type bench struct {
	*conn.Conn
	sys *actors.System

	mu     sync.Mutex
	states []conn.State
}

func connect(t testing.TB, p *peer, opts conn.Options) *bench {
	t.Helper()
	b := &bench{sys: newSystem(t)}
	opts.Name, opts.Dial, opts.Negotiate = "peer", p.Dial, p.Negotiate
	opts.OnStatus = func(s conn.Status) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.states = append(b.states, s.State)
	}
	b.Conn = conn.New(b.sys, opts)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) seen() []conn.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.states)
}

func (b *bench) want(t *testing.T, want ...conn.State) {
	t.Helper()
	if got := b.seen(); !slices.Equal(got, want) {
		t.Errorf("states: got %v, want %v", got, want)
	}
}

var ping = &call.Request{Method: mcp.MethodPing}

func TestLifeOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		b := connect(t, p, conn.Options{})
		if err := b.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Do(t.Context(), ping); err != nil {
			t.Error(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		b.want(t, conn.Dialing, conn.Negotiating, conn.Ready, conn.Closing)
		if s := b.Status(); s.State != conn.Closed || p.closed != 1 {
			t.Errorf("after Close: got %v and %d closed links", s.State, p.closed)
		}
		if _, err := b.Do(t.Context(), ping); !errors.Is(err, call.ErrClosed) {
			t.Errorf("a call after Close: got %v, want %v", err, call.ErrClosed)
		}
		if err := b.Connect(t.Context()); err == nil {
			t.Error("Connect after Close: got no error")
		}
	})
}

func TestLazy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		b := connect(t, p, conn.Options{Lazy: true})
		time.Sleep(time.Minute)
		b.want(t, conn.Idle)
		if _, err := b.Do(t.Context(), ping); err != nil {
			t.Error(err)
		}
		p.last().cut(errRefused)
		time.Sleep(time.Minute)
		b.want(t, conn.Idle, conn.Dialing, conn.Negotiating, conn.Ready, conn.Backoff, conn.Idle)
	})
}

// Delays double, have jitter and a bound; a peer that is never stable gets no quick ones.
func TestBackoff(t *testing.T) {
	for name, p := range map[string]*peer{
		"refuses the dial":       {dial: func(context.Context, uint64) error { return errRefused }},
		"refuses to agree":       {negotiate: func(context.Context, *conn.Session) error { return errRefused }},
		"dies when it was ready": {},
		"panics":                 {dial: func(context.Context, uint64) error { panic("dial") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if p.dial == nil && p.negotiate == nil {
					p.negotiate = func(_ context.Context, s *conn.Session) error {
						s.Agree(mcp.V2025_11_25, nil)
						l := p.last()
						time.AfterFunc(time.Millisecond, func() { l.cut(errRefused) })
						return nil
					}
				}
				b := connect(t, p, conn.Options{})
				time.Sleep(10 * time.Minute)
				p.mu.Lock()
				defer p.mu.Unlock()
				if n := len(p.dials); n < 20 || n > 60 {
					t.Errorf("%d dials in 10 minutes, want about 30", n)
				}
				for i := 1; i < len(p.dials); i++ {
					gap := p.dials[i] - p.dials[i-1]
					if i > 12 && (gap < 14*time.Second || gap > 46*time.Second) {
						t.Errorf("pause %d: got %v, want 30 s with jitter", i, gap)
					}
				}
				if s := b.Status(); s.Err == nil || s.Failures != len(p.dials) && s.Failures != len(p.dials)-1 {
					t.Errorf("status: got %+v after %d dials", s, len(p.dials))
				}
			})
		})
	}
}

// A connection that has held starts anew without the long delays of its past.
func TestBackoffStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{dial: func(context.Context, uint64) error { return errRefused }}
		b := connect(t, p, conn.Options{})
		time.Sleep(5 * time.Minute)
		p.change(func() { p.dial = nil })
		time.Sleep(5 * time.Minute)
		if b.Status().State != conn.Ready {
			t.Fatalf("state: got %v, want ready", b.Status().State)
		}
		before := time.Now()
		p.last().cut(nil)
		if _, err := b.Do(t.Context(), ping); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took > time.Second {
			t.Errorf("the reconnect took %v, want the first delay again", took)
		}
	})
}

// Permanent failures are tried again on demand only; each demand is one attempt.
func TestPermanentFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{dial: func(context.Context, uint64) error { return conn.Permanent(errRefused) }}
		b := connect(t, p, conn.Options{})
		time.Sleep(time.Hour)
		b.want(t, conn.Dialing, conn.Failed)
		start := time.Now()
		if _, err := b.Do(t.Context(), ping); !errors.Is(err, errRefused) || !errors.Is(err, call.ErrConnectionLost) {
			t.Errorf("Do: got %v", err)
		}
		if err := b.Connect(t.Context()); !errors.Is(err, errRefused) {
			t.Errorf("Connect: got %v", err)
		}
		if len(p.dials) != 3 || time.Since(start) != 0 {
			t.Errorf("%d dials and %v, want 3 at once", len(p.dials), time.Since(start))
		}
	})
}

// After a failure that a login ends, the connection makes no attempt before the login, however many
// callers ask for one; after the login it is made. A wait that ends in another way leaves the
// connection failed. The end of the connection ends the wait.
func TestUnauthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{dial: func(context.Context, uint64) error { return conn.Permanent(errRefused) }}
		var resumes []func(error)
		left := 0
		b := connect(t, p, conn.Options{Await: func(err error, resume func(error)) func() {
			if !errors.Is(err, errRefused) {
				t.Errorf("Await: got %v", err)
			}
			resumes = append(resumes, resume)
			return func() { left++ }
		}})
		time.Sleep(time.Hour)
		b.want(t, conn.Dialing, conn.Unauthorized)
		for range 10 {
			if _, err := b.Do(t.Context(), ping); !errors.Is(err, errRefused) {
				t.Errorf("Do: got %v", err)
			}
			if err := b.Connect(t.Context()); !errors.Is(err, errRefused) {
				t.Errorf("Connect: got %v", err)
			}
		}
		if len(p.dials) != 1 || b.Status().Failures != 0 {
			t.Errorf("%d dials, status %+v, want one dial", len(p.dials), b.Status())
		}
		resumes[0](errors.New("no person"))
		synctest.Wait()
		b.want(t, conn.Dialing, conn.Unauthorized, conn.Failed)
		if err := b.Connect(t.Context()); !errors.Is(err, errRefused) || len(p.dials) != 2 {
			t.Errorf("Connect: got %v after %d dials", err, len(p.dials))
		}
		b.Retry()
		synctest.Wait()
		resumes[1](nil) // of an attempt that is over
		synctest.Wait()
		if len(p.dials) != 3 || left != 1 {
			t.Errorf("%d dials, %d waits given up", len(p.dials), left)
		}
		p.change(func() { p.dial = nil })
		resumes[2](nil)
		synctest.Wait()
		if state := b.Status().State; state != conn.Ready {
			t.Errorf("after the login: %v", state)
		}
		p.change(func() { p.dial = func(context.Context, uint64) error { return conn.Permanent(errRefused) } })
		p.last().cut(nil)
		time.Sleep(time.Minute)
		if err := b.Close(t.Context()); err != nil || left != 2 {
			t.Errorf("Close: %v, %d waits given up", err, left)
		}
	})
}

// Calls that wait share one reconnect, and end when the peer seems not to come back.
func TestWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := make(chan struct{})
		p := &peer{dial: func(ctx context.Context, _ uint64) error {
			select {
			case <-up:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}
		b := connect(t, p, conn.Options{})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := b.Do(t.Context(), ping); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		close(up)
		wg.Wait()
		if len(p.dials) != 1 {
			t.Errorf("%d dials for a hundred calls, want 1", len(p.dials))
		}
		p.change(func() { p.dial = func(context.Context, uint64) error { return errRefused } })
		p.last().cut(errRefused)
		start := time.Now()
		if _, err := b.Do(t.Context(), ping); !errors.Is(err, errRefused) {
			t.Errorf("Do: got %v, want %v", err, errRefused)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("a call waited %v for a peer that is gone", took)
		}
	})
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{dial: func(ctx context.Context, _ uint64) error { <-ctx.Done(); return context.Cause(ctx) }}
		b := connect(t, p, conn.Options{ConnectTimeout: 10 * time.Second})
		start := time.Now()
		if err := b.Connect(t.Context()); !errors.Is(err, conn.ErrConnectTimeout) || time.Since(start) != 10*time.Second {
			t.Errorf("a silent dial: got %v after %v", err, time.Since(start))
		}
		p.change(func() {
			p.dial = nil
			p.negotiate = func(ctx context.Context, s *conn.Session) error {
				_, err := s.Do(ctx, &call.Request{Method: mcp.MethodInitialize})
				return err
			}
			p.answer = func(*link, mcp.Outgoing) {}
		})
		time.Sleep(time.Minute)
		if s := b.Status(); !errors.Is(s.Err, conn.ErrConnectTimeout) {
			t.Errorf("a silent negotiation: got %v", s.Err)
		}
	})
}

// Redial asks for a fresh transport at once, a few times at most.
func TestRedial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{negotiate: func(context.Context, *conn.Session) error { return conn.Redial(errRefused) }}
		connect(t, p, conn.Options{})
		synctest.Wait()
		if len(p.dials) != 4 {
			t.Errorf("%d dials at once, want 4", len(p.dials))
		}
		if p.closed != 4 {
			t.Errorf("%d links were closed, want 4", p.closed)
		}
	})
}

// Close lets calls end, until its context does.
func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{closing: 3 * time.Second}
		p.answer = func(l *link, m mcp.Outgoing) {
			if m.Method == "slow" {
				time.AfterFunc(time.Second, func() { l.result(m.ID) })
			}
		}
		b := connect(t, p, conn.Options{})
		if err := b.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		slow := b.Begin(&call.Request{Method: "slow"}, nil)
		stuck := b.Begin(&call.Request{Method: "stuck"}, nil)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		if err := b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: got %v, want the deadline", err)
		}
		if took := time.Since(start); took != 13*time.Second {
			t.Errorf("Close took %v, want its deadline and the closing of the transport", took)
		}
		if _, err := slow.Result(); err != nil || !slow.Completed() {
			t.Errorf("a call that ends in time: got %v", err)
		}
		if _, err := stuck.Result(); !errors.Is(err, call.ErrClosed) {
			t.Errorf("a call that does not: got %v, want %v", err, call.ErrClosed)
		}
	})
}

// A crash of the actor ends the calls that were out, and the connection comes back.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{answer: func(l *link, m mcp.Outgoing) {
			if m.Method == mcp.MethodPing {
				l.result(m.ID)
			}
		}}
		var crash atomic.Bool
		b := &bench{sys: newSystem(t)}
		b.Conn = conn.New(b.sys, conn.Options{Name: "peer", Dial: p.Dial, Negotiate: p.Negotiate, OnStatus: func(s conn.Status) {
			if s.State == conn.Backoff && crash.Swap(false) {
				panic(errRefused)
			}
		}})
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		if err := b.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := b.Begin(&call.Request{Method: "stuck"}, nil)
		synctest.Wait()
		crash.Store(true)
		p.last().cut(errRefused)
		if _, err := r.Wait(t.Context()); !errors.Is(err, call.ErrConnectionLost) {
			t.Errorf("the call: got %v", err)
		}
		time.Sleep(time.Second) // the delay of the restart
		if _, err := b.Do(t.Context(), ping); err != nil {
			t.Errorf("after the crash: got %v", err)
		}
	})
}

// What comes from an older generation is dropped.
func TestStaleGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []mcp.ID
		p := &peer{}
		p.answer = func(_ *link, m mcp.Outgoing) { ids = append(ids, m.ID) }
		b := connect(t, p, conn.Options{})
		if err := b.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		old := p.last()
		old.cut(errRefused)
		time.Sleep(time.Second)
		r := b.Begin(ping, nil)
		synctest.Wait()
		old.result(ids[0])
		old.sink.Lost(errRefused)
		synctest.Wait()
		if r.Completed() || b.Status().State != conn.Ready {
			t.Errorf("an old link ended a call of the new one, or the connection (%v)", b.Status().State)
		}
		p.last().result(ids[0])
		if _, err := r.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What a peer sends before Dial has returned is not lost, and keeps its order.
func TestEarlyFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		var got []string
		sys := newSystem(t)
		k := conn.New(sys, conn.Options{
			Name: "peer",
			Dial: func(ctx context.Context, gen uint64, sink mcp.Sink) (mcp.Link, error) {
				for i := range 3 {
					sink.Frame(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"n%d"}`, i))
				}
				return p.Dial(ctx, gen, sink)
			},
			Negotiate: p.Negotiate,
			Received:  func(_ *conn.Session, m *mcp.Message, _ mcp.ID) { got = append(got, m.Method) },
		})
		if err := k.Start(); err != nil {
			t.Fatal(err)
		}
		if err := k.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, []string{"n0", "n1", "n2"}) {
			t.Errorf("got %v, want n0 to n2", got)
		}
	})
}

// Messages that can not be read (BASE-16, ROB-2) end the call they answer, and the
// connection when there is nothing else.
func TestMalformed(t *testing.T) {
	tests := []struct {
		name, frame string
		want        error
	}{
		{"result is no object", `{"jsonrpc":"2.0","id":%s,"result":[]}`, call.ErrInvalidResponse}, // BASE-06
		{"duplicate keys", `{"jsonrpc":"2.0","id":%s,"result":{"a":1,"a":2}}`, call.ErrInvalidResponse},
		{"result and error", `{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":""}}`, call.ErrInvalidResponse},
		{"error without a code", `{"jsonrpc":"2.0","id":%s,"error":{"message":"x"}}`, call.ErrInvalidResponse}, // BASE-07
		{"fractional id", `{"jsonrpc":"2.0","id":%s.5,"result":{}}`, call.ErrTimeout},                          // BASE-02
		{"string id", `{"jsonrpc":"2.0","id":"%s","result":{}}`, call.ErrTimeout},
		{"null id", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"%s"}}`, call.ErrTimeout}, // BASE-08
		{"batch", `[{"jsonrpc":"2.0","id":%s,"result":{}}]`, call.ErrTimeout},                         // BASE-23
		{"a request of theirs", `{"jsonrpc":"2.0","id":%s,"method":"x","params":{"a":1,"a":2}}`, call.ErrTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &peer{answer: func(l *link, m mcp.Outgoing) { l.sink.Frame(fmt.Appendf(nil, tt.frame, m.ID)) }}
				b := connect(t, p, conn.Options{})
				if _, err := b.Do(t.Context(), ping); !errors.Is(err, tt.want) {
					t.Errorf("Do: got %v, want %v", err, tt.want)
				}
				if b.Status().State != conn.Ready {
					t.Errorf("state: got %v, want ready", b.Status().State)
				}
			})
		})
	}
	t.Run("flood", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &peer{answer: func(l *link, m mcp.Outgoing) {
				for range 1000 {
					l.sink.Frame([]byte("garbage"))
				}
			}}
			b := connect(t, p, conn.Options{})
			if _, err := b.Do(t.Context(), ping); !errors.Is(err, call.ErrConnectionLost) {
				t.Errorf("Do: got %v, want the connection lost", err)
			}
		})
	})
}

// BASE-20: batches exist in 2025-03-26 alone.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{answer: func(l *link, m mcp.Outgoing) {
			l.sink.Frame(fmt.Appendf(nil, `[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":%s,"result":{}}]`, m.ID))
		}}
		p.negotiate = func(_ context.Context, s *conn.Session) error { s.Agree(mcp.V2025_03_26, nil); return nil }
		b := connect(t, p, conn.Options{})
		if _, err := b.Do(t.Context(), ping); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{answer: func(*link, mcp.Outgoing) {}, closing: time.Second}
		b := connect(t, p, conn.Options{})
		r := b.Begin(ping, nil)
		synctest.Wait()
		if err := b.sys.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := r.Result(); !errors.Is(err, call.ErrClosed) {
			t.Errorf("the call: got %v, want %v", err, call.ErrClosed)
		}
		if p.closed != 1 {
			t.Errorf("%d links were closed, want 1", p.closed)
		}
	})
}

func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := connect(t, &peer{}, conn.Options{Lazy: true})
		if err := b.Notify("x", nil); !errors.Is(err, conn.ErrNotReady) {
			t.Errorf("without a connection: got %v, want %v", err, conn.ErrNotReady)
		}
		if err := b.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Notify("x", nil); err != nil {
			t.Errorf("with one: got %v", err)
		}
	})
}
