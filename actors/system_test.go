package actors_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// TestShutdownOrder: the youngest tree first, each child before its parent, what
// waits in tasks is cancelled and waited for.
func TestShutdownOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		var mu sync.Mutex
		var order []string
		note := func(name string) func(error) {
			return func(error) { mu.Lock(); defer mu.Unlock(); order = append(order, name) }
		}
		for _, name := range []string{"a", "b"} {
			ref := spawn(t, sys, actors.Spec{Kind: actors.KindHost, Name: name, New: newAdder, OnStop: note(name)})
			run(t, ref, func(c *actors.Context) {
				c.Spawn(actors.Spec{Kind: actors.KindCall, Inline: true, New: newAdder, OnStop: note(name + "/kid")})
				c.Go(func(ctx context.Context) { <-ctx.Done(); time.Sleep(time.Second); note(name + " task")(nil) })
			})
		}
		if err := sys.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if want := []string{"b/kid", "b", "a/kid", "a", "a task", "b task"}; !slices.Equal(order[:4], want[:4]) || len(order) != 6 {
			t.Errorf("order: got %v, want %v", order, want)
		}
		if err := sys.Shutdown(t.Context()); err != nil {
			t.Errorf("a second Shutdown: %v", err)
		}
		if _, err := sys.Spawn(actors.Spec{Kind: actors.KindHost, New: newAdder}); !errors.Is(err, actors.ErrClosed) {
			t.Errorf("Spawn after Shutdown: got %v, want ErrClosed", err)
		}
		if got := sys.Census(); got.Live() != 0 || got.Actors[actors.KindRuntime].Live != 0 {
			t.Errorf("census: %+v", got)
		}
	})
}

// TestShutdownNamesWhatIsLeft: actors and tasks that do not end in time. Those
// that can end do, and the rest may do so later.
func TestShutdownNamesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, err := actors.NewSystem(nil)
		if err != nil {
			t.Fatal(err)
		}
		open := make(chan struct{})
		idle := spawn(t, sys, actors.Spec{Kind: actors.KindHost, Name: "idle", New: newAdder})
		deaf := spawn(t, sys, actors.Spec{Kind: actors.KindHost, Name: "deaf", New: newAdder})
		run(t, deaf, func(c *actors.Context) {
			c.Spawn(actors.Spec{Kind: actors.KindCall, Inline: true, New: newAdder})
			c.Spawn(actors.Spec{Kind: actors.KindCall, Inline: true, New: newAdder})
		})
		worker := spawn(t, sys, actors.Spec{Kind: actors.KindServer, Name: "worker", New: newAdder})
		run(t, worker, func(c *actors.Context) { c.Go(func(context.Context) { <-open }) })
		sys.Go("a loop", func() { <-open })
		deaf.Send(do(func(*actors.Context) { <-open }))
		synctest.Wait()

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.ErrUnsupported)
		defer cancel()
		began := time.Now()
		err = sys.Shutdown(ctx)
		left, ok := errors.AsType[*actors.ShutdownError](err)
		if !ok || !errors.Is(err, errors.ErrUnsupported) || time.Since(began) != time.Minute {
			t.Fatalf("Shutdown: got %v after %v", err, time.Since(began))
		}
		// The idle one is told to stop only then, and may be quick enough.
		left.Actors = slices.DeleteFunc(left.Actors, func(path string) bool { return path == "runtime/idle" })
		if want := []string{"call × 2", "runtime/deaf"}; !slices.Equal(left.Actors, want) {
			t.Errorf("actors left: got %q, want %q", left.Actors, want)
		}
		if want := []string{"a loop", "runtime/worker"}; !slices.Equal(left.Tasks, want) {
			t.Errorf("tasks left: got %q, want %q", left.Tasks, want)
		}
		for _, want := range []string{"runtime/deaf", "a loop"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not name %q: %v", want, err)
			}
		}
		<-idle.Stopped() // though the deaf one comes before it
		if again := sys.Shutdown(t.Context()); again != err {
			t.Errorf("a second Shutdown: got %v, want the same", again)
		}
		close(open)
		<-deaf.Stopped()
		synctest.Wait()
		if got := sys.Census(); got.Live() != 0 || len(got.Tasks) != 0 || got.Actors[actors.KindRuntime].Live != 0 {
			t.Errorf("in the end: %+v", got)
		}
		time.Sleep(time.Millisecond)
	})
}

func TestSpawnErrors(t *testing.T) {
	sys := start(t, nil)
	host := spawn(t, sys, actors.Spec{Kind: actors.KindHost, Name: "a/b$\x00c", New: newAdder})
	if want := "runtime/a_b__c"; host.Path() != want {
		t.Errorf("Path: got %q, want %q", host.Path(), want)
	}
	_, err := sys.Spawn(actors.Spec{Kind: actors.KindServer, Name: "a/b$\x00c", New: newAdder})
	if taken, ok := errors.AsType[*actors.NameTakenError](err); !ok || !errors.Is(err, actors.ErrNameTaken) || taken.Path != host.Path() {
		t.Errorf("Spawn of a taken name: got %v", err)
	}
	for _, kind := range []actors.Kind{actors.KindRuntime, 200} {
		if _, err := sys.Spawn(actors.Spec{Kind: kind, New: newAdder}); !errors.Is(err, actors.ErrNoKind) {
			t.Errorf("Spawn of %v: got %v, want ErrNoKind", kind, err)
		}
	}
	var ctx *actors.Context
	run(t, host, func(c *actors.Context) { ctx = c })
	if got := sys.Census().Actors[actors.KindServer].Spawned; got != 0 {
		t.Errorf("a refused spawn was counted %d times", got)
	}
	if n, err := ask(t, host, 1); n != 1 || err != nil {
		t.Errorf("whose name was asked for: got %d, %v", n, err)
	}
	host.Stop()
	<-host.Stopped()
	if _, err := ctx.Spawn(actors.Spec{Kind: actors.KindCall, New: newAdder}); err == nil {
		t.Error("Spawn outside of Receive: got no error")
	}
}

// TestNameIsFreeAgain once Stopped is closed, and what is sent late to the old
// actor does not reach the new one.
func TestNameIsFreeAgain(t *testing.T) {
	sys := start(t, nil)
	var old actors.Ref
	for n := range 1000 {
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindHost, Name: "host", New: newAdder})
		old.Send(add{100, new(actors.Reply[int])})
		if got, err := ask(t, ref, n); got != n || err != nil {
			t.Fatalf("ask: got %d, %v; want %d", got, err, n)
		}
		if ref == old {
			t.Fatal("two actors have the same Ref")
		}
		go ref.Send(add{100, new(actors.Reply[int])})
		ref.Stop()
		<-ref.Stopped()
		old = ref
	}
}

// TestNameOfAChildThatStops: it is taken until ChildStopped. The library would
// lose track of a new child that is spawned before.
func TestNameOfAChildThatStops(t *testing.T) {
	sys := start(t, nil)
	spec := actors.Spec{Kind: actors.KindCall, Name: "kid", New: newAdder}
	stopped := make(chan error, 1)
	parent := spawn(t, sys, actors.Spec{Kind: actors.KindHost, New: func() actors.Actor {
		return recorder{got: func(c *actors.Context, msg any) {
			if _, ok := msg.(actors.ChildStopped); ok {
				_, err := c.Spawn(spec)
				stopped <- err
			}
		}}
	}})
	run(t, parent, func(c *actors.Context) {
		kid, err := c.Spawn(spec)
		if err != nil {
			t.Error(err)
		}
		kid.Stop()
		for kid.Alive() {
			runtime.Gosched()
		}
		if _, err := c.Spawn(spec); !errors.Is(err, actors.ErrNameTaken) {
			t.Errorf("Spawn before ChildStopped: got %v, want ErrNameTaken", err)
		}
	})
	if err := <-stopped; err != nil {
		t.Errorf("Spawn in ChildStopped: %v", err)
	}
}

// TestCensus is exact after 100,000 actors.
func TestCensus(t *testing.T) {
	const n = 50_000
	sys := start(t, nil)
	for _, inline := range []bool{true, false} {
		parent := spawn(t, sys, actors.Spec{Kind: actors.KindClient, New: newAdder})
		var stopped []actors.Ref
		run(t, parent, func(c *actors.Context) {
			for i := range n {
				ref, err := c.Spawn(actors.Spec{Kind: actors.KindCall, Inline: inline, New: newAdder})
				if err != nil {
					t.Error(err)
					return
				}
				if i%2 == 0 {
					ref.Stop()
					stopped = append(stopped, ref)
				}
			}
		})
		for _, ref := range stopped {
			<-ref.Stopped()
		}
		if got := sys.Census().Live(actors.KindCall); got != n/2 {
			t.Errorf("%s: %d calls alive, want %d", mailboxName(inline), got, n/2)
		}
		parent.Stop()
		<-parent.Stopped()
		if got := sys.Census().Live(); got != 0 {
			t.Errorf("%s: %d alive, want none", mailboxName(inline), got)
		}
	}
	if got := sys.Census().Actors[actors.KindCall]; got != (actors.Count{Spawned: 2 * n}) {
		t.Errorf("census: got %+v, want %d spawned", got, 2*n)
	}
}

// TestAnswersDuringTask: an actor with a task of ten seconds answers at once.
func TestAnswersDuringTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, New: newAdder})
		run(t, ref, func(c *actors.Context) {
			for range 100 {
				c.Go(func(context.Context) { time.Sleep(10 * time.Second) })
			}
		})
		began := time.Now()
		if ok, err := actors.Ask(t.Context(), ref, func(r *actors.Reply[bool]) any { return probe{r} }); !ok || err != nil || time.Since(began) != 0 {
			t.Errorf("probe: got %v, %v after %v", ok, err, time.Since(began))
		}
		ref.Stop()
		<-ref.Stopped()
		if time.Since(began) != 0 {
			t.Errorf("the stop took %v", time.Since(began))
		}
		time.Sleep(10 * time.Second)
	})
}

// TestNothingIsPrinted runs what makes the library talk in a process of its own,
// which must write nothing. A byte on stdout corrupts a stdio server.
func TestNothingIsPrinted(t *testing.T) {
	const child = "TROUPE_ACTORS_QUIET"
	if os.Getenv(child) != "" {
		makeNoise(t)
		os.Exit(0) // before the test's own report
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingIsPrinted$")
	cmd.Env = append(os.Environ(), child+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stdout.Len()+stderr.Len() != 0 {
		t.Errorf("got %v, stdout %q, stderr %q; want nothing", err, &stdout, &stderr)
	}
}

func makeNoise(t *testing.T) {
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []actors.Kind{actors.KindCall, actors.KindHost, actors.KindSession} {
		ref := spawn(t, sys, actors.Spec{Kind: kind, New: newAdder})
		for range 6 {
			ref.Send(blow{})
		}
		ref.Stop()
		<-ref.Stopped()
		ref.Send(blow{})
	}
	sys.Go("nobody", func() { panic("a task") })
	if err := sys.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestLogsHoldNoMessages: what is in a message that failed, was dropped or was
// panicked with is not logged, at any level.
func TestLogsHoldNoMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "hunter2"
		type prompt struct{ text string }
		var logs syncBuffer
		sys := start(t, &actors.Options{Logger: logTo(&logs)})
		for _, inline := range []bool{false, true} {
			ref := spawn(t, sys, actors.Spec{Kind: actors.KindClient, Name: "client" + mailboxName(inline), Inline: inline, New: func() actors.Actor {
				return recorder{got: func(_ *actors.Context, msg any) {
					if m, ok := msg.(*prompt); ok {
						panic(m) // the worst: the message itself
					}
				}}
			}})
			ref.Send(&prompt{secret})
			time.Sleep(time.Second)
			run(t, ref, func(c *actors.Context) {
				c.Go(func(context.Context) { panic(prompt{secret}) })
			})
			for range 10 {
				ref.Send(&prompt{secret})
			}
			ref.Stop()
			<-ref.Stopped()
			ref.Send(&prompt{secret})
		}
		time.Sleep(time.Second)
		if logs.Count(secret) != 0 {
			t.Errorf("the log holds the secret: %s", &logs)
		}
		if logs.Count("level=INFO") != 0 {
			t.Errorf("the library chats in the log: %s", &logs)
		}
		for _, want := range []string{"actor=runtime/clientpooled", "actor=runtime/clientinline", "kind=client", "*actors_test.prompt", "level=ERROR", "system_test.go", "a task panicked"} {
			if logs.Count(want) == 0 {
				t.Errorf("the log lacks %q: %s", want, &logs)
			}
		}
	})
}

// TestTrace: messages are recorded in the order in which they are handled.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trace := &actors.Tracer{Keep: func(ev actors.TraceEvent) bool { return ev.Actor.Kind() != actors.KindRuntime }}
		sys := start(t, &actors.Options{Trace: trace.Record})
		host := spawn(t, sys, actors.Spec{Kind: actors.KindHost, New: newAdder})
		var call actors.Ref
		run(t, host, func(c *actors.Context) {
			call, _ = c.Spawn(actors.Spec{Kind: actors.KindCall, Inline: true, New: newAdder})
		})
		call.Send(&ping{})
		call.Send(new(actors.Reply[map[string]time.Time]))
		run(t, call, func(c *actors.Context) { c.After(time.Second, plain{}) })
		time.Sleep(2 * time.Second)
		call.Stop()
		<-call.Stopped()
		synctest.Wait()
		want := []string{
			"host Started", "host do", "call Started", "call ping", "call Reply", "call do", "call plain",
			"call Stopping", "host ChildStopped",
		}
		if got := trace.Lines(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
