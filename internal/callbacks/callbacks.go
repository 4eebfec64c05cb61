// Package callbacks calls the functions of the program that may block.
package callbacks

import (
	"sync"

	"github.com/troupe-dev/troupe/actors"
)

// The calls that wait are bounded in number, and in the bytes of what a peer said that they
// hold (ROB-3).
const (
	maxEvents    = 256
	maxEventSize = 8 << 20
)

// Queue calls functions one at a time, in a task that runs while there are any: they may block.
type Queue struct {
	System  *actors.System
	Owner   string
	Bounded bool // what is too much is dropped; else the user looks at Len

	mu      sync.Mutex // guards the fields below it: actors and the goroutines of transports add in passing; the functions block, which an actor may not
	running bool
	waiting []event
	size    int           // of those
	dropped int           // since one was taken
	idle    chan struct{} // closed when none is left; nil without a waiter
}

// event is one call that waits.
type event struct {
	f    func()
	size int // in bytes
}

// Add has f called after those before it, unless too many wait.
func (e *Queue) Add(f func()) { e.AddSized(0, f) }

// AddSized is Add for a call that holds size bytes of a peer's.
func (e *Queue) AddSized(size int, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Bounded && (len(e.waiting) >= maxEvents || size > 0 && e.size+size > maxEventSize) {
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

// Len returns how many calls wait.
func (e *Queue) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting)
}

// Idle returns a channel that is closed once no call waits, or is under way.
func (e *Queue) Idle() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idle == nil {
		e.idle = make(chan struct{})
	}
	idle := e.idle
	e.rest()
	return idle
}

// rest ends the waits for idleness, if there is no call. It is called under the lock.
func (e *Queue) rest() {
	if !e.running && e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
}

func (e *Queue) run() {
	for {
		e.mu.Lock()
		if len(e.waiting) == 0 {
			e.running = false
			e.rest()
			e.mu.Unlock()
			return
		}
		next := e.waiting[0]
		e.waiting[0] = event{}
		if e.waiting = e.waiting[1:]; len(e.waiting) == 0 {
			e.waiting = nil
		}
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
