package mcpserver

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
)

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
			s.server.opts.OnRootsChanged(ctx, &s.peer)
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
