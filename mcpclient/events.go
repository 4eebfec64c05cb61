package mcpclient

import (
	"sync"

	"github.com/troupe-dev/troupe/actors"
)

// maxEvents bounds the calls to the user's functions that wait.
const maxEvents = 256

// events calls the user's functions one at a time, away from the goroutine that
// reads: they may block.
type events struct {
	sys   *actors.System
	owner string

	mu      sync.Mutex
	waiting []func()
	running bool
	dropped int // since one was taken
}

// add has f called after those before it, unless too many wait.
func (e *events) add(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) >= maxEvents {
		if e.dropped++; e.dropped == 1 {
			e.sys.Log().Warn("a callback is too slow; further events are dropped while it is", "owner", e.owner)
		}
		return
	}
	e.dropped = 0
	e.waiting = append(e.waiting, f)
	if !e.running {
		e.running = true
		e.sys.Go(e.owner, e.run)
	}
}

func (e *events) run() {
	for {
		e.mu.Lock()
		if len(e.waiting) == 0 {
			e.running = false
			e.mu.Unlock()
			return
		}
		f := e.waiting[0]
		e.waiting = append(e.waiting[:0:0], e.waiting[1:]...)
		e.mu.Unlock()
		e.call(f)
	}
}

// call keeps the queue alive when f panics, which is logged.
func (e *events) call(f func()) {
	_, err := actors.Guard(func() (struct{}, error) { f(); return struct{}{}, nil })
	if err != nil {
		e.sys.Log().Error("a callback panicked", "owner", e.owner, "error", err)
	}
}
