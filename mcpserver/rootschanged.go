package mcpserver

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
)

// Messages to a session about roots.
type (
	rootsChanged struct{} // the client has sent roots/list_changed
	rootsHandled struct{} // OnRootsChanged has returned
)

// rootsNews is the part of a session that calls OnRootsChanged (ROOT-02): one call at a time,
// and another one if the roots have changed meanwhile.
type rootsNews struct {
	busy  bool // a call is under way
	again bool // the roots have changed since it began
}

func (r *rootsNews) receive(s *session, c *actors.Context, msg any) {
	switch msg.(type) {
	case rootsChanged:
		if r.busy {
			r.again = true
			return
		}
	case rootsHandled:
		r.busy = false
		if !r.again {
			return
		}
	}
	if s.draining {
		return
	}
	r.busy, r.again = true, false
	actors.Await(c,
		func(ctx context.Context) (struct{}, error) {
			s.server.opts.Events.OnRootsChanged(ctx, &s.peer)
			return struct{}{}, nil
		},
		func(_ struct{}, err error) any {
			if err != nil {
				s.server.log.Error("OnRootsChanged failed", "session", s.ref.Path(), "error", err)
			}
			return rootsHandled{}
		})
}

// noteRoots handles notifications/roots/list_changed of a client that has declared it.
func noteRoots(s *session) {
	h := s.legacy.Load()
	if s.server.opts.Events.OnRootsChanged == nil || h == nil || !s.ready.Load() {
		return
	}
	if c := h.client.Capabilities; c != nil && c.Roots != nil && c.Roots.ListChanged {
		s.ref.Send(rootsChanged{})
	}
}
