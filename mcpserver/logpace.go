package mcpserver

import (
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// Log messages of one request may come in bursts of logBurst, and one each logEvery
// (LOG-06); larger ones than maxLogData bytes are not sent at all.
const (
	logBurst   = 200
	logEvery   = 10 * time.Millisecond
	maxLogData = 256 << 10
)

// logPace counts the log messages of one request.
type logPace struct {
	mu      sync.Mutex
	credit  int
	since   time.Time // when credit was counted
	dropped int
}

// admit reports whether one more message may go out now, and if it is the first that
// may not.
func (p *logPace) admit(now time.Time) (ok, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gained := int(now.Sub(p.since) / logEvery); gained > 0 {
		p.credit = min(p.credit+gained, logBurst)
		p.since = p.since.Add(time.Duration(gained) * logEvery)
	}
	if p.credit == 0 {
		p.dropped++
		return false, p.dropped == 1
	}
	p.credit--
	return true, false
}

// mayLog reports whether the request may send one more log message now.
func (r *request) mayLog() bool {
	pace := r.logs.Load()
	if pace == nil {
		r.logs.CompareAndSwap(nil, &logPace{credit: logBurst, since: time.Now()})
		pace = r.logs.Load()
	}
	ok, first := pace.admit(time.Now())
	if first {
		r.session.server.log.Warn("a handler logs too much to its client: some of it is dropped",
			"session", r.session.ref.Path(), "name", r.work.name(), "id", r.ID().String())
	}
	return ok
}

// LogLevel returns the lowest level of log messages that the client wants with this
// request, empty for none.
func (q *Request) LogLevel() mcp.LogLevel {
	r := q.live()
	return r.logLevel()
}
