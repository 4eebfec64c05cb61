// Package logpace bounds the log messages that are sent to a client.
package logpace

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Log messages may come in bursts, and one in each interval (LOG-06).
const (
	Burst    = 200
	Interval = 10 * time.Millisecond
)

// Pace bounds the log messages of one request, or of a session outside of its requests. Its zero
// value has taken none.
type Pace struct{ at atomic.Pointer[pace] }

type pace struct {
	*rate.Limiter
	dropped atomic.Bool
}

// Take reports whether one more message may go out now, and whether it is the first one that may
// not.
func (l *Pace) Take() (ok, first bool) {
	p := l.at.Load()
	if p == nil {
		l.at.CompareAndSwap(nil, &pace{Limiter: rate.NewLimiter(rate.Every(Interval), Burst)})
		p = l.at.Load()
	}
	ok = p.Allow()
	return ok, !ok && !p.dropped.Swap(true)
}
