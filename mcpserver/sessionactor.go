// sessionactor.go: the actor that stands for one connection.
//
//	          the client hangs up, closeSession
//	open ────────────────────────────────────────▶ draining ──────▶ stopped
//	                                no call is left, or the grace is over

package mcpserver

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcpserver/internal/changed"
	"github.com/troupe-dev/troupe/mcpserver/internal/pinging"
)

// Receive implements [actors.Actor].
func (s *session) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		s.ref = c.Self()
		s.calls.Bind(s.ref)
		s.started.Complete(struct{}{}, nil)
	case *readEnded:
		s.drain(m.err)
		c.After(s.server.opts.Limits.Grace, graceOver{})
	case *closeSession:
		s.drain(m.cause)
		if !m.graceful {
			c.Stop()
		}
	case drained, graceOver:
		c.Stop()
	case pinging.Message:
		receivePing(s, c, m)
	case changed.Message:
		receiveRoots(s, c, m)
	case *openQuestions:
		s.openQuestions(m)
	case actors.Stopping:
		if t := s.nested.Load(); t != nil {
			t.Close(call.ErrClosed)
		}
		s.stop(m.Err)
	}
}

// drain takes no more calls. The first cause counts.
func (s *session) drain(cause error) {
	if s.draining {
		return
	}
	s.draining, s.cause = true, cause
	s.calls.Drain(func() { s.ref.Send(drained{}) })
	s.server.notices.Close(s)
}

// stop ends the calls that are left and closes the connection: in a task, for closing may
// wait for the peer.
func (s *session) stop(failure error) {
	cause := s.cause
	switch {
	case failure != nil:
		cause = failure
	case !s.draining && s.server.closed.Load():
		cause = ErrClosed
	case !s.draining:
		cause = actors.ErrStopped
	}
	lost := cause
	if lost == nil {
		lost = errHungUp
	}
	answered := s.calls.Close(lost)
	s.server.notices.Forget(s)
	s.server.pages.Gone(s)
	if s.in != nil {
		s.in.End()
	}
	s.hangUp()
	if s.stateless { // after a failure the next request makes another one
		s.server.common.Store(s.server.nextShared())
	}
	s.server.sys.Go(s.ref.Path(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), writeWait)
		defer cancel()
		if answered != nil { // the responses to those calls go out before the end
			select {
			case <-answered:
			case <-ctx.Done():
			}
		}
		if err := s.out.Close(ctx); err != nil && cause == nil {
			cause = err
		}
		s.server.sessions.Delete(s)
		s.ended.Complete(struct{}{}, cause)
		s.closed()
	})
}

// writeWait bounds the wait for a client that does not read the last messages.
const writeWait = time.Second

// stopped answers for a session whose actor never ran.
func (s *session) stopped(err error) {
	if s.started.Complete(struct{}{}, actors.ErrStopped) {
		s.server.sessions.Delete(s)
		s.ended.Complete(struct{}{}, err)
	}
}
