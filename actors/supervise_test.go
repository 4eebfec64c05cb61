package actors_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// TestPolicyTable holds the supervision table of the design: every kind has a row.
func TestPolicyTable(t *testing.T) {
	kernel := actors.Policy{On: actors.Restart, Max: 5, Window: time.Minute, Then: actors.Escalate}
	stop := actors.Policy{On: actors.Stop}
	want := map[actors.Kind]actors.Policy{
		// "restart, 5 in 60 s, then end the runtime"; the root itself holds nothing that a restart could mend.
		actors.KindRuntime: {On: actors.Escalate},
		actors.KindHost:    kernel, actors.KindServer: kernel, actors.KindLLM: kernel,
		actors.KindProvider: kernel, actors.KindAgents: kernel, actors.KindInbox: kernel,
		// "a tenant's host: as the host, but its end is not the runtime's"
		actors.KindTenant: {On: actors.Restart, Max: 5, Window: time.Minute, Then: actors.Stop},
		// "webhooks: as a tenant; what they deliver is in the store"
		actors.KindHooks: {On: actors.Restart, Max: 5, Window: time.Minute, Then: actors.Stop}, actors.KindHook: stop,
		// "restart with back-off"
		actors.KindClient: {On: actors.Restart, Max: 5, Window: time.Minute, Then: actors.Stop, FirstDelay: 100 * time.Millisecond, MaxDelay: 30 * time.Second},
		// "stop"
		actors.KindSession: stop, actors.KindTransport: stop, actors.KindCall: stop, actors.KindInbound: stop, actors.KindInvocation: stop,
		actors.KindElicitation: stop, actors.KindSubscription: stop, actors.KindTask: stop, actors.KindCompletion: stop, actors.KindKeeper: stop,
		// "durable: restart from the journal": by whoever owns the run, as a new actor.
		actors.KindRun: stop, actors.KindLoop: stop,
		// "stop: what it held is claimed again once its leases expire, by whoever works then"
		actors.KindWorker: stop, actors.KindJob: stop,
	}
	for _, kind := range actors.Kinds() {
		row, ok := want[kind]
		if !ok {
			t.Errorf("kind %v has no row in the table", kind)
		}
		if got := actors.PolicyOf(kind); got != row {
			t.Errorf("PolicyOf(%v): got %+v, want %+v", kind, got, row)
		}
	}
	if got := actors.PolicyOf(200); got != stop {
		t.Errorf("PolicyOf(200): got %+v, want a stop", got)
	}
}

func TestSupervision(t *testing.T) {
	tests := []struct {
		name   string
		kind   actors.Kind
		inline bool
		fails  int
		alive  bool
		ends   bool // the runtime
	}{
		{"stop", actors.KindCall, false, 1, false, false},
		{"stop inline", actors.KindCall, true, 1, false, false},
		{"restart with back-off", actors.KindClient, false, 5, true, false},
		{"restart with back-off, inline", actors.KindClient, true, 5, true, false},
		{"then stop", actors.KindClient, false, 6, false, false},
		{"restart at once", actors.KindHost, false, 5, true, false},
		{"then escalate to the root", actors.KindHost, false, 6, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				ref := spawn(t, sys, actors.Spec{Kind: tt.kind, Inline: tt.inline, New: newAdder})
				if got, err := ask(t, ref, 2); got != 2 || err != nil {
					t.Fatalf("ask: got %d, %v", got, err)
				}
				for range tt.fails {
					ref.Send(blow{})
				}
				time.Sleep(10 * time.Second)
				if ref.Alive() != tt.alive {
					t.Fatalf("alive after %d failures: got %v, want %v", tt.fails, ref.Alive(), tt.alive)
				}
				if ended := sys.Err() != nil; ended != tt.ends {
					t.Errorf("the runtime has ended: got %v (%v), want %v", ended, sys.Err(), tt.ends)
				}
				restarted := tt.fails
				if !tt.alive {
					restarted--
				}
				if got := sys.Census().Actors[tt.kind]; got.Failed != int64(tt.fails) || got.Restarted != int64(restarted) {
					t.Errorf("census: got %+v, want %d failures and %d restarts", got, tt.fails, restarted)
				}
				if tt.alive {
					if got, _ := ask(t, ref, 3); got != 3 {
						t.Errorf("a new incarnation starts afresh: got %d, want 3", got)
					}
				}
			})
		})
	}
}

// TestRestartTimes has the exact times of the incarnations, and a window that
// forgets.
func TestRestartTimes(t *testing.T) {
	tests := []struct {
		kind actors.Kind
		want []time.Duration
	}{
		{actors.KindHost, []time.Duration{0, 0, 0, 0, 0, 0}},
		{actors.KindClient, []time.Duration{0, 100, 300, 700, 1500, 3100}},
	}
	for _, tt := range tests {
		t.Run(tt.kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				var starts []time.Duration
				began := time.Now()
				ref := spawn(t, sys, actors.Spec{Kind: tt.kind, New: func() actors.Actor {
					starts = append(starts, time.Since(began)/time.Millisecond)
					return new(adder)
				}})
				for range 5 {
					ref.Send(blow{})
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if !slices.Equal(starts, tt.want) {
					t.Errorf("incarnations: got %v, want %v (ms)", starts, tt.want)
				}
				ref.Send(blow{}) // the sixth, but the first for a minute
				time.Sleep(time.Second)
				synctest.Wait()
				if !ref.Alive() || len(starts) != 7 {
					t.Errorf("a failure after the window: alive %v, %d incarnations; want a restart", ref.Alive(), len(starts))
				}
			})
		})
	}
}

// TestMessagesOutliveARestart: only the message that failed is lost.
func TestMessagesOutliveARestart(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(mailboxName(inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				ref := spawn(t, sys, actors.Spec{Kind: actors.KindClient, Inline: inline, New: newAdder})
				ref.Send(blow{})
				reply := new(actors.Reply[int])
				for range 3 {
					ref.Send(add{1, new(actors.Reply[int])})
				}
				ref.Send(add{1, reply})
				synctest.Wait()
				if reply.Completed() {
					t.Error("a message was handled before the restart")
				}
				if got, err := reply.Wait(t.Context()); got != 4 || err != nil {
					t.Errorf("the fourth message: got %d, %v; want 4", got, err)
				}
			})
		})
	}
}

// TestStopDuringBackOff: neither the actor nor its clock comes back.
func TestStopDuringBackOff(t *testing.T) {
	for _, who := range []string{"child", "parent", "parent restarts"} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				var news atomic.Int32
				parent := spawn(t, sys, actors.Spec{Kind: actors.KindHost, New: newAdder})
				var child actors.Ref
				run(t, parent, func(c *actors.Context) {
					child, _ = c.Spawn(actors.Spec{Kind: actors.KindClient, Name: "c", New: func() actors.Actor { news.Add(1); return new(adder) }})
				})
				child.Send(blow{})
				synctest.Wait()
				switch who {
				case "child":
					child.Stop()
				case "parent":
					parent.Stop()
				default:
					parent.Send(blow{})
				}
				<-child.Stopped()
				dropped := sys.Census().Dropped
				time.Sleep(time.Minute)
				if got := news.Load(); got != 1 {
					t.Errorf("incarnations: got %d, want 1", got)
				}
				if got := sys.Census().Dropped; got != dropped {
					t.Errorf("the clock of the restart rang: %d messages dropped", got-dropped)
				}
			})
		})
	}
}

// TestStopBeatsRestart: the library lets a restart that comes after a stop undo it.
func TestStopBeatsRestart(t *testing.T) {
	for _, children := range []int{0, 3} {
		t.Run(fmt.Sprintf("children=%d", children), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				var news, stops atomic.Int32
				parent := spawn(t, sys, actors.Spec{Kind: actors.KindAgents, New: newAdder})
				var child actors.Ref
				run(t, parent, func(c *actors.Context) {
					child, _ = c.Spawn(actors.Spec{
						Kind: actors.KindHost, Name: "c", OnStop: func(error) { stops.Add(1) },
						New: func() actors.Actor { news.Add(1); return new(adder) },
					})
				})
				held := make(chan struct{})
				run(t, child, func(c *actors.Context) {
					for range children { // slow to stop
						c.Spawn(actors.Spec{Kind: actors.KindCall, New: func() actors.Actor {
							return recorder{got: func(_ *actors.Context, msg any) {
								if _, ok := msg.(actors.Stopping); ok {
									<-held
								}
							}}
						}})
					}
				})
				// The parent is busy while the child fails and is stopped, and so sees the
				// failure, which it answers with a restart, only after the stop.
				run(t, parent, func(*actors.Context) {
					child.Send(blow{})
					for sys.Census().Actors[actors.KindHost].Failed == 0 {
						runtime.Gosched()
					}
					child.Stop()
				})
				synctest.Wait()
				close(held)
				<-child.Stopped()
				synctest.Wait()
				if news.Load() != 1 || stops.Load() != 1 || child.Alive() {
					t.Errorf("after the stop: %d incarnations, %d ends, alive %v; want 1, 1, false", news.Load(), stops.Load(), child.Alive())
				}
				if got := sys.Census().Actors[actors.KindHost].Restarted; got != 0 {
					t.Errorf("restarts: got %d, want 0", got)
				}
			})
		})
	}
}

// TestEscalation: a failure goes up one step at a time, and each step is counted.
func TestEscalation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		var llms atomic.Int32
		provider := make(chan actors.Ref, 100)
		llm := spawn(t, sys, actors.Spec{Kind: actors.KindLLM, Name: "llm", New: func() actors.Actor {
			llms.Add(1)
			return recorder{got: func(c *actors.Context, msg any) {
				if _, ok := msg.(actors.Started); ok {
					ref, err := c.Spawn(actors.Spec{Kind: actors.KindProvider, Name: "local", New: newAdder})
					if err != nil {
						t.Error(err)
					}
					provider <- ref
				}
			}}
		}})
		for round := range 5 {
			ref := <-provider
			for range 6 {
				ref.Send(blow{})
			}
			synctest.Wait()
			if got := llms.Load(); int(got) != round+2 || !llm.Alive() || ref.Alive() {
				t.Fatalf("round %d: %d incarnations of llm, alive %v, provider alive %v", round, got, llm.Alive(), ref.Alive())
			}
		}
		ref := <-provider
		for range 6 {
			ref.Send(blow{})
		}
		<-sys.Failed()
		var f *actors.Failure
		if !errors.As(sys.Err(), &f) || f.Actor != "runtime/llm" {
			t.Fatalf("Err: got %v, want the failure of runtime/llm", sys.Err())
		}
		if inner, ok := errors.AsType[*actors.Failure](f.Unwrap()); !ok || inner.Actor != "runtime/llm/local" || inner.Value != "blown" || len(inner.Stack) == 0 {
			t.Errorf("the cause: got %+v, want the failure of runtime/llm/local with its stack", inner)
		}
		if _, err := sys.Spawn(actors.Spec{Kind: actors.KindHost, New: newAdder}); !errors.Is(err, actors.ErrClosed) {
			t.Errorf("Spawn: got %v, want ErrClosed", err)
		}
	})
}

// TestChildFailed: the supervisor hears of a failure before its policy is carried
// out, may spawn a replacement, and may fail itself without any harm.
func TestChildFailed(t *testing.T) {
	for _, how := range []string{"replaces", "panics", "exits"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				heard := make(chan error, 1)
				var replacement actors.Ref
				parent := spawn(t, sys, actors.Spec{Kind: actors.KindHost, New: func() actors.Actor {
					return recorder{failed: func(c *actors.Context, child actors.Ref, err error) {
						if !child.Alive() {
							t.Error("the child was stopped before ChildFailed")
						}
						heard <- err
						switch how {
						case "replaces":
							var err error
							if replacement, err = c.Spawn(actors.Spec{Kind: actors.KindCall, New: newAdder}); err != nil {
								t.Errorf("Spawn: %v", err)
							}
						case "panics":
							panic("no")
						case "exits":
							runtime.Goexit()
						}
					}}
				}})
				var child actors.Ref
				run(t, parent, func(c *actors.Context) { child, _ = c.Spawn(actors.Spec{Kind: actors.KindCall, New: newAdder}) })
				child.Send(blow{})
				<-child.Stopped()
				if f, ok := errors.AsType[*actors.Failure](<-heard); !ok || f.Value != "blown" || f.Message != "actors_test.blow" {
					t.Errorf("ChildFailed: got %v", f)
				}
				if how == "replaces" {
					if got, err := ask(t, replacement, 1); got != 1 || err != nil {
						t.Errorf("the replacement: got %d, %v", got, err)
					}
				}
				run(t, parent, func(c *actors.Context) {
					if want := map[bool]int{true: 1}[how == "replaces"]; c.Children() != want {
						t.Errorf("Children: got %d, want %d", c.Children(), want)
					}
				})
			})
		})
	}
}

// TestPoisonMessage: a message that always panics and is sent again at each start
// ends in a bounded number of restarts, and others do not notice. SECA-54.
func TestPoisonMessage(t *testing.T) {
	for _, tt := range []struct {
		kind actors.Kind
		want int32
	}{{actors.KindClient, 6}, {actors.KindCall, 1}} {
		t.Run(tt.kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				other := spawn(t, sys, actors.Spec{Kind: tt.kind, Name: "other", New: newAdder})
				ask(t, other, 1)
				var news atomic.Int32
				ref := spawn(t, sys, actors.Spec{Kind: tt.kind, Name: "poisoned", New: func() actors.Actor {
					news.Add(1)
					return recorder{got: func(c *actors.Context, msg any) {
						switch msg.(type) {
						case actors.Started:
							c.Self().Send(blow{})
						case blow:
							panic("poison")
						}
					}}
				}})
				<-ref.Stopped()
				time.Sleep(time.Hour)
				if got := news.Load(); got != tt.want {
					t.Errorf("incarnations: got %d, want %d", got, tt.want)
				}
				if got, err := ask(t, other, 1); got != 2 || err != nil {
					t.Errorf("the other: got %d, %v; want 2", got, err)
				}
				if sys.Err() != nil {
					t.Errorf("the runtime ended: %v", sys.Err())
				}
			})
		})
	}
}

// TestFailsOnce: a failed incarnation that goes on to panic, on hearing that its
// children stop, is restarted once.
func TestFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		var news, heard atomic.Int32
		kids := make(chan actors.Ref, 10)
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindClient, New: func() actors.Actor {
			first := news.Add(1) == 1
			return recorder{got: func(c *actors.Context, msg any) {
				switch msg.(type) {
				case actors.Started:
					for range 3 {
						if first {
							kid, _ := c.Spawn(actors.Spec{Kind: actors.KindCall, New: newAdder})
							kids <- kid
						}
					}
				case actors.ChildStopped:
					heard.Add(1)
					panic("again")
				case blow:
					panic("once")
				}
			}}
		}})
		ref.Send(blow{})
		synctest.Wait()
		for range 3 {
			kid := <-kids
			kid.Stop()
			<-kid.Stopped()
		}
		time.Sleep(time.Minute)
		if news.Load() != 2 || heard.Load() != 3 {
			t.Errorf("got %d incarnations and %d ChildStopped, want 2 and 3", news.Load(), heard.Load())
		}
	})
}
