// Package canceller ends what a call waits for, at each of its steps.
package canceller

import (
	"context"
	"sync"
)

// Canceller ends what a call waits for at the moment. A context for each call would take ten
// times its memory while thousands wait.
type Canceller struct {
	mu   sync.Mutex  // guards all fields: any goroutine may cancel, and the call's steps have several
	stop func(error) // ends what the call waits for; nil while it waits for nothing
	over bool        // the call was cancelled or has its outcome
	done bool        // it has its outcome
}

// Set says how to end what the call waits for from now on. If the call was cancelled, that ends
// at once.
func (c *Canceller) Set(stop func(error)) {
	c.mu.Lock()
	if !c.over {
		c.stop, stop = stop, nil
	} else if c.done {
		stop = nil
	}
	c.mu.Unlock()
	if stop != nil {
		stop(context.Canceled)
	}
}

// Cancel ends what the call waits for, now and later.
func (c *Canceller) Cancel() { c.end(false) }

// Forget says that the call has its outcome.
func (c *Canceller) Forget() { c.end(true) }

func (c *Canceller) end(done bool) {
	c.mu.Lock()
	stop := c.stop
	c.stop, c.over, c.done = nil, true, c.done || done
	c.mu.Unlock()
	if stop != nil && !done {
		stop(context.Canceled)
	}
}
