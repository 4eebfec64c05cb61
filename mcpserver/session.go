// session.go: the state of one connection; sessionactor.go has its actor.
//
// What a legacy client has negotiated lives as long as the actor. Requests of
// 2026-07-28 take nothing from it (MOD-06).

package mcpserver

import (
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/buffer"
	"github.com/troupe-dev/troupe/mcpserver/internal/changed"
	"github.com/troupe-dev/troupe/mcpserver/internal/clients"
	"github.com/troupe-dev/troupe/mcpserver/internal/logpace"
	"github.com/troupe-dev/troupe/mcpserver/internal/pinging"
	"github.com/troupe-dev/troupe/mcpserver/internal/subscriptions"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// Messages to a session.
type (
	// readEnded comes from the reader: the source has ended.
	readEnded struct{ err error }
	// closeSession ends the session. If it is graceful, the session first waits for its
	// calls: the sender bounds that time.
	closeSession struct {
		cause    error
		graceful bool
	}
	graceOver struct{}
	drained   struct{} // no call is left
)

// session is the actor. Its fields are set before it starts, or may be used from
// any goroutine.
type session struct {
	server    *Server
	ref       actors.Ref // set when the actor starts, before anything is read
	calls     *inbound.Table
	principal *Principal // nil for an anonymous client
	stateless bool       // of many clients at once: it keeps nothing of a request
	in        *reader    // nil but for a pipe or link
	out       web.Output
	hangUp    func() // ends a blocked read; may be called more than once

	peer    Peer // itself, as the program sees it
	started actors.Reply[struct{}]
	ended   actors.Reply[struct{}] // with the error of Serve

	legacy   atomic.Pointer[handshake]    // nil before initialize
	ready    atomic.Bool                  // the client has said notifications/initialized
	level    atomic.Pointer[mcp.LogLevel] // never nil
	senders  clients.Senders              // of modern requests
	broken   atomic.Bool                  // a write has failed
	limit    *rate.Limiter                // of anonymous senders; nil without a limit
	nested   atomic.Pointer[call.Table]   // calls to the legacy client; nil before the first question
	logs     logpace.Pace                 // of log messages that belong to no request
	notified subscriptions.Client         // the notifications that the client got
	budget   buffer.Budget                // of the arguments of calls that run on other goroutines

	// The actor's own.
	cause    error
	draining bool
	pings    *pinging.Pings // nil without pings
	roots    changed.Calls  // of OnRootsChanged
}

func newSession(s *Server) *session {
	n := &session{server: s, hangUp: func() {}, limit: s.limits.Fresh()}
	n.calls = inbound.NewTable(&inbound.Options{Limit: s.opts.Limits.MaxInFlight, Deadline: s.opts.Limits.CallTimeout})
	n.level.Store(&defaultLevel)
	n.budget.Most = maxHeldSession
	n.peer.s = n
	return n
}

// defaultLevel is the log level of a legacy client that has not set one (LOG-03).
var defaultLevel = mcp.LogInfo

// newStateless returns the session of all modern HTTP requests. Each request stands for
// itself (MOD-06); they only share the actors of their calls.
func newStateless(s *Server) *session {
	n := newSession(s)
	n.calls = inbound.NewTable(&inbound.Options{Limit: s.opts.HTTP.MaxConcurrent, Idle: 256, Deadline: s.opts.Limits.CallTimeout})
	n.stateless, n.out, n.budget.Most = true, web.Nowhere{}, maxHeldStateless
	n.senders.Share()
	return n
}

// Notify, Respond and Drop implement [port.Port]: the session of a pipe or link is the port
// of requests that do not run on its reader. Notify also sends messages that belong to no
// request. If a write fails the frame is lost, and the connection ends: the peer does not read.
func (s *session) Notify(frame []byte)                { s.wrote(s.out.Write(frame)) }
func (s *session) Respond(frame []byte, _ *mcp.Error) { s.Notify(frame) }
func (s *session) Drop()                              {}

func (s *session) queue(frame []byte) { s.wrote(s.out.Append(frame)) }

func (s *session) wrote(err error) {
	if err != nil && !s.broken.Swap(true) {
		s.server.log.Warn("writing to the client has failed", "session", s.ref.Path(), "error", err)
		s.ref.Send(&closeSession{cause: err})
	}
}
