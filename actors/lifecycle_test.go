package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// victim fails at one point of its life, each time.
type victim struct {
	at   string
	fail func()
}

func (v *victim) hit(at string) {
	if v.at == at {
		v.fail()
	}
}

func (v *victim) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		v.hit("Started")
		c.After(time.Millisecond, "timer")
		actors.Await(c, func(context.Context) (int, error) { return 0, nil }, func(int, error) any {
			v.hit("done")
			return 1
		})
		if _, err := c.Spawn(actors.Spec{Kind: actors.KindCall, New: func() actors.Actor { return new(adder) }}); err != nil && !errors.Is(err, actors.ErrClosed) {
			panic(err)
		}
	case string:
		v.hit("timer")
	case int:
		v.hit("task")
	case do:
		m(c)
	case blow:
		v.hit("message")
		panic("to restart")
	case actors.ChildStopped:
		v.hit("ChildStopped")
	case actors.Stopping:
		if m.Restart {
			v.hit("Stopping to restart")
		} else {
			v.hit("Stopping")
		}
	}
}

func (v *victim) ChildFailed(*actors.Context, actors.Ref, error) { v.hit("ChildFailed") }

// TestFailureAtEveryPoint: wherever an actor panics or ends its goroutine (as a
// test's FailNow does), it is dealt with as its kind has it, its neighbours live,
// and everything can be shut down.
func TestFailureAtEveryPoint(t *testing.T) {
	points := []string{
		"New", "Started", "message", "timer", "task", "done", "ChildFailed", "ChildStopped",
		"Stopping to restart", "Stopping", "OnStop",
	}
	for _, kind := range []actors.Kind{actors.KindCall, actors.KindClient} {
		for _, point := range points {
			for _, how := range []string{"panics", "exits"} {
				for _, inline := range []bool{false, true} {
					if inline && how == "exits" && (point == "New" || point == "Started") {
						continue // that ends whoever spawns it, too
					}
					t.Run(fmt.Sprintf("%v %s in %s %s", kind, how, point, mailboxName(inline)), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { failAt(t, kind, point, how, inline) })
					})
				}
			}
		}
	}
}

func failAt(t *testing.T, kind actors.Kind, point, how string, inline bool) {
	sys := start(t, nil)
	fail := func() { panic("injected") }
	if how == "exits" {
		fail = runtime.Goexit
	}
	v := &victim{at: point, fail: fail}
	var ends atomic.Int32
	parent := spawn(t, sys, actors.Spec{Kind: actors.KindHost, Name: "parent", New: newAdder})
	var ref actors.Ref
	run(t, parent, func(c *actors.Context) {
		var err error
		ref, err = c.Spawn(actors.Spec{Kind: kind, Name: "victim", Inline: inline,
			New: func() actors.Actor { v.hit("New"); return v },
			OnStop: func(error) {
				ends.Add(1)
				v.hit("OnStop")
			},
		})
		if err != nil {
			t.Error(err)
		}
	})
	// From a goroutine of its own: Goexit takes the sender with it.
	send := func(msg any) { go ref.Send(msg); synctest.Wait() }
	time.Sleep(time.Second)
	send(do(func(c *actors.Context) { // a child that fails
		kid, err := c.Spawn(actors.Spec{Kind: actors.KindCall, New: newAdder})
		if err == nil {
			kid.Send(blow{})
		}
	}))
	time.Sleep(time.Second)
	send(blow{})
	time.Sleep(time.Minute)
	go ref.Stop()
	<-ref.Stopped()
	synctest.Wait()
	if got := ends.Load(); got != 1 {
		t.Errorf("OnStop: called %d times, want 1", got)
	}
	if got := sys.Census(); got.Actors[kind].Failed == 0 || got.Live() != 1 || len(got.Tasks) != 0 {
		t.Errorf("census: got %+v, want failures and only the parent alive", got)
	}
	if n, err := ask(t, parent, 1); n != 1 || err != nil {
		t.Errorf("the parent: got %d, %v; want 1, as it has not failed", n, err)
	}
}

// TestLifecycle has the messages of a life in their order.
func TestLifecycle(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(mailboxName(inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trace := &actors.Tracer{Keep: func(ev actors.TraceEvent) bool { return ev.Actor.Kind() == actors.KindClient }}
				sys := start(t, &actors.Options{Trace: trace.Record})
				var why []actors.Stopping
				var ended error
				ref := spawn(t, sys, actors.Spec{
					Kind: actors.KindClient, Name: "c", Inline: inline, OnStop: func(err error) { ended = err },
					New: func() actors.Actor {
						return recorder{got: func(c *actors.Context, msg any) {
							switch m := msg.(type) {
							case actors.Started:
								c.Spawn(actors.Spec{Kind: actors.KindCall, New: newAdder})
							case actors.Stopping:
								why = append(why, m)
							case blow:
								panic(errors.ErrUnsupported)
							}
						}}
					},
				})
				for _, msg := range []any{plain{}, blow{}, plain{}} {
					ref.Send(msg)
				}
				time.Sleep(time.Second)
				if info := sys.Tree(); !inline && (len(info) != 3 || info[1].Restarts != 1 || !errors.Is(info[1].LastError, errors.ErrUnsupported) || !info[1].Started.Before(time.Now())) {
					t.Errorf("Tree: got %+v", info)
				}
				ref.Stop()
				<-ref.Stopped()
				want := []string{
					"client Started", "client plain", "client blow", "client Stopping",
					"client Started", "client plain", "client Stopping",
				}
				if got := trace.Lines(); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("messages: got %v, want %v", got, want)
				}
				if len(why) != 2 || !why[0].Restart || !errors.Is(why[0].Err, errors.ErrUnsupported) {
					t.Errorf("Stopping before the restart: got %+v", why)
				}
				if why[1] != (actors.Stopping{}) || ended != nil {
					t.Errorf("an ordinary stop after a restart: got %+v and OnStop(%v), want no error", why[1], ended)
				}
			})
		})
	}
}

func TestChildStoppedCarriesTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		got := make(chan actors.ChildStopped, 2)
		parent := spawn(t, sys, actors.Spec{Kind: actors.KindHost, New: func() actors.Actor {
			return recorder{got: func(_ *actors.Context, msg any) {
				if m, ok := msg.(actors.ChildStopped); ok {
					got <- m
				}
			}}
		}})
		var fails, stops actors.Ref
		run(t, parent, func(c *actors.Context) {
			fails, _ = c.Spawn(actors.Spec{Kind: actors.KindCall, Name: "fails", New: newAdder})
			stops, _ = c.Spawn(actors.Spec{Kind: actors.KindCall, Name: "stops", New: newAdder})
		})
		fails.Send(blow{})
		if m := <-got; m.Ref != fails || m.Err == nil || m.Err.Error() != "actor "+fails.Path()+" failed while handling actors_test.blow: blown" {
			t.Errorf("ChildStopped: got %+v", m)
		}
		stops.Stop()
		if m := <-got; m.Ref != stops || m.Err != nil {
			t.Errorf("ChildStopped: got %+v, want no error", m)
		}
	})
}
