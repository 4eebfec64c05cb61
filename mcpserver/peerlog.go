package mcpserver

import (
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// Log sends a log message that belongs to no request to a legacy client, if it wants that
// level; see [Request.Log]. Clients of 2026-07-28 are told nothing outside of a request
// (LOG-05).
func (p *Peer) Log(level mcp.LogLevel, logger string, data any) {
	s := p.s
	if s.legacy.Load() == nil || !s.ready.Load() || !level.AtLeast(*s.level.Load()) {
		return
	}
	pace := s.logs.Load()
	if pace == nil {
		s.logs.CompareAndSwap(nil, &logPace{credit: logBurst, since: time.Now()})
		pace = s.logs.Load()
	}
	ok, first := pace.admit(time.Now())
	if first {
		s.server.log.Warn("too much is logged to a client: some of it is dropped", "session", s.ref.Path())
	}
	if !ok {
		return
	}
	raw, err := mcp.Marshal(data)
	if err != nil || len(raw) > maxLogData {
		s.server.log.Warn("a log message cannot be sent", "session", s.ref.Path(), "size", len(raw), "error", err)
		return
	}
	if raw, err = mcp.Marshal(&mcp.LogParams{Level: level, Logger: logger, Data: raw}); err == nil {
		s.push(mcp.AppendNotification(nil, mcp.NotificationMessage, raw))
	}
}
