package inbound_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// TIME-05: while a person is asked the deadline stands still.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &inbound.Options{Deadline: time.Minute})
		r := &held{end: make(chan struct{}), answered: make(chan error, 1)}
		if err := c.Begin(&r.Call, r, inbound.Request{ID: mcp.IntID(1)}); err != nil {
			t.Fatal(err)
		}
		c.sys.Go("test", r.Run)
		start := time.Now()
		time.Sleep(30 * time.Second)
		one := r.Hold()
		time.Sleep(time.Hour)
		two := r.Hold() // they nest
		one()
		one()
		time.Sleep(time.Hour)
		if r.Err() != nil {
			t.Fatalf("the call ended while it was held: %v", r.Err())
		}
		two()
		synctest.Wait()
		if at, _ := r.Deadline(); !at.Equal(start.Add(2*time.Hour + time.Minute)) {
			t.Errorf("Deadline: got %v after the start, want 2h1m", at.Sub(start))
		}
		err := <-r.answered
		if took := time.Since(start); took != 2*time.Hour+time.Minute {
			t.Errorf("the call ended after %v, want 2h1m", took)
		}
		var late *inbound.DeadlineError
		if !errors.As(err, &late) {
			t.Errorf("outcome: got %v, want the deadline's", err)
		}
		close(r.end)
	})
}

// TIME-05: a hold that is over before the deadline delays it all the same, each one anew.
func TestHoldBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &inbound.Options{Deadline: time.Minute})
		r := &held{end: make(chan struct{}), answered: make(chan error, 1)}
		if err := c.Begin(&r.Call, r, inbound.Request{ID: mcp.IntID(1)}); err != nil {
			t.Fatal(err)
		}
		c.sys.Go("test", r.Run)
		start := time.Now()
		for range 2 {
			release := r.Hold()
			time.Sleep(10 * time.Second)
			release()
		}
		time.Sleep(45 * time.Second) // the timer has fired at a minute
		release := r.Hold()
		time.Sleep(10 * time.Second)
		release()
		<-r.answered
		if took := time.Since(start); took != 90*time.Second {
			t.Errorf("the call ended after %v, want 1m30s", took)
		}
		close(r.end)
	})
}

// A hold that ends after its call reaches no other call of the same actor.
func TestHoldOfAnEndedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &inbound.Options{Deadline: time.Minute})
		one := &held{end: make(chan struct{}), answered: make(chan error, 1)}
		close(one.end)
		if err := c.Serve(&one.Call, one, inbound.Request{ID: mcp.IntID(1)}); err != nil {
			t.Fatal(err)
		}
		release := one.Hold()
		two := &held{end: make(chan struct{}), answered: make(chan error, 1)}
		if err := c.Begin(&two.Call, two, inbound.Request{ID: mcp.IntID(2)}); err != nil {
			t.Fatal(err)
		}
		c.sys.Go("test", two.Run)
		time.Sleep(30 * time.Second)
		release()
		start := time.Now()
		<-two.answered
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("the second call ended after %v, want 30s", took)
		}
		close(two.end)
	})
}

// held is a handler that ends when it may.
type held struct {
	inbound.Call
	end      chan struct{}
	answered chan error
}

func (h *held) Handle(ctx context.Context) error { <-h.end; return nil }
func (h *held) Answer(err error)                 { h.answered <- err }
