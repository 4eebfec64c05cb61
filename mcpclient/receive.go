package mcpclient

import (
	"encoding/json"
	"slices"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// received handles what the server sends on its own account, on the transport's
// goroutine. Related is the call on whose stream it came, zero if that is not known.
func (c incoming) received(s *conn.Session, m *mcp.Message, related mcp.ID) {
	if m.Kind == mcp.KindRequest {
		c.questions.asks.Asked(s, m, related)
		return
	}
	c.incoming.observeNotification(m)
	if s.Version().Era() == mcp.EraModern && c.watching().Noticed(s, m, related) {
		return
	}
	switch m.Method {
	case mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged:
		c.cache.Changed(m.Method, "")
	case mcp.NotificationResourceUpdated:
		c.incoming.resourceUpdated(m)
	case mcp.NotificationMessage:
		c.incoming.logged(m)
	case mcp.NotificationCancelled:
		c.questions.asks.Cancelled(s, m)
	case mcp.NotificationElicitationComplete:
		c.questions.completed(s, m)
	case mcp.NotificationTaskStatus:
		c.watching().TaskNoticed(m)
	}
	// Any other is unknown or of no use: ignored (BASE-14).
}

// observeNotification is to be called for each notification of the server.
func (c incoming) observeNotification(m *mcp.Message) {
	if c.opts.OnNotification != nil {
		c.opts.OnNotification(c.server.Name, m.Method, slices.Clone(m.Params))
	}
}

// observeRequest is to be called for each request of the server, and for each entry
// of inputRequests.
func (c incoming) observeRequest(method string, params json.RawMessage) {
	if c.opts.OnRequest != nil {
		c.opts.OnRequest(c.server.Name, method, slices.Clone(params))
	}
}

// logged passes a log message of the server on, if the program takes it.
func (c incoming) logged(m *mcp.Message) {
	if c.opts.OnLog == nil {
		return
	}
	if !c.logs.Allow(c.log) {
		return
	}
	var p mcp.LogParams
	if err := m.DecodeParams(&p); err != nil {
		c.log.Debug("dropping a malformed log message", "error", err)
		return
	}
	c.events().AddSized(len(m.Params), func() { c.opts.OnLog(c.server.Name, p) })
}
