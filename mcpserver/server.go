// server.go: the server and its sessions, from their opening to Shutdown; new.go makes it.

package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/ratelimit"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/access"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
	"github.com/troupe-dev/troupe/mcpserver/internal/clients"
	"github.com/troupe-dev/troupe/mcpserver/internal/dialogue"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/pages"
	"github.com/troupe-dev/troupe/mcpserver/internal/subscriptions"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
	"github.com/troupe-dev/troupe/store"
)

// ErrClosed is returned once Close or Shutdown was called.
var ErrClosed = errors.New("mcpserver: the server is closed")

// Server is an MCP server. Its methods may be used from any goroutine.
type Server struct {
	opts Options
	info mcp.Implementation
	log  *slog.Logger
	sys  *actors.System
	own  bool // sys is ours to end
	ref  actors.Ref

	lists
	skillTree skillTree
	limits    *ratelimit.Limits // nil without limits
	records   store.Records
	tasks     *serverTasks
	identity  *offered.Identity
	rules     access.Rules

	closing sync.Once
	closed  atomic.Bool
	ended   error // of the first Shutdown or Close

	sessions sync.Map // of *session: those that are open, or about to be

	notices   *subscriptions.Notices
	taskNews  taskNews
	web       *web.Handler
	pages     *pages.Pages
	dialogues *dialogue.Host
	model     asking.OpenModel // nil without Options.Model
	loops     atomic.Uint64    // names sampling loops

	common atomic.Pointer[func() (*session, error)] // makes the stateless one at the first modern HTTP request; replaced once that one has ended

	greeted atomic.Pointer[clients.Greeting] // the newest; nil before the first
	others  atomic.Pointer[supply]           // of RelayOthers; nil without
}

// open is a message to the server's actor: it starts the actor of a session.
type open struct {
	session *session
	reply   *actors.Reply[actors.Ref]
}

// open makes the session one of the server's and starts its actor.
func (s *Server) open(ctx context.Context, n *session) error {
	s.sessions.Store(n, nil)
	if s.closed.Load() { // after Store: either Shutdown sees the session, or this sees that it is closed
		s.sessions.Delete(n)
		return ErrClosed
	}
	ref, err := actors.Ask(ctx, s.ref, func(r *actors.Reply[actors.Ref]) any { return &open{n, r} })
	if err != nil {
		s.sessions.Delete(n)
		return fmt.Errorf("starting a session: %w", err)
	}
	if _, err := n.started.Wait(ctx); err != nil {
		ref.Stop()
		return fmt.Errorf("starting a session: %w", err)
	}
	return nil
}

// shared returns the session of all modern HTTP requests.
func (s *Server) shared() (*session, error) {
	common := s.common.Load()
	n, err := (*common)()
	if err != nil { // the next request tries again
		s.common.CompareAndSwap(common, s.nextShared())
	}
	return n, err
}

// nextShared returns what opens such a session, once: all requests wait for the same one.
func (s *Server) nextShared() *func() (*session, error) {
	once := sync.OnceValues(func() (*session, error) {
		n := newStateless(s)
		if err := s.open(context.Background(), n); err != nil {
			return nil, err
		}
		return n, nil
	})
	return &once
}

// live returns the sessions that are open.
func (s *Server) live() []*session {
	var all []*session
	for n := range s.sessions.Range {
		if n := n.(*session); n.started.Completed() {
			all = append(all, n)
		}
	}
	return all
}

// Shutdown takes no more calls, waits for those in flight until ctx ends, and
// closes all sessions. Later calls of it return the same error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closing.Do(func() { s.ended = s.shutDown(ctx) })
	return s.ended
}

// Close ends the calls in flight by their contexts and closes all sessions. It
// waits for handlers a few seconds at most.
func (s *Server) Close() error {
	s.closing.Do(func() {
		now, cancel := context.WithCancelCause(context.Background())
		cancel(ErrClosed)
		s.ended = s.shutDown(now)
	})
	return s.ended
}

// closeWait bounds the end of actors and tasks once their contexts have ended.
const closeWait = 5 * time.Second

func (s *Server) shutDown(ctx context.Context) error {
	s.web.Drain()
	s.closed.Store(true)
	s.dialogues.Calls.Close(ErrClosed)
	sessions := s.live()
	for _, n := range sessions {
		n.ref.Send(&closeSession{cause: ErrClosed, graceful: true})
	}
	for _, n := range sessions {
		_, _ = n.ended.Wait(ctx) // the error is ctx's, or that of Serve
		n.ref.Send(&closeSession{cause: ErrClosed})
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	var late error
	for _, n := range sessions {
		if _, err := n.ended.Wait(wait); !n.ended.Completed() {
			late = fmt.Errorf("closing the server: a session has not ended: %w", err)
		}
	}
	s.web.Close()
	if s.model != nil {
		s.model.Close(wait)
	}
	s.ref.Stop()
	select {
	case <-s.ref.Stopped():
	case <-wait.Done():
	}
	if !s.own {
		return late
	}
	return errors.Join(late, s.sys.Shutdown(wait))
}

// spawnChild starts a child of the server's actor: see [actors.Ref.SpawnChild].
func (s *Server) spawnChild(spec actors.Spec, then func(actors.Ref, error)) {
	s.ref.SpawnChild(spec, then)
}
