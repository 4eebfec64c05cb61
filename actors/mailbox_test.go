package actors_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/actors"
)

// TestEachMessageOnceAndInOrder: 64 senders, each with an order of its own, and
// never two goroutines in the actor.
func TestEachMessageOnceAndInOrder(t *testing.T) {
	const senders, each = 64, 10_000
	type numbered struct {
		actors.Node
		sender, n int
	}
	for _, inline := range []bool{true, false} {
		t.Run(mailboxName(inline), func(t *testing.T) {
			sys := start(t, nil)
			var next [senders]int // no lock: the actor's own
			var inside, failures int
			done := make(chan struct{})
			left := senders * each
			ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: inline, New: func() actors.Actor {
				return recorder{got: func(_ *actors.Context, msg any) {
					m, ok := msg.(*numbered)
					if !ok {
						return
					}
					if inside++; inside != 1 || next[m.sender] != m.n {
						failures++
					}
					next[m.sender] = m.n + 1
					if left--; left == 0 {
						close(done)
					}
					inside--
				}}
			}})
			var all sync.WaitGroup
			for sender := range senders {
				msgs := make([]numbered, each)
				all.Go(func() {
					for n := range msgs {
						msgs[n].sender, msgs[n].n = sender, n
						ref.Send(&msgs[n])
					}
				})
			}
			all.Wait()
			<-done
			run(t, ref, func(*actors.Context) {
				if failures != 0 || left != 0 {
					t.Errorf("%d messages out of order or together, %d too few", failures, left)
				}
			})
		})
	}
}

// TestNoMessageIsLeftBehind: when all senders have returned, everything they sent
// to an idle inline actor was handled, by one of them: also what was sent while
// the one that ran it was about to leave.
func TestNoMessageIsLeftBehind(t *testing.T) {
	sys := start(t, nil)
	var handled atomic.Int32
	ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: true, New: func() actors.Actor {
		return recorder{got: func(_ *actors.Context, msg any) {
			if _, ok := msg.(*ping); ok {
				handled.Add(1)
			}
		}}
	}})
	const senders = 2
	var begin [senders]chan *ping
	sent := make(chan struct{}, senders)
	for i := range begin {
		begin[i] = make(chan *ping)
		defer close(begin[i])
		go func() {
			for msg := range begin[i] {
				ref.Send(msg)
				sent <- struct{}{}
			}
		}()
	}
	for round := range int32(50_000) {
		for i := range begin {
			begin[i] <- &ping{}
		}
		for range begin {
			<-sent
		}
		if got := handled.Load(); got != (round+1)*senders {
			t.Fatalf("round %d: %d messages handled, want %d", round, got, (round+1)*senders)
		}
	}
}

// TestInlineSendAllocatesNothing: a message with a Node is its own queue node,
// and may be queued again by its own handler.
func TestInlineSendAllocatesNothing(t *testing.T) {
	sys := start(t, nil)
	var handled int
	ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: true, New: func() actors.Actor {
		return recorder{got: func(c *actors.Context, msg any) {
			if m, ok := msg.(*ping); ok {
				handled++
				if m.n++; m.n%2 == 1 {
					c.Self().Send(m)
				}
			}
		}}
	}})
	msg := &ping{}
	if n := testing.AllocsPerRun(1000, func() { ref.Send(msg) }); n != 0 {
		t.Errorf("Send: got %v allocations, want 0", n)
	}
	if handled != 2002 {
		t.Errorf("handled: got %d, want 2002", handled)
	}
}

// TestInlineSendToItself queues: Receive is never entered twice.
func TestInlineSendToItself(t *testing.T) {
	sys := start(t, nil)
	var got []int
	ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: true, New: func() actors.Actor {
		return recorder{got: func(c *actors.Context, msg any) {
			if m, ok := msg.(plain); ok && m.n < 3 {
				c.Self().Send(plain{m.n + 1})
				got = append(got, m.n)
			}
		}}
	}})
	ref.Send(plain{})
	if want := []int{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSystemBeforeUser: a stop overtakes what waits, and what waits is dropped.
func TestSystemBeforeUser(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(mailboxName(inline), func(t *testing.T) {
			sys := start(t, nil)
			var handled atomic.Int32
			blocked, open := make(chan struct{}), make(chan struct{})
			ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: inline, New: func() actors.Actor {
				return recorder{got: func(_ *actors.Context, msg any) {
					if _, ok := msg.(plain); ok {
						handled.Add(1)
					}
				}}
			}})
			go ref.Send(do(func(*actors.Context) { close(blocked); <-open }))
			<-blocked
			for range 10 {
				ref.Send(plain{})
			}
			ref.Stop()
			close(open)
			<-ref.Stopped()
			if got := handled.Load(); got != 0 {
				t.Errorf("%d messages were handled after the stop, want 0", got)
			}
		})
	}
}

// TestPanicKeepsTheRest: what is queued behind a message that panics is handled
// after the restart, in order, and the sender does not see the panic.
func TestPanicKeepsTheRest(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(mailboxName(inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				var got []int
				ref := spawn(t, sys, actors.Spec{Kind: actors.KindHost, Inline: inline, New: func() actors.Actor {
					return recorder{got: func(_ *actors.Context, msg any) {
						if m, ok := msg.(plain); ok {
							if m.n == 2 {
								panic("the middle")
							}
							got = append(got, m.n)
						}
					}}
				}})
				blocked, open := make(chan struct{}), make(chan struct{})
				go ref.Send(do(func(*actors.Context) { close(blocked); <-open }))
				<-blocked
				for n := range 5 {
					ref.Send(plain{n})
				}
				close(open)
				synctest.Wait()
				if want := []int{0, 1, 3, 4}; !slices.Equal(got, want) {
					t.Errorf("handled: got %v, want %v", got, want)
				}
			})
		})
	}
}

// TestZeroRef: the zero Ref and nil messages are harmless.
func TestZeroRef(t *testing.T) {
	var nobody actors.Ref
	nobody.Send("hello")
	nobody.Stop()
	<-nobody.Stopped()
	if !nobody.IsZero() || nobody.Alive() || nobody.Path() != "" || nobody.Kind().String() != fmt.Sprintf("kind(%d)", len(actors.Kinds())) {
		t.Errorf("the zero Ref: %v %v %q %v", nobody.IsZero(), nobody.Alive(), nobody.Path(), nobody.Kind())
	}
	if _, err := ask(t, nobody, 1); err != actors.ErrStopped {
		t.Errorf("Ask: got %v, want ErrStopped", err)
	}
	sys := start(t, nil)
	for _, inline := range []bool{false, true} {
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: inline, New: newAdder})
		ref.Send(nil)
		if got, err := ask(t, ref, 1); got != 1 || err != nil {
			t.Errorf("after a nil message: got %d, %v", got, err)
		}
	}
}
