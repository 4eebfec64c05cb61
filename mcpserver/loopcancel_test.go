package mcpserver_test

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
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

// loopBench is a server whose loops can be watched and killed.
type loopBench struct {
	s      *mcpserver.Server
	sys    *actors.System
	p      *planner
	begun  chan string   // what a tool has begun
	open   chan struct{} // closed to let the deaf tool go
	gate   *llmtest.Gate // where the own model waits
	tracer *actors.Tracer

	mu     sync.Mutex
	loops  []actors.Ref
	server actors.Ref
}

// record keeps the addresses of loops, and fails the actor that is told bang.
func (b *loopBench) record(ev actors.TraceEvent) {
	if ev.Actor.Kind() == actors.KindLoop {
		b.tracer.Record(ev)
		b.mu.Lock()
		if !slices.Contains(b.loops, ev.Actor) {
			b.loops = append(b.loops, ev.Actor)
		}
		b.mu.Unlock()
	}
	if ev.Actor.Kind() == actors.KindServer {
		b.mu.Lock()
		b.server = ev.Actor
		b.mu.Unlock()
	}
	if _, ok := ev.Message.(bang); ok {
		panic("the password is hunter2")
	}
}

// newLoopBench returns a server with a tool "plan", whose loop has the tools "heeds",
// which ends with its context, and "deaf", which does not. Everything must be gone when
// the test has ended.
func newLoopBench(t *testing.T, opts mcpserver.Options, o *sampling.Options, more ...func(context.Context, *mcpserver.ToolRequest) error) *loopBench {
	t.Helper()
	b := &loopBench{begun: make(chan string, 100), open: make(chan struct{}), gate: llmtest.NewGate(), tracer: &actors.Tracer{}}
	var err error
	if b.sys, err = actors.NewSystem(&actors.Options{Trace: b.record}); err != nil {
		t.Fatal(err)
	}
	opts.System = b.sys
	if b.s, err = mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(b.open)
		b.gate.Open()
		empty(t, b.s, b.sys)
	})
	b.p = addLoop(t, b.s, []*sampling.Tool{
		sampling.Func(&mcp.Tool{Name: "heeds"}, func(ctx context.Context, _ struct{}) (string, error) {
			b.begun <- "heeds"
			<-ctx.Done()
			return "", context.Cause(ctx)
		}),
		sampling.Func(&mcp.Tool{Name: "deaf"}, func(context.Context, struct{}) (string, error) {
			b.begun <- "deaf"
			<-b.open
			return "late", nil
		}),
	}, o, more...)
	return b
}

// live counts the actors of loops and of the model's turns.
func (b *loopBench) live() int {
	return b.sys.Census().Live(actors.KindLoop, actors.KindCompletion, actors.KindInvocation)
}

func (b *loopBench) loop(t testing.TB) actors.Ref {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.loops) == 0 {
		t.Fatal("no loop has begun")
	}
	return b.loops[len(b.loops)-1]
}

// Where a loop can be when it is cancelled.
var loopStates = map[string]struct {
	caps  string
	turns []string // of the client's model; the last is not given
	own   func(g *llmtest.Gate) []llmtest.Turn
	deaf  bool
}{
	"the client's model is asked":       {caps: withTools},
	"the client's model is asked again": {caps: withTools, turns: []string{use("c", "unheard-of", `{}`)}},
	"a tool is at work":                 {caps: withTools, turns: []string{use("c", "heeds", `{}`)}},
	"a tool that does not heed it":      {caps: withTools, turns: []string{use("c", "deaf", `{}`)}, deaf: true},
	"the own model is at work": {caps: `{}`, own: func(g *llmtest.Gate) []llmtest.Turn {
		return []llmtest.Turn{llmtest.Join(llmtest.Say("a"), llmtest.Hold(g))}
	}},
	"a tool for the own model is at work": {caps: `{}`, own: func(*llmtest.Gate) []llmtest.Turn { return []llmtest.Turn{llmtest.Call("heeds", `{}`)} }},
}

// Ways to end it. In 2026-07-28 no request is open while the client is asked, so nobody
// can cancel it then, and nothing times out but the wait for the client (MRTR-05, MRTR-17).
var loopEnds = map[string]struct {
	opts   mcpserver.Options
	act    func(b *loopBench, a *asked)
	parked bool // it ends a handler that waits for a retry
	says   int  // lines that the client hears: an answer
	modern int  // the same where no request is open
}{
	"cancelled by the client": {act: func(_ *loopBench, a *asked) { a.cancelLast() }},
	"the client hangs up":     {act: func(_ *loopBench, a *asked) { a.in.Close() }},
	"it takes too long":       {opts: mcpserver.Options{Limits: mcpserver.Limits{CallTimeout: time.Minute}, Rounds: mcpserver.RoundOptions{ParkFor: time.Minute, TicketTTL: time.Minute}}, act: func(*loopBench, *asked) { time.Sleep(time.Minute) }, parked: true, says: 1},
	"the server closes":       {act: func(b *loopBench, _ *asked) { _ = b.s.Close() }, parked: true, says: 1},
}

func (a *asked) cancelLast() {
	params := fmt.Sprintf(`{"requestId":%d}`, a.next)
	if a.v.Era() == mcp.EraModern {
		params = fmt.Sprintf(`{"requestId":%d,"_meta":{%s}}`, a.next, modernMeta)
	}
	a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, mcp.NotificationCancelled, params))
}

// reach brings a loop into a state, and returns the questions that are open.
func (b *loopBench) reach(t *testing.T, a *asked, turns []string) {
	t.Helper()
	m := &clientModel{t: t, turns: turns}
	a.send(a.tool("plan", `{}`, ""))
	for {
		synctest.Wait()
		if len(b.begun) > 0 || a.caps == `{}` {
			return
		}
		q := readMessage(t, a.receive())
		if len(m.asked) == len(turns) {
			return
		}
		if q.Method != "" {
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, m.respond(q.Method, q.Params)))
			continue
		}
		a.send(a.tool("plan", `{}`, a.retry(q, m.respond)))
	}
}

// CANC-13: however a call ends, its loop ends whole: the question is withdrawn, the tools
// and the model are cancelled, and there is one outcome.
func TestLoopCancelledAnywhere(t *testing.T) {
	for state, at := range loopStates {
		for end, by := range loopEnds {
			for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
				parked := v.Era() == mcp.EraModern && strings.Contains(state, "client's")
				if parked && !by.parked {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %s", state, end, v), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						gate := llmtest.NewGate()
						defer gate.Open()
						opts := by.opts
						var own *llmtest.Model
						if at.own != nil {
							own = llmtest.Script(at.own(gate)...)
							opts.Model = sampling.NewModel(own, nil)
						}
						b := newLoopBench(t, opts, nil)
						a := openAsked(t, b.s, v, at.caps)
						b.reach(t, a, at.turns)
						if n := b.sys.Census().Live(actors.KindLoop); n != 1 {
							t.Fatalf("got %d loops, want 1", n)
						}
						by.act(b, a)
						synctest.Wait()
						if at.deaf { // it is left behind once its grace is over
							time.Sleep(3 * time.Second)
							synctest.Wait()
						}
						if end == "the client hangs up" {
							time.Sleep(3 * time.Second) // the grace of calls
							synctest.Wait()
						}
						if n := b.live(); n != 0 {
							t.Errorf("got %d actors, want none", n)
						}
						if err := b.p.lastError(); err == nil || len(b.p.errs) != 1 {
							t.Errorf("the loop has returned %v, %d times, want one cause", err, len(b.p.errs))
						}
						b.heard(t, a, parked, strings.Contains(state, "client's"), by.says)
					})
				})
			}
		}
	}
}

// heard counts what the client was told after a loop was ended: that its question is
// withdrawn, and at most one answer.
func (b *loopBench) heard(t *testing.T, a *asked, parked, asked bool, says int) {
	t.Helper()
	answers, withdrawn := 0, 0
	for {
		select {
		case line, ok := <-a.lines:
			switch {
			case !ok:
				return
			case strings.Contains(line, mcp.NotificationCancelled):
				withdrawn++
				continue
			}
			answers++
			continue
		default:
		}
		break
	}
	if parked {
		says = 0 // it was answered with the question
	}
	if answers != says {
		t.Errorf("the client heard %d answers, want %d", answers, says)
	}
	if want := asked && !parked; (withdrawn == 1) != want {
		t.Errorf("the client heard %d times that its question is withdrawn, want it: %v", withdrawn, want)
	}
}

// The handler may end a loop itself, by its context.
func TestLoopOwnDeadline(t *testing.T) {
	for _, turns := range [][]string{nil, {use("c", "heeds", `{}`)}} {
		synctest.Test(t, func(t *testing.T) {
			b := newLoopBench(t, mcpserver.Options{}, nil)
			err := mcpserver.AddTool(b.s, &mcp.Tool{Name: "short"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				heeds := sampling.Func(&mcp.Tool{Name: "heeds"}, func(ctx context.Context, _ struct{}) (string, error) {
					<-ctx.Done()
					return "", context.Cause(ctx)
				})
				_, err := sampling.Loop(ctx, req, "short", question(), []*sampling.Tool{heeds}, nil)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the deadline", err)
				}
				return "too late", nil
			})
			if err != nil {
				t.Fatal(err)
			}
			a := openAsked(t, b.s, mcp.V2025_11_25, withTools)
			m := &clientModel{t: t, turns: turns}
			a.send(a.tool("short", `{}`, ""))
			q := readMessage(t, a.receive())
			if len(turns) > 0 {
				a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, m.respond(q.Method, q.Params)))
			}
			for {
				got := readMessage(t, a.receive())
				if got.Method != mcp.NotificationCancelled {
					if got.text() != "too late" {
						t.Errorf("got %q", got.text())
					}
					break
				}
			}
			if b.live() != 0 {
				t.Errorf("got %d actors, want none", b.live())
			}
		})
	}
}

// Cancel and limit are messages of the loop's actor, in order.
func TestLoopTrace(t *testing.T) {
	tests := []struct {
		name  string
		opts  *sampling.Options
		turns []string
		end   func(a *asked)
		want  []string
	}{
		{"answer", nil, []string{use("c", "unheard-of", `{}`), tripAnswer}, nil,
			[]string{"Started", "listed", "modelReplied", "decided", "listed", "modelReplied"}},
		{"limit", &sampling.Options{MaxTokens: 110}, []string{use("c", "unheard-of", `{}`), tripAnswer}, nil,
			[]string{"Started", "listed", "modelReplied", "decided", "listed", "limitHit"}},
		{"cancel", nil, []string{use("c", "heeds", `{}`)}, (*asked).cancelLast,
			[]string{"Started", "listed", "modelReplied", "decided", "cancelRun", "toolReturned"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newLoopBench(t, mcpserver.Options{}, tt.opts)
				a := openAsked(t, b.s, mcp.V2025_11_25, withTools)
				if tt.end == nil {
					a.call("plan", `{}`, (&clientModel{t: t, turns: tt.turns}).respond)
				} else {
					b.reach(t, a, tt.turns)
					tt.end(a)
				}
				synctest.Wait()
				var got []string
				for _, line := range b.tracer.Lines() {
					if line = strings.TrimPrefix(line, "loop "); line != "Stopping" {
						got = append(got, line)
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("got  %v\nwant %v", got, tt.want)
				}
			})
		})
	}
}

// Killing or panicking a loop's actor ends exactly its own work: the handler gets an
// error, once, that tells nothing of the panic, and a loop beside it goes on.
func TestLoopKilled(t *testing.T) {
	for name, kill := range endings {
		for state, turns := range map[string][]string{"asked": nil, "tool at work": {use("c", "heeds", `{}`)}} {
			t.Run(name+", "+state, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newLoopBench(t, mcpserver.Options{}, nil)
					other := openAsked(t, b.s, mcp.V2025_11_25, withTools)
					other.send(other.tool("plan", `{}`, ""))
					open := readMessage(t, other.receive())

					a := openAsked(t, b.s, mcp.V2025_11_25, withTools)
					b.reach(t, a, turns)
					kill(b.loop(t))
					var got said
					for got = readMessage(t, a.receive()); got.Method != ""; got = readMessage(t, a.receive()) {
					}
					if text := got.text(); !strings.HasPrefix(text, "isError ") || strings.Contains(text, "hunter2") {
						t.Errorf("got %q, want an error without the panic", text)
					}
					synctest.Wait()
					for len(a.lines) > 0 {
						if line := <-a.lines; !strings.Contains(line, mcp.NotificationCancelled) {
							t.Errorf("got %s, want no second outcome", line)
						}
					}
					if n := b.sys.Census().Live(actors.KindLoop); n != 1 {
						t.Errorf("got %d loops, want the other one", n)
					}
					other.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, open.ID, tripAnswer))
					if got := readMessage(t, other.receive()).text(); got != "Go to Oslo." {
						t.Errorf("the other loop: got %q", got)
					}
				})
			})
		}
	}
}

// A loop whose actor dies while the client of 2026-07-28 has the question ends its
// handler; the retry runs it again.
func TestLoopKilledWhileParked(t *testing.T) {
	for name, kill := range endings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newLoopBench(t, mcpserver.Options{}, nil)
				a := openAsked(t, b.s, mcp.V2026_07_28, withTools)
				q := readMessage(t, a.ask(a.tool("plan", `{}`, "")))
				kill(b.loop(t))
				synctest.Wait()
				if n := b.live(); n != 0 {
					t.Errorf("got %d actors, want none", n)
				}
				got := readMessage(t, a.ask(a.tool("plan", `{}`, a.retry(q, respondWith(tripAnswer)))))
				if got.text() != "Go to Oslo." {
					t.Errorf("got %q", got.text())
				}
			})
		})
	}
}

// A thousand loops that are cancelled leave nothing.
func TestLoopsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := llmtest.NewGate()
		defer gate.Open()
		b := newLoopBench(t, mcpserver.Options{Model: sampling.NewModel(llmtest.Loop(llmtest.Join(llmtest.Say("a"), llmtest.Hold(gate))), nil)}, nil)
		own := openAsked(t, b.s, mcp.V2025_11_25, `{}`)
		asked := openAsked(t, b.s, mcp.V2025_11_25, withTools)
		for i := range 1000 {
			a := own
			if i%2 == 0 {
				a = asked
			}
			a.send(a.tool("plan", `{}`, ""))
			a.cancelLast()
		}
		synctest.Wait()
		if n := b.live(); n != 0 {
			t.Errorf("got %d actors, want none", n)
		}
	})
}
