package pipe

import (
	"sync/atomic"
	"time"
)

// Lease lets a quick handler run on the goroutine that reads a connection: while
// it runs it offers its place, and a clock that ticks each millisecond gives the
// place to another goroutine when it finds the same handler still running. Once
// the place is offered, the reader and its buffer belong to the goroutine that wins it.
type Lease struct {
	take  func() // runs the reader on another goroutine
	clock *time.Timer
	ended atomic.Bool

	// state is a count of the offers, times two, and 1 while one is open.
	state atomic.Uint64
	ticks atomic.Bool // the clock is running

	seen atomic.Uint64 // the clock's: the state at the last tick
}

// tick is how long a handler may hold up others, up to twice as long.
const tick = time.Millisecond

// Init sets the function that runs the reader on another goroutine.
func (l *Lease) Init(take func()) {
	l.take = take
	l.clock = time.AfterFunc(time.Hour, l.look)
	l.clock.Stop()
}

// Offer is called by the owner of the place.
func (l *Lease) Offer() {
	l.state.Store(l.state.Load() + 3) // from 2n to 2(n+1)+1
	if !l.ticks.Load() && l.ticks.CompareAndSwap(false, true) {
		l.clock.Reset(tick)
	}
}

// Reclaim is called by the goroutine that has offered the place, and reports whether it is
// still the owner.
func (l *Lease) Reclaim() bool {
	open := l.state.Load()
	return open&1 == 1 && l.state.CompareAndSwap(open, open-1)
}

// look runs at each tick.
func (l *Lease) look() {
	now := l.state.Load()
	same := l.seen.Swap(now) == now
	switch {
	case l.ended.Load():
		return
	case now&1 == 1 && same:
		if l.state.CompareAndSwap(now, now-1) {
			l.take()
		}
	case same: // nothing happens: rest until the next offer
		l.ticks.Store(false)
		if l.state.Load() == now || !l.ticks.CompareAndSwap(false, true) {
			return
		}
	}
	l.clock.Reset(tick)
}

// End stops the clock.
func (l *Lease) End() { l.ended.Store(true) }
