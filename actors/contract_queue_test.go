package actors

// The second half of the library's contract: futures, mailboxes, logging, the end.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// What ReenterAfter continues runs in the old instance after a restart. The kit
// has Await: its result is dropped then.
func TestContractReenterAfter(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		instances := 0
		var future *actor.Future
		pid := lib.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
			instances++
			n := instances
			return actor.ReceiveFunc(func(c actor.Context) {
				switch c.Message() {
				case "wait":
					future = actor.NewFuture(lib, time.Hour)
					c.ReenterAfter(future, func(any, error) { got = append(got, fmt.Sprintf("continues in %d of %d", n, instances)) })
				case "fail":
					panic("x")
				}
			})
		}))
		lib.Root.Send(pid, "wait")
		lib.Root.Send(pid, "fail")
		synctest.Wait()
		lib.Root.Send(future.PID(), "result")
		synctest.Wait()
		expect(t, "ReenterAfter", got, []string{"continues in 1 of 2"})
	})
}

// The second answer to a future overwrites the first (and races with whoever
// reads it). The kit's Reply takes the first.
func TestContractFutureAnsweredTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		future := actor.NewFuture(lib, time.Hour)
		lib.Root.Send(future.PID(), "first")
		lib.Root.Send(future.PID(), "second")
		if got, err := future.Result(); got != "second" || err != nil {
			t.Errorf("Result: got %v, %v; want the second answer", got, err)
		}
	})
}

// Of several who wait for a future one is woken, the others wait for ever. All
// who wait for a Reply are woken. (Not in a bubble: those goroutines never end.)
func TestContractFutureWakesOne(t *testing.T) {
	lib := newLibrary(t, io.Discard)
	future := actor.NewFuture(lib, -1)
	var woken atomic.Int32
	waiting := func() int {
		stacks := make([]byte, 1<<20)
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("actor.(*Future).Result("))
	}
	before := waiting() // those of an earlier run of this test are there for ever
	for range 3 {
		go func() {
			_, _ = future.Result()
			woken.Add(1)
		}()
	}
	for waiting() != before+3 {
		runtime.Gosched()
	}
	// They may still be on their way from there into the wait.
	for range 1000 {
		runtime.Gosched()
	}
	lib.Root.Send(future.PID(), "answer")
	for woken.Load() == 0 {
		runtime.Gosched()
	}
	for range 1000 {
		runtime.Gosched()
	}
	if got := woken.Load(); got == 3 {
		t.Errorf("all %d who waited were woken, want one", got)
	}
}

// What was stashed comes back only after a restart, last in first out. The kit
// has no stash.
func TestContractStash(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		failed := false
		pid := lib.Root.Spawn(script(func(c actor.Context) {
			switch m := c.Message().(type) {
			case string:
				if failed {
					got = append(got, m)
				} else {
					c.Stash()
				}
			case error:
				failed = true
				panic(m)
			}
		}))
		for _, msg := range []string{"a", "b", "c"} {
			lib.Root.Send(pid, msg)
		}
		synctest.Wait()
		expect(t, "before a restart", got, nil)
		lib.Root.Send(pid, errors.ErrUnsupported)
		synctest.Wait()
		expect(t, "after a restart", got, []string{"c", "b", "a"})
	})
}

// Shutdown of the library closes a channel: actors go on, and a second call
// panics. The kit stops all actors itself, waits for them, and calls it once.
func TestContractShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		pid := lib.Root.Spawn(script(note(&got)))
		lib.Shutdown()
		lib.Root.Send(pid, "hello")
		synctest.Wait()
		expect(t, "after Shutdown", got, []string{"Started", "string"})
		defer func() {
			if recover() == nil {
				t.Error("a second Shutdown: want a panic")
			}
		}()
		lib.Shutdown()
	})
}

// A dead letter is logged with its whole message. The kit lets nothing below an
// error through, and of those no message; it drops and counts before the library
// sees a dead letter.
func TestContractDeadLetterIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		lib := newLibrary(t, &logs)
		pid := lib.Root.Spawn(script(func(actor.Context) {}))
		lib.Root.Stop(pid)
		synctest.Wait()
		lib.Root.Send(pid, struct{ Token string }{"hunter2"})
		if !strings.Contains(logs.String(), "hunter2") {
			t.Errorf("the log lacks the message of a dead letter: %s", &logs)
		}
		time.Sleep(2 * time.Second)
	})
}

// quitter is a dispatcher that ends a mailbox's goroutine when it has turned too
// often.
type quitter struct{ left atomic.Int32 }

func (q *quitter) Schedule(f func()) { go f() }

func (q *quitter) Throughput() int {
	if q.left.Add(-1) < 0 {
		runtime.Goexit()
	}
	return 300
}

// A nil message makes the mailbox turn for ever. Ref.Send drops it.
func TestContractNilMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		q := new(quitter)
		q.left.Store(1000)
		pid := lib.Root.Spawn(script(func(actor.Context) {}).Configure(actor.WithDispatcher(q)))
		lib.Root.Send(pid, nil)
		synctest.Wait()
		if q.left.Load() >= 0 {
			t.Errorf("the mailbox ended after %d turns, want none", 1000-q.left.Load())
		}
	})
}

// runtime.Goexit in Receive, as FailNow of a test calls it, wedges the actor. In
// the kit it is a failure, and the mailbox goes on with another goroutine.
func TestContractGoexit(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		pid := lib.Root.Spawn(script(note(&got)))
		lib.Root.Send(pid, func(actor.Context) { runtime.Goexit() })
		synctest.Wait()
		lib.Root.Send(pid, "next")
		lib.Root.Stop(pid)
		time.Sleep(time.Hour)
		synctest.Wait()
		expect(t, "after Goexit", got, []string{"Started"})
	})
}

// StopFuture gives up after ten seconds, whatever is left. Shutdown of the kit
// takes a context and names what is left.
func TestContractStopFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		pid := lib.Root.Spawn(script(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Stopping); ok {
				time.Sleep(time.Minute)
			}
		}))
		synctest.Wait()
		began := time.Now()
		if err := lib.Root.StopFuture(pid).Wait(); !errors.Is(err, actor.ErrTimeout) || time.Since(began) != 10*time.Second {
			t.Errorf("StopFuture: got %v after %v, want a timeout after 10 s", err, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

// A bounded mailbox that drops, drops the oldest, without a word, and having done
// so turns for ever, as it counts on what it has dropped. The kit's are unbounded:
// what may be queued is bounded by who may send.
func TestContractBoundedDropping(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		open := make(chan struct{})
		q := new(quitter)
		q.left.Store(1000)
		pid := lib.Root.Spawn(script(func(c actor.Context) {
			switch m := c.Message().(type) {
			case func():
				m()
			case string:
				got = append(got, m)
			}
		}).Configure(actor.WithMailbox(actor.BoundedDropping(2)), actor.WithDispatcher(q)))
		lib.Root.Send(pid, func() { <-open })
		synctest.Wait()
		for _, msg := range []string{"a", "b", "c", "d"} {
			lib.Root.Send(pid, msg)
		}
		close(open)
		synctest.Wait()
		if len(got) == 4 || slices.Contains(got, "a") || !slices.Contains(got, "d") {
			t.Errorf("handled %q, want the newest only", got)
		}
		if q.left.Load() >= 0 {
			t.Errorf("the mailbox ended after %d turns, want none", 1000-q.left.Load())
		}
	})
}
