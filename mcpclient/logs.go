package mcpclient

import (
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// A server's log messages are for people: so many a second, after a burst, are
// passed on (LOG-06).
const (
	logRate  = 100
	logBurst = 1000
)

// logLimit is a bucket of log messages that may still come.
type logLimit struct {
	mu      sync.Mutex
	left    float64
	last    time.Time // zero before the first message
	dropped int       // since one was passed on
}

// allow takes one out of the bucket. It returns how many were dropped before this
// one, and whether this one may pass.
func (l *logLimit) allow(now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.IsZero() {
		l.left = logBurst
	} else {
		l.left = min(logBurst, l.left+logRate*now.Sub(l.last).Seconds())
	}
	l.last = now
	if l.left < 1 {
		l.dropped++
		return 0, false
	}
	l.left--
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}

// leveled returns meta with the level of the log messages that a request of
// 2026-07-28 asks for: its own, else the client's (LOG-05). Earlier revisions have no
// such key.
func (c *Client) leveled(meta mcp.Meta) mcp.Meta {
	level := c.logLevel()
	_, own := meta[mcp.MetaLogLevel]
	switch modern := c.era() == mcp.EraModern; {
	case modern && !own && level != "":
		meta = cloned(meta)
		meta[mcp.MetaLogLevel] = json.RawMessage(jsonx.AppendQuote(nil, string(level)))
	case !modern && own:
		meta = cloned(meta)
		delete(meta, mcp.MetaLogLevel)
	}
	return meta
}

// cloned returns a copy that can be written to; it is the caller's own.
func cloned(m mcp.Meta) mcp.Meta {
	if m == nil {
		return mcp.Meta{}
	}
	return maps.Clone(m)
}

// logged passes a log message of the server on, if anybody wants it.
func (c *Client) logged(m *mcp.Message) {
	if c.opts.OnLog == nil {
		return
	}
	dropped, ok := c.logs.allow(time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		c.log.Warn("the server logged too much; messages were dropped", "dropped", dropped)
	}
	var p mcp.LogParams
	if err := m.DecodeParams(&p); err != nil {
		c.log.Debug("dropping a malformed log message", "error", err)
		return
	}
	c.events.addSized(len(m.Params), func() { c.opts.OnLog(p) })
}
