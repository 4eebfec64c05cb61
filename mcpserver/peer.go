package mcpserver

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// Peer is the client at the other end of a pipe, a link or a legacy HTTP session, between
// its requests. Each of them has one *Peer, so pointers can be compared; its methods may be
// used from any goroutine.
type Peer struct{ s *session }

// ID names the pipe, link or session: it is unique in the actor system for ever. It is not
// secret, and not the Mcp-Session-Id.
func (p *Peer) ID() string { return p.s.ref.Path() }

// Client returns the client as it has described itself in initialize or, in 2026-07-28, in
// its newest request. It is zero before either.
func (p *Peer) Client() Client {
	if h := p.s.legacy.Load(); h != nil {
		return publicClient(h.client, h.version)
	}
	if newest := p.s.senders.Newest(); newest != nil {
		return publicClient(newest, mcp.Latest)
	}
	return Client{}
}

// Principal returns the principal of the session; nil for an anonymous one.
func (p *Peer) Principal() *Principal { return p.s.principal }

// Local reports whether the peer is at the other end of a pipe or link, and not of HTTP.
func (p *Peer) Local() bool { return p.s.in != nil }

// LogLevel returns the lowest level of log messages that a legacy client wants; info if it
// has not set one. In 2026-07-28 each request has its own.
func (p *Peer) LogLevel() mcp.LogLevel { return *p.s.level.Load() } // LOG-03

// Roots asks for the roots of a legacy client. They are guidance, not a sandbox. The error is
// a [*CapabilityError] if the client has none, or can only be asked during a request.
func (p *Peer) Roots(ctx context.Context) ([]mcp.Root, error) {
	h := p.s.legacy.Load() // ROOT-01, ROOT-05
	if h == nil || h.client.Capabilities == nil || h.client.Capabilities.Roots == nil {
		return nil, &CapabilityError{Missing: &mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}}
	}
	got, err := p.s.ask(ctx, &call.Request{Method: mcp.MethodListRoots})
	if err != nil {
		return nil, fmt.Errorf("asking for the roots: %w", err)
	}
	var result mcp.ListRootsResult
	if err := mcp.Unmarshal(got.Raw, &result); err != nil {
		return nil, fmt.Errorf("asking for the roots: %w", err)
	}
	return result.Roots, nil
}

// Peer returns the pipe, link or session that the request came on; nil for one over HTTP
// that belongs to none, as in 2026-07-28.
func (q *Request) Peer() *Peer { return q.live().session.public() }

// public returns the session as the program sees it.
func (s *session) public() *Peer {
	if s.stateless {
		return nil
	}
	return &s.peer
}

// closed notifies the program of the end of a session.
func (s *session) closed() {
	if s.stateless || s.server.opts.Events.OnClose == nil {
		return
	}
	_, err := actors.Guard(func() (struct{}, error) { s.server.opts.Events.OnClose(&s.peer); return struct{}{}, nil })
	if err != nil {
		s.server.log.Error("OnClose panicked", "session", s.ref.Path(), "error", err)
	}
}
