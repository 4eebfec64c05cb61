package mcpclient

import (
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// received handles what the server sends on its own account, on the transport's
// goroutine. Related is the call on whose stream it came, zero if that is not known.
func (c *Client) received(s *conn.Session, m *mcp.Message, related mcp.ID) {
	if m.Kind == mcp.KindRequest {
		c.questions.asks.Asked(s, m, related)
		return
	}
	c.observeNotification(m)
	if s.Version().Era() == mcp.EraModern && c.noticed(s, m, related) {
		return
	}
	switch m.Method {
	case mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged:
		c.cache.Changed(m.Method, "")
	case mcp.NotificationResourceUpdated:
		c.resourceUpdated(m)
	case mcp.NotificationMessage:
		c.logged(m)
	case mcp.NotificationCancelled:
		c.questions.asks.Cancelled(s, m)
	case mcp.NotificationElicitationComplete:
		c.questions.completed(s, m)
	case mcp.NotificationTaskStatus:
		c.taskNoticed(m)
	}
	// Any other is unknown or of no use: ignored (BASE-14).
}
