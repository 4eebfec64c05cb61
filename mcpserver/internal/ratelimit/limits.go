// Package ratelimit bounds the requests of each principal in a time (TOOL-15, CMP-04).
package ratelimit

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are the rate limits of principals. Anonymous sessions have their own, see Fresh.
type Limits struct {
	every rate.Limit
	burst int

	mu    sync.Mutex               // guards by and order, which the goroutines of all HTTP requests use for an instant
	by    map[string]*list.Element // of *limited, by the principal
	order *list.List               // the principal of the newest request is first
}

type limited struct {
	id    string
	limit *rate.Limiter
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
	return &Limits{every: rate.Limit(perSecond), burst: burst, by: make(map[string]*list.Element), order: list.New()}
}

// Fresh returns a full limit; nil where there is none.
func (l *Limits) Fresh() *rate.Limiter {
	if l == nil {
		return nil
	}
	return rate.NewLimiter(l.every, l.burst)
}

// Of returns the limit of a principal.
func (l *Limits) Of(id string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.by[id]; e != nil {
		l.order.MoveToFront(e)
		return e.Value.(*limited).limit
	}
	if l.order.Len() >= maxLimited {
		oldest := l.order.Remove(l.order.Back()).(*limited)
		delete(l.by, oldest.id)
	}
	one := &limited{id, l.Fresh()}
	l.by[id] = l.order.PushFront(one)
	return one.limit
}

// Take takes a request off a limit, and returns after what time it may come, 0 for now.
func (l *Limits) Take(limit *rate.Limiter) (wait time.Duration) {
	now := time.Now()
	if limit.AllowN(now, 1) {
		return 0
	}
	return max(1, time.Duration((1-limit.TokensAt(now))/float64(l.every)*float64(time.Second)))
}
