package offered

import (
	"sync/atomic"
	"time"
)

// Speed decides where a handler runs: it earns a place on the reading goroutine by
// quick runs elsewhere, and loses it by one slow run there.
type Speed struct{ earned atomic.Int32 }

const (
	quickRuns = 3
	quickTime = 400 * time.Microsecond // for a run to count
	slowTime  = 800 * time.Microsecond // for the place to be lost
)

// Quick reports whether the handler may run on the reading goroutine. It is false for nil.
func (s *Speed) Quick() bool { return s != nil && s.earned.Load() >= quickRuns }

// Ran records a run, without the time in which the client was asked.
func (s *Speed) Ran(inline bool, took time.Duration) {
	switch {
	case s == nil:
	case inline && took > slowTime, !inline && took > quickTime:
		s.earned.Store(0)
	case !inline && !s.Quick():
		s.earned.Add(1)
	}
}
