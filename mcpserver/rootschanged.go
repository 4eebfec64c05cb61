package mcpserver

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcpserver/internal/changed"
)

// receiveRoots calls OnRootsChanged (ROOT-02).
func receiveRoots(s *session, c *actors.Context, msg changed.Message) {
	s.roots.Receive(c, msg, s.draining, func(ctx context.Context) { s.server.opts.Events.OnRootsChanged(ctx, &s.peer) },
		func(err error) { s.server.log.Error("OnRootsChanged failed", "session", s.ref.Path(), "error", err) })
}

// noteRoots handles notifications/roots/list_changed of a client that has declared it.
func noteRoots(s *session) {
	h := s.legacy.Load()
	if s.server.opts.Events.OnRootsChanged == nil || h == nil || !s.ready.Load() {
		return
	}
	if c := h.client.Capabilities; c != nil && c.Roots != nil && c.Roots.ListChanged {
		s.ref.Send(changed.Now{})
	}
}
