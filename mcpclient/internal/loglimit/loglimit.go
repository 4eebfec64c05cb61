// Package loglimit bounds the log messages of servers.
package loglimit

import (
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// A server's log messages are for people: so many a second, after a burst, are
// passed on (LOG-06).
const (
	Rate  = 100
	Burst = 1000
)

// Limit bounds log messages.
type Limit struct {
	rate    *rate.Limiter
	dropped atomic.Int64 // since one was passed on
}

// New returns the limit of one server.
func New() *Limit { return &Limit{rate: rate.NewLimiter(Rate, Burst)} }

// Allow reports whether a message is passed on, and tells the log how many were not.
func (l *Limit) Allow(log *slog.Logger) bool {
	if !l.rate.Allow() {
		l.dropped.Add(1)
		return false
	}
	if dropped := l.dropped.Swap(0); dropped > 0 {
		log.Warn("the server logged too much; messages were dropped", "dropped", dropped)
	}
	return true
}
