// Package callbacks calls the functions of the program that may block.
package callbacks

import (
	"sync"

	"github.com/troupe-dev/troupe/actors"
)

// The calls to the user's functions that wait are bounded in number, and in the
// bytes of what the server said that they hold (ROB-3).
const (
	maxEvents    = 256
	maxEventSize = 8 << 20
)

// Queue calls functions one at a time, away from the goroutine that
// reads: they may block.
type Queue struct {
	System *actors.System
	Owner  string

	mu      sync.Mutex // guards the fields below it: the goroutine that reads adds, another one calls; the callbacks block, which an actor may not
	waiting []event
	size    int // of those
	running bool
	dropped int // since one was taken
}

// event is one call that waits.
type event struct {
	f    func()
	size int // in bytes
}

// Add has f called after those before it, unless too many wait.
func (e *Queue) Add(f func()) { e.AddSized(0, f) }

// AddSized is Add for a call that holds size bytes of the server's.
func (e *Queue) AddSized(size int, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) >= maxEvents || size > 0 && e.size+size > maxEventSize {
		if e.dropped++; e.dropped == 1 {
			e.System.Log().Warn("a callback is too slow; further events are dropped while it is", "owner", e.Owner)
		}
		return
	}
	e.dropped = 0
	e.waiting = append(e.waiting, event{f, size})
	e.size += size
	if !e.running {
		e.running = true
		e.System.Go(e.Owner, e.run)
	}
}

func (e *Queue) run() {
	for {
		e.mu.Lock()
		if len(e.waiting) == 0 {
			e.running = false
			e.mu.Unlock()
			return
		}
		next := e.waiting[0]
		e.waiting = append(e.waiting[:0:0], e.waiting[1:]...)
		e.size -= next.size
		e.mu.Unlock()
		e.call(next.f)
	}
}

// call keeps the queue alive when f panics, which is logged.
func (e *Queue) call(f func()) {
	_, err := actors.Guard(func() (struct{}, error) { f(); return struct{}{}, nil })
	if err != nil {
		e.System.Log().Error("a callback panicked", "owner", e.Owner, "error", err)
	}
}
