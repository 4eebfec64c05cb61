package mcpserver

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/pinging"
)

// ErrSilent ends a session whose client does not answer pings; see [Limits].PingEvery.
var ErrSilent = errors.New("mcpserver: the client does not answer pings")

// receivePing handles the messages about pings.
func receivePing(s *session, c *actors.Context, msg pinging.Message) {
	s.pings = s.pings.Receive(c, msg, pinging.Options{
		Draining: s.draining, Every: s.server.opts.Limits.PingEvery, Reachable: s.Reachable, Log: s.server.log, Session: s.ref.Path(),
		Ping: func(ctx context.Context) error {
			_, err := s.ask(ctx, &call.Request{Method: mcp.MethodPing})
			return err
		},
		Silent: func() {
			s.drain(ErrSilent)
			c.Stop()
		},
	})
}
