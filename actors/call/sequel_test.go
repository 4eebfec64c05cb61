package call_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
)

// overAtOnce is a context that ends as soon as somebody has seen that it has not.
type overAtOnce struct {
	context.Context
	cancel context.CancelFunc
}

func (c overAtOnce) Err() error {
	err := c.Context.Err()
	c.cancel()
	return err
}

// A call that is sent from another goroutine may be given up before that has begun: it
// ends all the same, at once (ROB-3).
func TestApartGivenUpBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		b.connect(1, b.echo(1))
		// An idle actor is there afterwards: the call needs not wait for one.
		if _, err := b.Do(t.Context(), &call.Request{Method: "first", Apart: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w := b.connect(2, nil) // never answers
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			_, err := b.Do(overAtOnce{ctx, cancel}, &call.Request{Method: "second", Apart: true})
			if took := time.Since(begun); !errors.Is(err, context.Canceled) || took > 0 {
				t.Fatalf("Do: got %v after %v, want %v at once", err, took, context.Canceled)
			}
		}
		synctest.Wait()
		if s := b.Stats(); s.Pending != 0 {
			t.Errorf("calls left: got %d, want 0; sent %q", s.Pending, w.methods())
		}
	})
}
