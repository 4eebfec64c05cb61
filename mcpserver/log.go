// log.go: log messages to clients.

package mcpserver

import (
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
)

// maxLogData bounds the data of a log message, in bytes: larger ones are not sent at all (LOG-06).
const maxLogData = 256 << 10

// Log sends a log message to the client, if the client wants that level: by
// logging/setLevel in a legacy session, whose default is info, and by the request itself in
// 2026-07-28. data is encoded as JSON; it must hold no secrets. The server drops messages
// beyond some hundred a second, and those larger than 256 KiB.
func (q *Request) Log(level mcp.LogLevel, logger string, data any) {
	r := q.live()
	if !level.AtLeast(r.logLevel()) || !mayLog(r) {
		return
	}
	raw, err := mcp.Marshal(data)
	if err == nil && len(raw) > maxLogData {
		err = fmt.Errorf("it is longer than %d bytes", maxLogData)
	}
	if err != nil {
		r.session.server.log.Warn("a log message cannot be sent", "name", r.work.name(), "error", err)
		return
	}
	r.notify(mcp.NotificationMessage, &mcp.LogParams{Level: level, Logger: logger, Data: raw})
}

// logLevel returns the lowest level that the client wants, "" if it wants none.
func (r *request) logLevel() mcp.LogLevel {
	if r.version.Era() == mcp.EraModern {
		return r.client.Level
	}
	return *r.session.level.Load()
}

// LogLevel returns the lowest level of log messages that the client wants with this
// request, empty for none.
func (q *Request) LogLevel() mcp.LogLevel {
	r := q.live()
	return r.logLevel()
}

// mayLog reports whether the request may send one more log message now.
func mayLog(r *request) bool {
	ok, first := r.logs.Take()
	if first {
		r.session.server.log.Warn("a handler sends too many log messages: some are dropped",
			"session", r.session.ref.Path(), "name", r.work.name(), "id", r.ID().String())
	}
	return ok
}

// Log sends a log message that belongs to no request to a legacy client, if it wants that
// level; see [Request.Log]. Clients of 2026-07-28 get log messages with their requests only.
func (p *Peer) Log(level mcp.LogLevel, logger string, data any) {
	s := p.s // LOG-05
	if s.legacy.Load() == nil || !s.ready.Load() || !level.AtLeast(*s.level.Load()) {
		return
	}
	ok, first := s.logs.Take()
	if first {
		s.server.log.Warn("a client gets too many log messages: some are dropped", "session", s.ref.Path())
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
		s.Notify(mcp.AppendNotification(nil, mcp.NotificationMessage, raw))
	}
}
