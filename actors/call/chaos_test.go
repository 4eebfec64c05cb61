package call_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// chaos is a pipe to an echo server that drops, delays, duplicates, truncates and
// closes at random, and a connection that reopens it.
type chaos struct {
	b *bench

	mu     sync.Mutex
	rand   *rand.Rand
	gen    uint64 // 0 while it is closed
	last   uint64
	over   bool
	opened int
}

// chaosLink is one generation of the pipe.
type chaosLink struct {
	c   *chaos
	gen uint64
}

var errCut = errors.New("cut")

func (l *chaosLink) Close() error { return nil }

func (l *chaosLink) Send(m mcp.Outgoing) error {
	c := l.c
	c.mu.Lock()
	if c.gen != l.gen {
		c.mu.Unlock()
		return errCut
	}
	dice, delay := c.rand.IntN(100), time.Duration(c.rand.IntN(2000))*time.Millisecond
	cut := c.rand.IntN(40)
	c.mu.Unlock()
	if m.Kind != mcp.KindRequest {
		return nil
	}
	answer := mcp.AppendResult(nil, m.ID, []byte(`{"ok":true}`))
	switch {
	case dice < 10: // dropped
	case dice < 12:
		go l.close()
	case dice < 20: // duplicated
		go l.deliver(answer, delay)
		go l.deliver(answer, delay/2)
	case dice < 30: // truncated
		go l.deliver(answer[:min(cut, len(answer)-1)], delay)
	case dice < 33: // its own stream fails
		go func() {
			time.Sleep(delay)
			l.c.b.Failed(l.gen, m.ID, []error{call.ErrUnsent, errCut, &call.TransportError{Method: m.Method, Status: 500}}[cut%3])
		}()
	case dice < 40: // an error
		go l.deliver(mcp.AppendError(nil, m.ID, mcp.ErrInternal), delay)
	case dice < 60: // progress first
		go func() {
			for i := range 5 {
				l.deliver(mcp.AppendNotification(nil, mcp.NotificationProgress, fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, m.ID, i)), delay/4)
			}
			l.deliver(answer, delay)
		}()
	case dice < 80:
		l.deliver(answer, 0) // on the goroutine that sends
	default:
		go l.deliver(answer, delay)
	}
	return nil
}

// deliver brings one frame from the peer, unless the pipe was closed meanwhile.
func (l *chaosLink) deliver(frame []byte, after time.Duration) {
	time.Sleep(after)
	var m mcp.Message
	if err := mcp.Scan(frame, &m); err != nil {
		if !m.ID.IsZero() {
			l.c.b.Malformed(l.gen, m.ID, err)
		}
		return
	}
	if m.Kind == mcp.KindNotification {
		var p mcp.ProgressParams
		if m.DecodeParams(&p) == nil {
			l.c.b.Progress(l.gen, &p)
		}
		return
	}
	l.c.b.Deliver(l.gen, &m)
}

// close ends the generation; another opens a little later.
func (l *chaosLink) close() {
	c := l.c
	c.mu.Lock()
	if c.gen != l.gen {
		c.mu.Unlock()
		return
	}
	c.gen = 0
	pause := time.Duration(c.rand.IntN(300)) * time.Millisecond
	c.mu.Unlock()
	c.b.Lost(l.gen, errCut)
	time.Sleep(pause)
	c.open()
}

func (c *chaos) open() {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.last++
	c.gen = c.last
	c.opened++
	link := &chaosLink{c, c.gen}
	c.b.lastGen.Store(c.gen)
	c.mu.Unlock()
	c.b.Open(link.gen, link)
	c.b.Ready()
}

// Whatever happens to the connection, each call has one outcome and nothing is left.
func TestChaos(t *testing.T) {
	callers, calls := 32, 250
	if raceDetector {
		calls = 25
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				c := &chaos{b: b, rand: rand.New(rand.NewPCG(seed, 1))}
				c.open()
				var wg sync.WaitGroup
				var mu sync.Mutex
				outcomes := map[string]int{}
				for g := range callers {
					r := rand.New(rand.NewPCG(seed, uint64(g)+2))
					wg.Go(func() {
						for range calls {
							req, ctx, cancel := chaoticCall(t, r)
							waits := chaoticFollow(b, r, req)
							err := b.carryOut(ctx, req, g%2 == 0)
							cancel(nil)
							waits.check(t)
							mu.Lock()
							outcomes[outcome(t, err)]++
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				total := 0
				for _, n := range outcomes {
					total += n
				}
				t.Logf("%v, %d connections, %+v", outcomes, c.opened, b.Stats())
				if total != callers*calls || len(outcomes) < 5 {
					t.Errorf("got %d outcomes of %d kinds, want %d of at least 5", total, len(outcomes), callers*calls)
				}
				c.mu.Lock()
				c.over = true
				c.mu.Unlock()
				time.Sleep(time.Minute) // what was delayed arrives, idle actors end
				if s := b.Stats(); s.Pending != 0 || s.Waiting != 0 || b.live() != 0 {
					t.Errorf("left over: %+v and %d actors", s, b.live())
				}
			})
		})
	}
}

// carryOut makes a call, and waits for it in one way or the other.
func (b *bench) carryOut(ctx context.Context, req *call.Request, waits bool) error {
	if waits {
		_, err := b.Do(ctx, req)
		return err
	}
	return (<-b.begin(ctx, req)).err
}

// chaoticWaits counts what became of the waits of one call.
type chaoticWaits struct {
	mu             sync.Mutex
	begun, aborted int
	resumed        int // first calls of resume, some of which come too late
}

// check is called after the outcome.
func (w *chaoticWaits) check(t *testing.T) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.aborted > 1 || w.begun > w.aborted+w.resumed {
		t.Errorf("of %d waits %d were resumed and %d aborted", w.begun, w.resumed, w.aborted)
	}
}

// chaoticFollow lets some calls have several attempts, with pauses, waits that are
// resumed once or twice, in time or too late, and holds in between.
func chaoticFollow(b *bench, r *rand.Rand, req *call.Request) *chaoticWaits {
	if r.IntN(2) == 0 {
		return nil
	}
	w := &chaoticWaits{}
	var dice [8]int
	for i := range dice {
		dice[i] = r.IntN(1000)
	}
	next := func(d int) call.Step {
		if d%3 == 0 {
			return call.Step{}
		}
		return call.Step{Retry: &call.Retry{After: time.Duration(d%2) * 300 * time.Millisecond}}
	}
	req.Follow = func(a call.Answer) call.Step {
		d := dice[a.Attempt%len(dice)]
		switch {
		case a.Attempt >= len(dice) || d < 300:
			return call.Step{}
		case d < 500:
			return next(d)
		}
		return call.Step{Clocks: d < 600, Wait: func(resume func(call.Step)) func(error) {
			w.mu.Lock()
			w.begun++
			w.mu.Unlock()
			go func() {
				for _, out := range b.Out(b.lastGen.Load()) { // some other call
					defer b.Hold(b.lastGen.Load(), out.ID)()
					break
				}
				if d%5 == 0 {
					defer b.Hold(b.lastGen.Load(), mcp.ID{})()
				}
				time.Sleep(time.Duration(d*3) * time.Millisecond)
				w.mu.Lock()
				w.resumed++
				w.mu.Unlock()
				resume(next(d))
				resume(next(d + 1))
			}()
			return func(error) {
				w.mu.Lock()
				w.aborted++
				w.mu.Unlock()
			}
		}}
	}
	return w
}

// chaoticCall draws a call with some limits.
func chaoticCall(t *testing.T, r *rand.Rand) (*call.Request, context.Context, context.CancelCauseFunc) {
	req := &call.Request{Method: mcp.MethodCallTool, Idle: 3 * time.Second, Max: 10 * time.Second, Safe: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		req.OnProgress = func(call.Progress) {}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	if r.IntN(5) == 0 {
		after := time.Duration(r.IntN(1500)) * time.Millisecond
		timer := time.AfterFunc(after, func() { cancel(context.Canceled) })
		return req, ctx, func(cause error) { timer.Stop(); cancel(cause) }
	}
	return req, ctx, cancel
}

// outcome names the kind of an outcome; any other kind is an error.
func outcome(t *testing.T, err error) string {
	for name, kind := range map[string]error{
		"timeout": call.ErrTimeout, "lost": call.ErrConnectionLost, "peer": mcp.ErrInternal,
		"cancelled": context.Canceled, "invalid": call.ErrInvalidResponse, "attempts": call.ErrTooManyAttempts,
	} {
		if errors.Is(err, kind) {
			return name
		}
	}
	if _, ok := errors.AsType[*call.TransportError](err); ok {
		return "refused"
	}
	if err != nil {
		t.Errorf("a call ended with %v", err)
	}
	return "result"
}

// Calls whose actors are killed at random end for their callers alone.
func TestChaosOfKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		r := rand.New(rand.NewPCG(1, 2))
		sys, err := actors.NewSystem(&actors.Options{Trace: func(ev actors.TraceEvent) {
			mu.Lock()
			defer mu.Unlock()
			if ev.Actor.Kind() == actors.KindCall && r.IntN(20) == 0 {
				go ev.Actor.Stop()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{Table: call.NewTable(sys, nil), sys: sys}
		ref, err := sys.Spawn(actors.Spec{Kind: actors.KindClient, New: func() actors.Actor { return &parent{table: b.Table} }})
		if err != nil {
			t.Fatal(err)
		}
		b.Open(1, &wire{answer: func(_ *wire, s sent) {
			go func() { time.Sleep(time.Millisecond); b.result(1, s.ID, `{}`) }()
		}})
		b.Ready()
		killed, done := 0, 0
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 100 {
					_, err := b.Do(t.Context(), &call.Request{Method: "tools/call", Follow: follower(again, call.Step{
						Wait: func(resume func(call.Step)) func(error) { go resume(again); return nil },
					})})
					mu.Lock()
					switch {
					case errors.Is(err, actors.ErrStopped):
						killed++
					case err == nil:
						done++
					default:
						t.Errorf("a call ended with %v", err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if killed == 0 || killed+done != 1600 {
			t.Errorf("got %d killed and %d done, want 1600 together", killed, done)
		}
		ref.Stop()
		<-ref.Stopped()
		if b.live() != 0 || b.Stats().Pending != 0 {
			t.Errorf("left over: %d actors, %+v", b.live(), b.Stats())
		}
		if err := sys.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
	})
}
