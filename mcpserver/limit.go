package mcpserver

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// CodeRateLimited is the error of a request beyond [Options].RatePerSecond. Its data
// is {"retryAfterMs": n}. It lies outside of the codes that are not ours (BASE-17).
const CodeRateLimited = web.CodeRateLimited

// limits are the rate limits of principals (TOOL-15, CMP-04). Anonymous sessions have
// their own.
type limits struct {
	every rate.Limit
	burst int

	mu    sync.Mutex
	by    map[string]*list.Element // of *limited, by the principal
	order *list.List               // the one who asked last is first
}

type limited struct {
	id    string
	limit *rate.Limiter
}

// maxLimited bounds the principals that are remembered. Beyond it the one is
// forgotten who has not asked for the longest time: very likely its burst is full again.
const maxLimited = 10_000

// newLimits returns nil where there is no limit.
func newLimits(perSecond float64, burst int) *limits {
	if !(perSecond > 0) { // also what is no number
		return nil
	}
	if burst <= 0 {
		burst = max(1, int(perSecond))
	}
	return &limits{every: rate.Limit(perSecond), burst: burst, by: make(map[string]*list.Element), order: list.New()}
}

// fresh returns a limit that nothing was taken of; nil where there is none.
func (l *limits) fresh() *rate.Limiter {
	if l == nil {
		return nil
	}
	return rate.NewLimiter(l.every, l.burst)
}

// of returns the limit of a principal.
func (l *limits) of(id string) *rate.Limiter {
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
	one := &limited{id, l.fresh()}
	l.by[id] = l.order.PushFront(one)
	return one.limit
}

// throttle refuses a request that comes too soon. Pings are free: they cost nothing,
// and a client without an answer to one hangs up.
func throttle(s *session, a *arrival) error {
	l := s.server.limits
	if l == nil || a.Method == mcp.MethodPing {
		return nil
	}
	limit := s.limit
	if a.principal != nil && a.principal.ID != "" {
		limit = l.of(a.principal.ID)
	}
	now := time.Now()
	if limit.AllowN(now, 1) {
		return nil
	}
	wait := time.Duration((1 - limit.TokensAt(now)) / float64(l.every) * float64(time.Second))
	return mcp.Errorf(CodeRateLimited, "too many requests: try again in %v", wait.Round(time.Millisecond)).
		WithData(struct {
			RetryAfterMs int64 `json:"retryAfterMs"`
		}{max(1, wait.Milliseconds())})
}
