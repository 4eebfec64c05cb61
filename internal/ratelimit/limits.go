// Package ratelimit bounds the requests of each principal in a time (TOOL-15, CMP-04).
package ratelimit

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/troupe-dev/troupe/internal/memo"
)

// Limits are the rate limits of principals. Anonymous sessions have their own, see Fresh.
type Limits struct {
	every rate.Limit
	burst int
	by    memo.Map[string, *rate.Limiter] // by the principal
}

// maxLimited bounds the principals that are remembered. Beyond it the limits forget the one
// that has sent no request for the longest time: very likely its burst is full again.
const maxLimited = 10_000

// New returns nil where there is no limit.
func New(perSecond float64, burst int) *Limits {
	if !(perSecond > 0) { // also not a number
		return nil
	}
	if burst <= 0 {
		burst = max(1, int(perSecond))
	}
	l := &Limits{every: rate.Limit(perSecond), burst: burst}
	l.by.Max = maxLimited
	return l
}

// Fresh returns a full limit; nil where there is none.
func (l *Limits) Fresh() *rate.Limiter {
	if l == nil {
		return nil
	}
	return rate.NewLimiter(l.every, l.burst)
}

// Of returns the limit of a principal.
func (l *Limits) Of(id string) (limit *rate.Limiter) {
	l.by.Update(id, 0, func(known *rate.Limiter, ok bool) (*rate.Limiter, bool) {
		if limit = known; !ok {
			limit = l.Fresh()
		}
		return limit, true
	})
	return limit
}

// Take takes a request off a limit, and returns after what time it may come, 0 for now.
func (l *Limits) Take(limit *rate.Limiter) (wait time.Duration) {
	now := time.Now()
	if limit.AllowN(now, 1) {
		return 0
	}
	return max(1, time.Duration((1-limit.TokensAt(now))/float64(l.every)*float64(time.Second)))
}
