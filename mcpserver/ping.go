// ping.go: pings of a legacy client (PING-02).
//
//	        PingEvery          answered
//	still ────────────▶ asked ──────────▶ still
//	                      │ not within pingTimeout, maxMisses times in a row
//	                      └──────────────────▶ the session is closed

package mcpserver

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// ErrSilent ends a session whose client does not answer pings; see [Limits].PingEvery.
var ErrSilent = errors.New("mcpserver: the client does not answer pings")

const (
	pingTimeout = 10 * time.Second
	maxMisses   = 3
)

// Messages to a session about pings.
type (
	startPings struct{} // the client has initialized
	pingDue    struct{}
	pinged     struct{ err error }
)

// pinging is the part of a session that pings; nil in a session without pings.
type pinging struct {
	clock  *actors.Timer
	misses int
}

// receivePing handles the messages about pings.
func receivePing(s *session, c *actors.Context, msg any) {
	every := s.server.opts.Limits.PingEvery
	switch m := msg.(type) {
	case startPings:
		if s.pings == nil {
			s.pings = &pinging{clock: c.NewTimer(pingDue{})}
			s.pings.clock.Set(every)
		}
	case pingDue:
		switch {
		case s.draining:
		case !s.Reachable(): // an HTTP session that has no stream now is not gone
			s.pings.clock.Set(every)
		default:
			actors.Await(c, s.sendPing, func(_ struct{}, err error) any { return pinged{err} })
		}
	case pinged:
		if _, answered := errors.AsType[*mcp.Error](m.err); m.err == nil || answered {
			s.pings.misses = 0
		} else if s.pings.misses++; s.pings.misses >= maxMisses {
			s.server.log.Warn("a client does not answer pings", "session", s.ref.Path(), "pings", s.pings.misses, "error", m.err)
			s.drain(ErrSilent)
			c.Stop()
			return
		} else {
			s.server.log.Debug("a ping was not answered", "session", s.ref.Path(), "misses", s.pings.misses, "error", m.err)
		}
		s.pings.clock.Set(every)
	}
}

// sendPing sends one ping.
func (s *session) sendPing(ctx context.Context) (struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, min(pingTimeout, s.server.opts.Limits.PingEvery))
	defer cancel()
	_, err := s.ask(ctx, &call.Request{Method: mcp.MethodPing})
	return struct{}{}, err
}
