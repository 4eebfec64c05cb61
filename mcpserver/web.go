package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// Handler serves clients over Streamable HTTP, on any path it is mounted at: the
// stateless requests of 2026-07-28 and the sessions of 2025-03-26 to 2025-11-25, on
// one URL and at once. It may be called more than once; all handlers share their
// sessions.
//
// Mount it directly on the server, or below middleware that passes on the
// http.ResponseWriter of package net/http or one that can be unwrapped
// (http.ResponseController); the server should have a ReadHeaderTimeout. A body has 30 seconds
// to arrive, or the server's ReadTimeout. Requests whose
// Host or Origin is not allowed are refused, see [HTTPOptions].AllowedHosts.
//
// To stop, call the Server's Shutdown, which ends the event streams, and then the
// http.Server's, which waits for them.
func (s *Server) Handler() http.Handler { return s.web.Streamable() }

// SSEHandler serves clients of the transport of 2024-11-05, HTTP with Server-Sent
// Events, on a path of its own beside [Server.Handler]: a GET opens the stream of a
// session, whose first event names the address of its POSTs, the same with a secret in the
// query. The session ends with the stream. All legacy revisions work over it.
//
// The allowed hosts and origins, the authentication, the bounds and the way to stop are
// those of Handler.
func (s *Server) SSEHandler() http.Handler { return s.web.SSE() }

// admitHTTP is gatewayhook.Hooks.Admit.
func admitHTTP(s *Server, w http.ResponseWriter, r *http.Request) (p *Principal, body []byte, release func(), ok bool) {
	from, body, release, ok := s.web.Admit(w, r)
	return principalOf(from), body, release, ok
}

// newWeb returns the handler of HTTP requests.
func newWeb(s *Server) (*web.Handler, error) {
	o := web.Options{
		Backend: webBackend{s}, Versions: s.opts.Versions,
		AllowedHosts: s.opts.HTTP.AllowedHosts, AllowedOrigins: s.opts.HTTP.AllowedOrigins,
		MaxMessage: s.opts.Limits.MaxMessage, MaxSessions: s.opts.HTTP.MaxSessions, SessionTTL: s.opts.HTTP.SessionTTL,
		Logger: s.log,
		Streams: streams.Options{
			KeepAlive: s.opts.HTTP.KeepAlive, Retry: s.opts.HTTP.RetryAfter,
			MaxEvents: s.opts.HTTP.MaxEvents, MaxBytes: s.opts.HTTP.MaxEventBytes, NoResume: s.opts.HTTP.NoResume,
			Logger: s.log,
			Go:     func(f func()) { s.sys.Go("streams", f) },
		},
	}
	if s.opts.HTTP.Authenticate != nil {
		o.Authenticate = webBackend{s}.authenticate
	}
	return web.New(o)
}

// authenticate returns the sender of an HTTP request.
func (b webBackend) authenticate(r *http.Request) (web.Sender, error) {
	p, err := b.opts.HTTP.Authenticate(r)
	if e, ok := errors.AsType[*AuthError](err); ok {
		err = e.refusal()
	}
	return web.Sender{ID: p.id(), Principal: p, Expiry: p.expiry()}, err
}

// principalOf returns the principal of a request; nil for an anonymous one.
func principalOf(from web.Sender) *Principal {
	p, _ := from.Principal.(*Principal)
	return p
}

// webBackend is the server as package web sees it.
type webBackend struct{ *Server }

// Open implements [web.Backend].
func (b webBackend) Open(ctx context.Context, from web.Sender, out web.Output, ended func()) (web.Session, error) {
	n := newSession(b.Server)
	n.principal, n.out, n.hangUp = principalOf(from), out, ended
	err := b.open(ctx, n)
	if errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", web.ErrUnavailable, err)
	}
	return webSession{n}, err
}

// arrivals recycles the arrivals of HTTP requests, which have no reader to keep them.
var arrivals = sync.Pool{New: func() any { return new(arrival) }}

// Modern implements [web.Backend].
func (b webBackend) Modern(m *mcp.Message, from web.Sender, h http.Header, x *web.Exchange) error {
	n, err := b.shared()
	if err != nil {
		return fmt.Errorf("%w: %w", web.ErrUnavailable, err)
	}
	a := arrivals.Get().(*arrival)
	*a = arrival{Message: m, principal: principalOf(from), port: x, here: true}
	err = admitWeb(n, a, h)
	if err == nil {
		n.proceed(a)
	}
	*a = arrival{}
	arrivals.Put(a)
	return err
}

// admitWeb is admit for a POST of 2026-07-28: it checks the headers against the body, in the
// order of SHM-15. A mismatch executes nothing (SECA-5).
func admitWeb(s *session, a *arrival, h http.Header) error {
	err := namesVersion(s.server, a.Message)
	if err != nil {
		return err
	}
	if a.client, err = s.senders.Read(a.Meta); err != nil {
		return err
	}
	if wire := web.CheckVersion(h, a.Message, s.server.opts.Versions); wire != nil {
		return wire
	}
	a.version = a.Version
	if wire := web.CheckMethod(h, a.Message); wire != nil {
		return wire
	}
	if wire := web.CheckName(h, a.Message); wire != nil {
		return wire
	}
	if err := s.server.offers(a.version, a.Method); err != nil { // MOD-09
		return err
	}
	return checkMirrored(s, a, h)
}

// namesVersion returns an error for a message without the version of a modern request
// (MOD-01).
func namesVersion(s *Server, m *mcp.Message) error {
	switch {
	case !m.Modern && m.Method == mcp.MethodInitialize && s.newestLegacy() == "":
		var p mcp.InitializeParams
		_ = m.DecodeParams(&p)                                            // as far as they can be read
		return mcp.UnsupportedVersion(p.ProtocolVersion, s.opts.Versions) // MOD-10, ERA-14
	case !m.Modern:
		return mcp.Errorf(mcp.CodeInvalidParams, "the request has no _meta %s", mcp.MetaProtocolVersion)
	case m.Version == "":
		return mcp.Errorf(mcp.CodeInvalidParams, "_meta %s is not a string", mcp.MetaProtocolVersion)
	}
	return nil
}

// checkMirrored checks Mcp-Param headers against the arguments (HDR-24).
func checkMirrored(s *session, a *arrival, h http.Header) error {
	if a.Method != mcp.MethodCallTool {
		return nil
	}
	t, _ := s.toolNamed(a)
	if t == nil || t.Mirror.Empty() {
		return nil
	}
	if err := t.Mirror.Check(h, a.Arguments); err != nil {
		return mcp.Errorf(mcp.CodeHeaderMismatch, "%v", err)
	}
	return nil
}

// webSession is a legacy session as package web sees it.
type webSession struct{ *session }

// Request implements [web.Session].
func (n webSession) Request(m *mcp.Message, from web.Sender, x *web.Exchange) {
	a := arrivals.Get().(*arrival)
	*a = arrival{Message: m, principal: principalOf(from), port: n.session}
	if x != nil {
		a.port, a.here = x, true
	}
	n.handle(a)
	*a = arrival{}
	arrivals.Put(a)
}

// Batch implements [web.Session].
func (n webSession) Batch(data []byte, from web.Sender, x *web.Exchange) {
	if x == nil {
		n.startBatch(data, principalOf(from), n.session)
		return
	}
	n.startBatch(data, principalOf(from), x)
}

// Notification, Response, Busy, Reachable and Close implement [web.Session].
func (n webSession) Notification(m *mcp.Message) { n.notification(m) }
func (n webSession) Response(m *mcp.Message)     { n.response(m) }
func (n webSession) Busy() bool                  { return n.calls.Listed() > 0 }
func (n webSession) Reachable()                  { n.server.notices.CatchUp(n.session) }
func (n webSession) Close(cause error)           { n.ref.Send(&closeSession{cause: cause}) }

// Version implements [web.Session].
func (n webSession) Version() mcp.Version {
	if h := n.legacy.Load(); h != nil {
		return h.version
	}
	return ""
}

// Looked implements [inbound.Handler]: a call on the goroutine of net/http watches its
// client's connection only if its handler uses its context.
func (r *request) Looked() {
	if x, ok := r.port.(*web.Exchange); ok {
		x.Watch(&r.Call)
	}
}

// CloseStream closes the HTTP connection on which the client waits for the answer, to save
// the connection during a pause. After retry the client connects again by itself, and gets
// the messages of the meantime with the answer. Zero is [HTTPOptions].RetryAfter.
//
// It does nothing where the client would not connect again: on pipes, before 2025-11-25, in
// 2026-07-28, and with [HTTPOptions].NoResume. The call goes on in any case.
func (q *Request) CloseStream(retry time.Duration) {
	if x, ok := q.live().port.(*web.Exchange); ok {
		x.CloseConn(retry)
	}
}
