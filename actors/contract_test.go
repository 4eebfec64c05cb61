package actors

// What surprises in protoactor-go, each as a test: what the library does, and in
// the comment what the kit does instead. They pin the version in go.mod; one that
// fails after a bump shows where the kit may become simpler, or is wrong now.

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// newLibrary returns a bare library that logs to w.
func newLibrary(t *testing.T, w io.Writer) *actor.ActorSystem {
	t.Helper()
	lib := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.NewTextHandler(w, nil))
	}))
	return lib
}

// inBubble runs f with a bare library and a virtual clock.
func inBubble(t *testing.T, f func(t *testing.T, lib *actor.ActorSystem)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newLibrary(t, io.Discard))
		time.Sleep(2 * time.Second) // its clock for dead letters
	})
}

// scripted is an actor that has what a bare function can not have: a supervision
// strategy.
type scripted struct {
	receive func(c actor.Context)
	decide  func(sup actor.Supervisor, child *actor.PID, reason any)
}

func (s *scripted) Receive(c actor.Context) { s.receive(c) }

func (s *scripted) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	s.decide(sup, child, reason)
}

// script is an actor made of a function.
func script(f func(c actor.Context)) *actor.Props { return actor.PropsFromFunc(f) }

// note is an actor that notes what it receives; a func runs in it.
func note(got *[]string) func(c actor.Context) {
	return func(c actor.Context) {
		if f, ok := c.Message().(func(actor.Context)); ok {
			f(c)
			return
		}
		*got = append(*got, strings.TrimPrefix(fmt.Sprintf("%T", c.Message()), "*actor."))
	}
}

func expect(t *testing.T, trap string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", trap, got, want)
	}
}

// A stop overtakes what is queued, which vanishes without a dead letter. The kit
// says so of Ref.Stop; whoever needs an answer waits on a Reply and on Stopped.
func TestContractStopDropsTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		var dead atomic.Int32
		lib.EventStream.Subscribe(func(any) { dead.Add(1) })
		pid := lib.Root.Spawn(script(note(&got)))
		open := make(chan struct{})
		lib.Root.Send(pid, func(actor.Context) { <-open })
		synctest.Wait()
		lib.Root.Send(pid, "lost")
		lib.Root.Stop(pid)
		close(open)
		synctest.Wait()
		expect(t, "Stop", got, []string{"Started", "Stopping", "Stopped"})
		if dead.Load() != 0 {
			t.Errorf("dead letters: got %d, want none", dead.Load())
		}
	})
}

// A poison pill keeps its place in the queue. The kit has none: an actor that
// must finish what is queued has a message for it.
func TestContractPoisonKeepsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		pid := lib.Root.Spawn(script(note(&got)))
		open := make(chan struct{})
		lib.Root.Send(pid, func(actor.Context) { <-open })
		lib.Root.Send(pid, "kept")
		lib.Root.Poison(pid)
		lib.Root.Send(pid, 1)
		close(open)
		synctest.Wait()
		expect(t, "Poison", got, []string{"Started", "string", "Stopping", "Stopped"})
	})
}

// Terminated is a system message and overtakes the result that the child sent
// before. Hence: never read "no result came" from ChildStopped; the Reply is
// completed by the child itself, and again, without effect, by its parent.
func TestContractTerminatedOvertakesTheResult(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		parent := lib.Root.Spawn(script(note(&got)))
		lib.Root.Send(parent, func(c actor.Context) {
			child := c.Spawn(script(func(c actor.Context) {
				if c.Message() == "work" {
					c.Send(c.Parent(), "result")
					c.Stop(c.Self())
				}
			}))
			c.Send(child, "work")
			time.Sleep(time.Second) // busy meanwhile
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		expect(t, "Stop after a result", got, []string{"Started", "Terminated", "string"})
	})
}

// The old instance gets Restarting, the new one Started, the message that failed
// is lost, and Stopped comes at the true end only. The kit relies on it.
func TestContractRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		instances := 0
		pid := lib.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
			instances++
			n := instances
			return actor.ReceiveFunc(func(c actor.Context) {
				if f, ok := c.Message().(func(actor.Context)); ok {
					f(c)
				}
				got = append(got, fmt.Sprintf("%d:%T", n, c.Message()))
			})
		}))
		lib.Root.Send(pid, func(actor.Context) { panic("x") })
		lib.Root.Send(pid, "next")
		synctest.Wait()
		lib.Root.Stop(pid)
		synctest.Wait()
		expect(t, "a restart", got, []string{
			"1:*actor.Started", "1:*actor.Restarting", "2:*actor.Started", "2:string", "2:*actor.Stopping", "2:*actor.Stopped",
		})
	})
}

// A panic in Stopping restarts the actor that was to stop. The kit's cell lets
// none out: it is logged.
func TestContractPanicInStopping(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		seen := note(&got)
		pid := lib.Root.Spawn(script(func(c actor.Context) {
			seen(c)
			if _, ok := c.Message().(*actor.Stopping); ok && len(got) == 2 {
				panic("in Stopping")
			}
		}))
		lib.Root.Stop(pid)
		synctest.Wait()
		expect(t, "a panic in Stopping", got, []string{"Started", "Stopping", "Restarting", "Started"})
	})
}

// After a panic in Stopped the parent never hears Terminated, and can never stop.
// The kit's cell lets none out.
func TestContractPanicInStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		parent := lib.Root.Spawn(script(note(&got)))
		lib.Root.Send(parent, func(c actor.Context) {
			c.Stop(c.Spawn(script(func(c actor.Context) {
				if _, ok := c.Message().(*actor.Stopped); ok {
					panic("in Stopped")
				}
			})))
		})
		synctest.Wait()
		lib.Root.Stop(parent)
		time.Sleep(time.Hour)
		synctest.Wait()
		expect(t, "a panic in a child's Stopped", got, []string{"Started", "Stopping"})
	})
}

// A restart that comes after a stop undoes it: of an actor that waits for its
// children to stop, and of one that has stopped, which then lives on unregistered.
// The kit's cell stops again in the first case, and stays empty in the second.
func TestContractRestartUndoesAStop(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		parent := lib.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
			return &scripted{receive: func(c actor.Context) {
				if f, ok := c.Message().(func(actor.Context)); ok {
					f(c)
				}
			}, decide: func(sup actor.Supervisor, child *actor.PID, _ any) {
				sup.StopChildren(child)
				sup.RestartChildren(child)
			}}
		}))
		open := make(chan struct{})
		lib.Root.Send(parent, func(c actor.Context) {
			child := c.Spawn(script(note(&got)))
			c.Send(child, func(c actor.Context) {
				c.Spawn(script(func(c actor.Context) {
					if _, ok := c.Message().(*actor.Stopping); ok {
						<-open
					}
				}))
				panic("x")
			})
		})
		synctest.Wait()
		close(open)
		synctest.Wait()
		expect(t, "Stop, then Restart", got, []string{"Started", "Stopping", "Restarting", "Terminated", "Started"})
	})
}

// A name is free before the parent has heard that its last owner stopped; a child
// spawned then is lost to the parent when it does hear. The kit keeps the name
// until ChildStopped.
func TestContractNameReuse(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		parent := lib.Root.Spawn(script(note(&got)))
		idle := script(func(actor.Context) {})
		lib.Root.Send(parent, func(c actor.Context) {
			old, _ := c.SpawnNamed(idle, "kid")
			c.Stop(old)
			time.Sleep(time.Second)
			if _, err := c.SpawnNamed(idle, "kid"); err != nil {
				t.Errorf("SpawnNamed: %v", err)
			}
			if n := len(c.Children()); n != 1 {
				t.Errorf("children: got %d, want 1", n)
			}
		})
		time.Sleep(2 * time.Second)
		lib.Root.Send(parent, func(c actor.Context) {
			if n := len(c.Children()); n != 0 {
				t.Errorf("children after Terminated: got %d, want 0, the new one forgotten", n)
			}
		})
		synctest.Wait()
		expect(t, "the parent", got, []string{"Started", "Terminated"})
	})
}

// SpawnNamed returns the identifier of whoever has the name, with an error that
// is easily overlooked. The kit returns the zero Ref and a NameTakenError.
func TestContractSpawnNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		first, _ := lib.Root.SpawnNamed(script(func(actor.Context) {}), "name")
		second, err := lib.Root.SpawnNamed(script(func(actor.Context) {}), "name")
		if !errors.Is(err, actor.ErrNameExists) || !second.Equal(first) {
			t.Errorf("SpawnNamed: got %v, %v; want the first's identifier and ErrNameExists", second, err)
		}
		if first == second {
			t.Error("identifiers of one actor are one pointer: they could be compared by ==")
		}
	})
}

// Identifiers of one actor are different pointers, and Equal can not bear a nil.
// The kit's Ref is comparable.
func TestContractCompare(t *testing.T) {
	a, b := actor.NewPID("nonhost", "x"), actor.NewPID("nonhost", "x")
	if a == b || !a.Equal(b) {
		t.Error("PID: want two pointers that are Equal")
	}
	defer func() {
		if recover() == nil {
			t.Error("nil.Equal(nil): want a panic")
		}
	}()
	var none *actor.PID
	none.Equal(nil)
}

// A panic in a producer hits the spawner. The kit calls New in Started, so that
// it is the new actor's failure.
func TestContractProducerPanic(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		defer func() {
			if r := recover(); r != "in New" {
				t.Errorf("Spawn: got panic %v, want the producer's", r)
			}
		}()
		lib.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { panic("in New") }))
	})
}

// A spawn calls the producer of the actor and then that of the mailbox, once each and
// before it returns, also for a name that is taken. The kit hands the new process to
// them through a field.
func TestContractProducersInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		props := actor.PropsFromProducer(func() actor.Actor {
			got = append(got, "actor")
			return actor.ReceiveFunc(func(actor.Context) {})
		}, actor.WithMailbox(func() actor.Mailbox {
			got = append(got, "mailbox")
			return new(mailbox)
		}))
		for _, want := range []error{nil, actor.ErrNameExists} {
			if _, err := lib.Root.SpawnNamed(props, "a"); err != want {
				t.Errorf("SpawnNamed: got %v, want %v", err, want)
			}
		}
		expect(t, "spawn", got, []string{"actor", "mailbox", "actor", "mailbox"})
	})
}

// The default strategy restarts ten times within ten seconds and then stops the
// actor without a word. The kit's cell is the strategy of its children, its table
// has a row for each kind, and what is stopped is logged.
func TestContractDefaultStrategy(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var watched []string
		var why []actor.TerminatedReason
		starts := 0
		pid := lib.Root.Spawn(script(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Started); ok {
				starts++
				panic("x")
			}
		}))
		lib.Root.Spawn(script(func(c actor.Context) {
			switch m := c.Message().(type) {
			case *actor.Started:
				c.Watch(pid)
			case *actor.Terminated:
				watched = append(watched, m.Who.Id)
				why = append(why, m.Why)
			}
		}))
		synctest.Wait()
		if starts != 11 || len(watched) != 1 {
			t.Errorf("got %d starts and %v, want 11 and one Terminated", starts, watched)
		}
		if len(why) == 1 && why[0] != actor.TerminatedReason_Stopped && why[0] != actor.TerminatedReason_NotFound {
			t.Errorf("Terminated.Why: got %v, want no word of the failure", why)
		}
	})
}

// The "exponential" back-off is linear. The kit's doubles, up to a maximum.
func TestContractBackOffIsLinear(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var starts []string
		began := time.Now()
		child := script(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Started); ok && len(starts) < 6 {
				starts = append(starts, fmt.Sprint(time.Since(began).Milliseconds()))
				panic("x")
			}
		})
		lib.Root.Spawn(script(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Started); ok {
				c.Spawn(child)
			}
		}).Configure(actor.WithSupervisor(actor.NewExponentialBackoffStrategy(time.Minute, 20*time.Millisecond))))
		time.Sleep(time.Minute)
		synctest.Wait()
		expect(t, "starts in ms", starts, []string{"0", "20", "60", "120", "200", "300"})
	})
}

// An actor struct with HandleFailure is the strategy of its children, and runs on
// its own goroutine. The kit relies on it.
func TestContractParentAsStrategy(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		lib.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
			seen := note(&got)
			return &scripted{receive: func(c actor.Context) {
				seen(c)
				if _, ok := c.Message().(*actor.Started); ok {
					c.Spawn(script(func(c actor.Context) {
						if _, ok := c.Message().(*actor.Started); ok {
							panic("x")
						}
					}))
					time.Sleep(time.Second)
					got = append(got, "end of Started")
				}
			}, decide: func(sup actor.Supervisor, child *actor.PID, reason any) {
				got = append(got, fmt.Sprint(reason))
				if _, ok := sup.(actor.Context); !ok {
					t.Errorf("the supervisor is a %T, not a context: ChildFailed could not spawn", sup)
				}
				sup.StopChildren(child)
			}}
		}))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		expect(t, "HandleFailure", got, []string{"Started", "end of Started", "x", "Terminated"})
	})
}
