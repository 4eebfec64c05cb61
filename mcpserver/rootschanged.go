package mcpserver

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// Peer is a legacy client between its requests. Its methods may be used from any
// goroutine.
type Peer struct{ s *session }

// Client returns who it is.
func (p *Peer) Client() Client {
	h := p.s.legacy.Load()
	return Client{Info: h.client.info, Capabilities: h.client.capabilities.For(h.version), Version: h.version}
}

// Principal returns whose session it is; nil if nobody asked who it is.
func (p *Peer) Principal() *Principal { return p.s.principal }

// Roots asks for the client's roots (ROOT-01). They say where to work; they fence
// nothing in (ROOT-05). The error is a [CapabilityError] if the client has none.
func (p *Peer) Roots(ctx context.Context) ([]mcp.Root, error) {
	if caps := p.s.legacy.Load().client.capabilities; caps == nil || caps.Roots == nil {
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

// Messages to a session about roots.
type (
	rootsChanged struct{} // the client says so
	rootsHeard   struct{} // the program has heard
)

// receiveRoots has the program told of changed roots (ROOT-02): one call at a time,
// and one more if they have changed meanwhile.
func (s *session) receiveRoots(c *actors.Context, msg any) {
	switch msg.(type) {
	case rootsChanged:
		if s.rootsBusy {
			s.rootsAgain = true
			return
		}
	case rootsHeard:
		s.rootsBusy = false
		if !s.rootsAgain {
			return
		}
	}
	if s.draining {
		return
	}
	s.rootsBusy, s.rootsAgain = true, false
	actors.Await(c,
		func(ctx context.Context) (struct{}, error) {
			s.server.opts.OnRootsChanged(ctx, &Peer{s})
			return struct{}{}, nil
		},
		func(_ struct{}, err error) any {
			if err != nil {
				s.server.log.Error("OnRootsChanged failed", "session", s.ref.Path(), "error", err)
			}
			return rootsHeard{}
		})
}

// rootsNotice takes notifications/roots/list_changed of a client that has declared
// that it sends it.
func (s *session) rootsNotice() {
	h := s.legacy.Load()
	if s.server.opts.OnRootsChanged == nil || h == nil || !s.ready.Load() {
		return
	}
	if c := h.client.capabilities; c != nil && c.Roots != nil && c.Roots.ListChanged {
		s.ref.Send(rootsChanged{})
	}
}
