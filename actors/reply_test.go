package actors_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// TestReplyOnce: a hundred owners race to answer, one wins, and all who wait,
// before and after, see its answer.
func TestReplyOnce(t *testing.T) {
	for range 100 {
		var reply actors.Reply[int]
		var winner atomic.Int64
		var wins atomic.Int32
		var all sync.WaitGroup
		answers := make(chan int, 20)
		for range 10 {
			all.Go(func() {
				n, err := reply.Wait(t.Context())
				if err != nil {
					t.Errorf("Wait: %v", err)
				}
				answers <- n
			})
		}
		for n := range 100 {
			all.Go(func() {
				if reply.Complete(n+1, nil) {
					winner.Store(int64(n + 1))
					wins.Add(1)
				}
			})
		}
		all.Wait()
		for range 10 {
			n, _ := reply.Wait(t.Context())
			answers <- n
		}
		close(answers)
		if got := wins.Load(); got != 1 {
			t.Fatalf("Complete: %d winners, want 1", got)
		}
		for n := range answers {
			if n != int(winner.Load()) {
				t.Fatalf("Wait: got %d, want the winner's %d", n, winner.Load())
			}
		}
		if !reply.Completed() || reply.Complete(0, errors.ErrUnsupported) {
			t.Error("a reply was completed again")
		}
		if n, err := reply.Result(); n != int(winner.Load()) || err != nil {
			t.Errorf("Result: got %d, %v", n, err)
		}
	}
}

func TestReplyWait(t *testing.T) {
	gone, end := context.WithCancelCause(t.Context())
	end(errors.ErrUnsupported)
	var reply actors.Reply[int]
	if _, err := reply.Wait(gone); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Wait: got %v, want the cause of the context", err)
	}
	if n, err := reply.Result(); n != 0 || err != nil || reply.Completed() {
		t.Errorf("Result before the answer: got %d, %v", n, err)
	}
	done := reply.Done()
	reply.Complete(3, context.Canceled)
	<-done
	<-reply.Done()
	for range 100 { // both are ready: the answer counts
		if n, err := reply.Wait(gone); n != 3 || err != context.Canceled {
			t.Fatalf("Wait: got %d, %v; want the answer", n, err)
		}
	}
}

// TestAsk: an answer, the end of the context, or the end of the actor, whatever
// its mailbox is.
func TestAsk(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(mailboxName(inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := start(t, nil)
				silent := func(*actors.Reply[int]) any { return plain{} }
				ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: inline, New: newAdder})
				if n, err := ask(t, ref, 4); n != 4 || err != nil {
					t.Errorf("Ask: got %d, %v", n, err)
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.ErrUnsupported)
				defer cancel()
				if _, err := actors.Ask(ctx, ref, silent); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("Ask with a context that ends: got %v", err)
				}
				time.AfterFunc(time.Second, ref.Stop)
				if _, err := actors.Ask(t.Context(), ref, silent); !errors.Is(err, actors.ErrStopped) {
					t.Errorf("Ask while the actor stops: got %v, want ErrStopped", err)
				}
				if _, err := ask(t, ref, 1); !errors.Is(err, actors.ErrStopped) {
					t.Errorf("Ask a stopped actor: got %v, want ErrStopped", err)
				}
				if got := sys.Census().Dropped; got != 1 {
					t.Errorf("census: %d messages dropped, want 1", got)
				}
			})
		})
	}
}
