package actors_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// outcome is what a task of these tests sends to its actor.
type outcome struct {
	n   int
	err error
}

// tasker hands on the outcomes of its tasks.
func tasker(out chan<- outcome) func() actors.Actor {
	return func() actors.Actor {
		return recorder{got: func(_ *actors.Context, msg any) {
			switch m := msg.(type) {
			case outcome:
				out <- m
			case blow:
				panic("blown")
			}
		}}
	}
}

func toOutcome(n int, err error) any { return outcome{n, err} }

func TestAwait(t *testing.T) {
	tests := []struct {
		name  string
		work  func(context.Context) (int, error)
		check func(outcome) bool
	}{
		{"result", func(context.Context) (int, error) { return 7, nil }, func(o outcome) bool { return o == outcome{7, nil} }},
		{"error", func(context.Context) (int, error) { return 0, context.Canceled }, func(o outcome) bool { return o.err == context.Canceled }},
		{"panic", func(context.Context) (int, error) { panic("in the task") }, func(o outcome) bool {
			p, ok := errors.AsType[*actors.PanicError](o.err)
			return ok && p.Value == "in the task" && strings.Contains(string(p.Stack), "TestAwait") && p.Error() == "panic: in the task"
		}},
		{"panic with an error", func(context.Context) (int, error) { panic(errors.ErrUnsupported) }, func(o outcome) bool { return errors.Is(o.err, errors.ErrUnsupported) }},
		{"exit", func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }, func(o outcome) bool {
			return o.err != nil && strings.Contains(o.err.Error(), "Goexit")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				out := make(chan outcome, 1)
				ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, New: tasker(out)})
				run(t, ref, func(c *actors.Context) { actors.Await(c, tt.work, toOutcome) })
				if o := <-out; !tt.check(o) {
					t.Errorf("Await: got %+v (%v)", o, o.err)
				}
			})
		})
	}
}

// TestEndTask: work ends itself by its context, or by one that comes from it.
func TestEndTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		out := make(chan outcome, 1)
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, New: tasker(out)})
		run(t, ref, func(c *actors.Context) {
			actors.Await(c, func(ctx context.Context) (int, error) {
				below, cancel := context.WithCancel(ctx)
				defer cancel()
				if !actors.CancelTask(below, errors.ErrUnsupported) {
					t.Error("CancelTask in a task: got false")
				}
				<-below.Done()
				return 3, context.Cause(below)
			}, toOutcome)
		})
		if got, want := <-out, (outcome{3, errors.ErrUnsupported}); got != want {
			t.Errorf("Await: got %v, want %v", got, want)
		}
		if actors.CancelTask(t.Context(), errors.ErrUnsupported) {
			t.Error("CancelTask outside of a task: got true")
		}
	})
}

// TestTaskEndsWithItsActor: it is cancelled, the cause says why, and what it
// brings home after that is dropped.
func TestTaskEndsWithItsActor(t *testing.T) {
	tests := []struct {
		name string
		kind actors.Kind
		end  func(actors.Ref, context.CancelCauseFunc)
		want func(cause error) bool
		got  bool // the outcome arrives
	}{
		{"stop", actors.KindCall, func(r actors.Ref, _ context.CancelCauseFunc) { r.Stop() }, func(err error) bool { return err == actors.ErrStopped }, false},
		{"failure", actors.KindCall, func(r actors.Ref, _ context.CancelCauseFunc) { r.Send(blow{}) }, isBlown, false},
		{"restart", actors.KindClient, func(r actors.Ref, _ context.CancelCauseFunc) { r.Send(blow{}) }, isBlown, false},
		{"cancel", actors.KindCall, func(_ actors.Ref, cancel context.CancelCauseFunc) { cancel(errors.ErrUnsupported) },
			func(err error) bool { return err == errors.ErrUnsupported }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				out, causes := make(chan outcome, 1), make(chan error, 1)
				ref := spawn(t, sys, actors.Spec{Kind: tt.kind, Name: "worker", New: tasker(out)})
				var cancel context.CancelCauseFunc
				run(t, ref, func(c *actors.Context) {
					cancel = actors.Await(c, func(ctx context.Context) (int, error) {
						<-ctx.Done()
						causes <- context.Cause(ctx)
						time.Sleep(10 * time.Second) // until well after a restart
						return 1, nil
					}, toOutcome)
				})
				if got := sys.Census().Tasks; len(got) != 1 || got["runtime/worker"] != 1 {
					t.Errorf("census: got tasks %v", got)
				}
				tt.end(ref, cancel)
				if err := <-causes; !tt.want(err) {
					t.Errorf("cause: got %v", err)
				}
				time.Sleep(time.Minute)
				if got := len(out) == 1; got != tt.got {
					t.Errorf("the outcome arrived: got %v, want %v", got, tt.got)
				}
				if got := sys.Census().Tasks; len(got) != 0 {
					t.Errorf("census: got tasks %v, want none", got)
				}
			})
		})
	}
}

func isBlown(err error) bool {
	f, ok := errors.AsType[*actors.Failure](err)
	return ok && f.Value == "blown"
}

// TestTaskWhoseResultCannotBeMade: the actor that waits for it fails.
func TestTaskWhoseResultCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		ended := make(chan error, 1)
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, New: newAdder, OnStop: func(err error) { ended <- err }})
		run(t, ref, func(c *actors.Context) {
			actors.Await(c, func(context.Context) (int, error) { return 1, nil }, func(int, error) any { panic("no message") })
		})
		if p, ok := errors.AsType[*actors.PanicError](<-ended); !ok || p.Value != "no message" {
			t.Errorf("the actor ended with %v, want the panic", p)
		}
	})
}

// TestTaskPanicIsLogged: one without a result, or without an actor.
func TestTaskPanicIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs syncBuffer
		sys := start(t, &actors.Options{Logger: logTo(&logs)})
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Name: "owner", New: newAdder})
		run(t, ref, func(c *actors.Context) { c.Go(func(context.Context) { panic("first") }) })
		sys.Go("nobody", func() { panic("second") })
		sys.Go("nobody", runtime.Goexit)
		synctest.Wait()
		for _, want := range []string{"owner=runtime/owner", "panic: first", "owner=nobody", "panic: second", "task_test.go"} {
			if logs.Count(want) == 0 {
				t.Errorf("the log lacks %q: %s", want, &logs)
			}
		}
		if !ref.Alive() || len(sys.Census().Tasks) != 0 {
			t.Errorf("alive %v, tasks %v", ref.Alive(), sys.Census().Tasks)
		}
	})
}

func TestGuard(t *testing.T) {
	if v, err := actors.Guard(func() (int, error) { return 1, nil }); v != 1 || err != nil {
		t.Errorf("Guard: got %d, %v", v, err)
	}
	_, err := actors.Guard(func() (int, error) { panic(struct{ secret string }{"hunter2"}) })
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Guard: got %v, want an error that does not show the value", err)
	}
}

// goroutine is the number of the one that calls it.
func goroutine() string {
	text := make([]byte, 64)
	return strings.Fields(string(text[:runtime.Stack(text, false)]))[1]
}

// TestTasksChangeNoGoroutine: what an actor does between its tasks, and the tasks, are one goroutine's while nothing
// else is to be done.
func TestTasksChangeNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, on, done := start(t, nil), make(map[string]int), make(chan struct{})
		var next func(c *actors.Context, n int)
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, New: func() actors.Actor {
			return recorder{got: func(c *actors.Context, msg any) {
				if m, ok := msg.(outcome); ok {
					next(c, m.n)
				}
			}}
		}})
		next = func(c *actors.Context, n int) { // the goroutines take turns: no lock
			if on[goroutine()]++; n == 50 {
				close(done)
				return
			}
			actors.Await(c, func(context.Context) (int, error) { on[goroutine()]++; return n + 1, nil }, toOutcome)
		}
		ref.Send(do(func(c *actors.Context) { next(c, 0) }))
		<-done
		if len(on) != 1 {
			t.Errorf("goroutines: %v", on)
		}
	})
}

// TestTasksWaitForNoMessage: a task begins at once, although the actor has more to do, has begun another
// one, or fails.
func TestTasksWaitForNoMessage(t *testing.T) {
	tests := []struct {
		name  string
		after func(c *actors.Context, begun <-chan struct{}) // in the message that has begun the task
		next  bool                                           // another message waits for the task to begin
	}{
		{"another message", func(*actors.Context, <-chan struct{}) {}, true},
		{"another task", func(c *actors.Context, begun <-chan struct{}) {
			actors.Await(c, func(context.Context) (int, error) { <-begun; return 2, nil }, toOutcome)
		}, false},
		{"another task, later", func(c *actors.Context, begun <-chan struct{}) {
			actors.Await(c, func(context.Context) (int, error) { return 2, nil }, toOutcome)
			<-begun
		}, false},
		{"a panic", func(*actors.Context, <-chan struct{}) { panic("blown") }, false},
		{"exit", func(*actors.Context, <-chan struct{}) { runtime.Goexit() }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys, begun := start(t, nil), make(chan struct{})
				ref := spawn(t, sys, actors.Spec{Kind: actors.KindClient, Name: "worker", New: tasker(make(chan outcome, 2))})
				hold := make(chan struct{})
				ref.Send(do(func(*actors.Context) { <-hold }))
				ref.Send(do(func(c *actors.Context) {
					actors.Await(c, func(context.Context) (int, error) { close(begun); return 1, nil }, toOutcome)
					tt.after(c, begun)
				}))
				if tt.next {
					ref.Send(do(func(*actors.Context) { <-begun }))
				}
				close(hold)
				<-begun
				synctest.Wait()
				if tasks := sys.Census().Tasks; len(tasks) != 0 {
					t.Errorf("tasks: %v", tasks)
				}
			})
		})
	}
}
