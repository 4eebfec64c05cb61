// arrival.go: one message, and the beginning of its call.

package mcpserver

import (
	"errors"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/buffer"
	"github.com/troupe-dev/troupe/mcpserver/internal/clients"
	"github.com/troupe-dev/troupe/mcpserver/internal/port"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// arrival is one message on its way to its method. It belongs to the goroutine that has
// read it: work that outlives the goroutine's turn copies its parts.
type arrival struct {
	*mcp.Message
	version   mcp.Version
	client    *clients.Client
	principal *Principal
	port      port.Port

	reader *reader // whose goroutine this is; nil elsewhere
	here   bool    // its work may run on this goroutine, for which no other request waits
}

// laterPort returns the port of a response that may come after the reader has gone on.
func (a *arrival) laterPort(s *session) port.Port {
	if a.reader != nil {
		return s
	}
	return a.port
}

// method is a row of the method table.
type method struct {
	// quick answers the request where it is read: the request is never in flight. The
	// result is encoded for the request's revision.
	quick func(s *session, a *arrival) (result []byte, err error)
	// start begins a call, which responds itself, and reports whether the goroutine has
	// lost its reader.
	start func(s *session, a *arrival) (lost bool, err error)
	// find returns the work of a call; nil for methods whose call begins otherwise. The
	// arguments are those of a.
	find func(s *session, a *arrival) (work, error)
	// waits makes the method a call if the middleware may wait.
	waits bool
	// declared reports whether the server declares the capability of the method; nil is
	// always (CAP-07).
	declared func(s *Server) bool
}

// answerNow answers a request that was never in flight.
func (s *session) answerNow(a *arrival, row method) error {
	quick := row.quick
	if len(s.server.opts.Middleware) > 0 {
		quick = row.throughMiddleware
	}
	result, err := quick(s, a)
	if err != nil {
		return err
	}
	out := buffer.Take()
	frame := mcp.AppendResult((*out)[:0], a.ID, result)
	a.port.Respond(frame, nil)
	buffer.Give(out, frame)
	return nil
}

// fail answers with an error; the zero id is left out (BASE-08).
func (s *session) fail(to port.Port, id mcp.ID, err error) {
	if refuses(to, id, err) {
		return
	}
	wire := wireOf(err)
	_, known := errors.AsType[*mcp.Error](err)
	if _, refused := errors.AsType[*AuthError](err); !known && !refused {
		s.server.log.Error("a request failed", "session", s.ref.Path(), "id", id.String(), "error", err)
	}
	to.Respond(mcp.AppendError(nil, id, wire), wire)
}

func (s *session) inboundRequest(a *arrival) inbound.Request {
	return inbound.Request{ID: a.ID, Method: a.Method, Unlisted: s.stateless}
}

// begin makes the call of an arrival. It runs on this goroutine if it may, and then loses
// the reader if it is slow all the same; else on a goroutine of its own.
func (s *session) begin(a *arrival, w work, arguments []byte) (lost bool, err error) {
	if err := permit(s, a, a.Method, w.name(), w.scopes()); err != nil {
		return false, err
	}
	r := &request{
		session: s, port: a.port, work: w, version: a.version, client: a.client, principal: a.principal,
		arguments: arguments, optional: &noOptional,
	}
	if !a.Progress.IsZero() || a.InputResponses != nil || a.RequestState != nil {
		r.optional = &optional{token: a.Progress, responses: a.InputResponses, state: a.RequestState}
	}
	if a.reader != nil {
		r.port = s
	}
	if !a.mayRun(w) {
		return false, s.beginElsewhere(r, a, 0)
	}
	if r.hosted = w.asks(); r.hosted {
		defer a.reader.Hosts.Store(false)
		r.keep(a)
	}
	if cost := a.size(); a.reader != nil && cost > maxUncounted {
		if !s.budget.Hold(cost) {
			return false, inbound.ErrBusy
		}
		defer s.budget.Release(cost)
	}
	r.reader = a.reader
	if err := s.calls.Serve(&r.Call, r, s.inboundRequest(a)); err != nil {
		return false, err
	}
	r.leave() // if the handler has panicked
	return r.lost, nil
}

// mayRun reports whether work may be done on the goroutine of its arrival.
func (a *arrival) mayRun(w work) bool {
	switch {
	case a.reader == nil:
		return a.here && !w.asks()
	case len(a.reader.session.server.opts.Middleware) > 0 || !w.speed().Quick() || a.size() > maxInline:
		return false
	}
	return !w.asks() || a.version.Era() == mcp.EraLegacy && a.reader.Host() // in rounds a handler waits for a request, not for a response
}

// size returns the bytes that a call keeps of its request: _meta is kept three times, raw and
// decoded.
func (a *arrival) size() int64 {
	return int64(len(a.Arguments) + len(a.InputResponses) + len(a.RequestState) + 3*len(a.Meta) + len(a.ID.String()) + len(a.Progress.String()))
}

// beginElsewhere runs a call on a goroutine of its own, with copies of its parts of the
// frame. further is the number of bytes that the call keeps beside them.
func (s *session) beginElsewhere(r *request, a *arrival, further int64) error {
	cost := a.size() + further
	if !s.budget.Hold(cost) {
		return inbound.ErrBusy
	}
	r.keep(a)
	if err := s.calls.Begin(&r.Call, r, s.inboundRequest(a)); err != nil {
		s.budget.Release(cost)
		return err
	}
	if x, ok := a.port.(*web.Exchange); ok {
		x.Began(&r.Call)
	}
	s.server.sys.GoBlocking(s.ref.Path(), func() {
		defer s.budget.Release(cost)
		r.Run()
	})
	return nil
}

// keep gives the request copies of its parts of the frame.
func (r *request) keep(a *arrival) {
	if a.Meta != nil {
		r.own().meta = r.client.Meta(a.Meta)
	}
	buffer.Keep((*[]byte)(&r.arguments), (*[]byte)(&r.responses), (*[]byte)(&r.state), &r.meta.Own)
}

// Bounds on the bytes that the server keeps for the calls of one client: large calls would
// fill the memory long before they are too many (ROB-3).
//
// A small call that runs where the pipe is read does not count. A large one does not run
// there: reading its arguments would delay others.
const (
	maxHeldSession   = 16 << 20
	maxHeldStateless = 256 << 20 // of all clients: each has its own bound before it
	maxUncounted     = 16 << 10
	maxInline        = 256 << 10
)
