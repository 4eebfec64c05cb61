package mcpclient

import (
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// received handles what the server sends on its own account, on the transport's
// goroutine. All of it is decided at once, so nothing here is ever in flight.
func (c *Client) received(s *conn.Session, m *mcp.Message) {
	if m.Kind == mcp.KindRequest {
		c.asked(s, m)
		return
	}
	switch m.Method {
	case mcp.NotificationToolsChanged:
		c.tools.invalidate()
		c.toolsChanged()
	case mcp.NotificationMessage:
		if c.opts.OnLog == nil {
			return
		}
		var p mcp.LogParams
		if err := m.DecodeParams(&p); err != nil {
			c.log.Debug("dropping a malformed log message", "error", err)
			return
		}
		c.events.addSized(len(m.Params), func() { c.opts.OnLog(p) })
	}
	// Any other is unknown or of no use: ignored (BASE-14).
}

// asked answers a request of the server. We have declared no capability, so there
// is only ping (PING-01); all else does not exist (BASE-14).
func (c *Client) asked(s *conn.Session, m *mcp.Message) {
	if s.Version().Era() == mcp.EraModern {
		c.log.Warn("ignoring a request of a modern server", "method", m.Method) // MOD-07
		return
	}
	var err error
	if m.Method == mcp.MethodPing {
		err = s.Respond(m.ID, nil)
	} else {
		err = s.Refuse(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "%.100s is not supported by this client", m.Method))
	}
	if err != nil {
		c.log.Debug("a request of the server could not be answered", "method", m.Method, "error", err)
	}
}
