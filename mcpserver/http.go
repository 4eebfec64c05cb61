package mcpserver

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// Handler serves clients over Streamable HTTP, on any path it is mounted at: the
// stateless requests of 2026-07-28 and the sessions of 2025-03-26 to 2025-11-25, on
// one URL and at once (ERA-10, ERA-12). It may be called more than once; all handlers
// share their sessions.
//
// It wants to be at the root of its server, or below middleware that passes on the
// http.ResponseWriter of package net/http or one that can be unwrapped
// (http.ResponseController); the server should have a ReadHeaderTimeout. Requests are refused whose
// Host or Origin is not allowed, see [Options].AllowedHosts: nothing is answered to
// preflight requests, so other origins need middleware that does.
//
// Stop it by the Server's Shutdown, and then the http.Server's, which waits for the
// event streams that the first one ends.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveHTTP) }

// Names and values of headers as net/http keeps them. Values are shared by all
// answers and never changed.
const (
	headerSession  = "Mcp-Session-Id"
	headerVersion  = "Mcp-Protocol-Version"
	headerMethod   = "Mcp-Method"
	headerName     = "Mcp-Name"
	headerType     = "Content-Type"
	headerLength   = "Content-Length"
	headerEncoding = "Content-Encoding"

	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

var (
	valueJSON      = []string{typeJSON}
	valueStream    = []string{typeStream}
	valueNoSniff   = []string{"nosniff"}
	valueClose     = []string{"close"}
	valueIdentity  = []string{"identity"}
	valueOnlyPost  = []string{"POST"}
	valueAllMethod = []string{"GET, POST, DELETE"}
)

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.gate(w, r) || s.cors(w, r) {
		return
	}
	// Without a session both are requests of no era that has them (SHM-01).
	legacy := s.web.legacy && (len(r.Header[headerSession]) > 0 || !modernHeader(r.Header[headerVersion]))
	switch {
	case r.Method == http.MethodPost:
		s.servePost(w, r)
	case r.Method == http.MethodGet && legacy: // ERA-15
		s.serveGet(w, r)
	case r.Method == http.MethodDelete && legacy:
		s.serveDelete(w, r)
	default:
		allow := valueAllMethod
		if !legacy {
			allow = valueOnlyPost // SHM-01
		}
		w.Header()["Allow"] = allow
		refuse(w, http.StatusMethodNotAllowed, mcp.ID{}, invalid("the method is not allowed"))
	}
}

// gate refuses what comes from where it must not (SHL-02, SHM-02), on every route,
// and everything once the server is closed.
func (s *Server) gate(w http.ResponseWriter, r *http.Request) bool {
	if why := s.guard.check(r); why != "" {
		s.log.Warn("a request from a host or origin that is not allowed", "host", shorten(r.Host), "origin", shorten(r.Header.Get("Origin")))
		refuse(w, http.StatusForbidden, mcp.ID{}, invalid(why))
		return false
	}
	if s.closed.Load() {
		refuseClosed(w)
		return false
	}
	return true
}

func refuseClosed(w http.ResponseWriter) {
	h := w.Header()
	h["Connection"] = valueClose
	h.Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, mcp.ID{}, mcp.Errorf(mcp.CodeInternal, "the server is shutting down"))
}

// authenticate finds out who sends a request; false if it was refused (SHL-03,
// SHL-54).
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) (*Principal, bool) {
	if s.opts.Authenticate == nil {
		return nil, true
	}
	p, err := s.opts.Authenticate(r)
	if err == nil {
		return p, true
	}
	status, challenge := http.StatusUnauthorized, ""
	if e, ok := errors.AsType[*AuthError](err); ok {
		if e.Status == http.StatusForbidden || e.Status == http.StatusBadRequest { // AUTH-04
			status = e.Status
		}
		challenge = e.Challenge
	}
	if challenge == "" && status == http.StatusUnauthorized {
		challenge = "Bearer" // there must be one (RFC 9110, 15.5.2)
	}
	if challenge != "" {
		w.Header().Set("Www-Authenticate", challenge)
	}
	s.log.Debug("a request was not authorized", "status", status, "error", err)
	refuse(w, status, mcp.ID{}, invalid("not authorized"))
	return nil, false
}

// sameAs reports whether two requests come from the same principal; nil is nobody.
func (p *Principal) sameAs(q *Principal) bool { return p.id() == q.id() }

// serveGet opens or resumes a stream of a legacy session (SHL-20).
func (s *Server) serveGet(w http.ResponseWriter, r *http.Request) {
	if !accepts(r.Header["Accept"], typeStream) {
		refuse(w, http.StatusNotAcceptable, mcp.ID{}, invalid("Accept must list "+typeStream))
		return
	}
	p, ok := s.authenticate(w, r)
	if !ok {
		return
	}
	if n := s.sessionOf(w, r, p, mcp.ID{}); n != nil {
		defer s.web.done(n)
		s.refuseGet(w, n.streams.Get(w, r, n.legacy.Load().version))
	}
}

// refuseGet answers a GET that has no stream.
func (s *Server) refuseGet(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
	case errors.Is(err, streams.ErrUnknownEvent): // not 404, which is the end of the session (SHL-42, SHL-52)
		refuse(w, http.StatusBadRequest, mcp.ID{}, invalid(err.Error()))
	case errors.Is(err, streams.ErrTooMany):
		refuse(w, http.StatusTooManyRequests, mcp.ID{}, invalid(err.Error()))
	default:
		refuse(w, http.StatusNotFound, mcp.ID{}, invalid(streams.ErrClosed.Error()))
	}
}

// serveDelete ends a legacy session (SHL-53). Its calls end with it (ROB-7).
func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request) {
	p, ok := s.authenticate(w, r)
	if !ok {
		return
	}
	if n := s.sessionOf(w, r, p, mcp.ID{}); n != nil {
		s.web.done(n)
		s.web.remove(n)
		n.ref.Send(&closeSession{cause: errHungUp})
		w.WriteHeader(http.StatusNoContent)
	}
}

// sessionOf finds the session that a request names, and checks the version that it
// names. It answers otherwise, and returns nil. The session is busy until done.
func (s *Server) sessionOf(w http.ResponseWriter, r *http.Request, p *Principal, id mcp.ID) *httpSession {
	names := r.Header[headerSession]
	if len(names) != 1 || names[0] == "" {
		refuse(w, http.StatusBadRequest, id, invalid("the request names no session (Mcp-Session-Id)")) // SHL-51
		return nil
	}
	n := s.web.use(names[0], p)
	if n == nil {
		refuse(w, http.StatusNotFound, id, invalid("no such session")) // SHL-52
		return nil
	}
	speaks := n.legacy.Load().version
	if v := r.Header[headerVersion]; len(v) > 1 || len(v) == 1 && v[0] != string(speaks) { // SHL-62, SHL-63
		s.web.done(n)
		refuse(w, http.StatusBadRequest, id, invalid("the session speaks "+string(speaks)))
		return nil
	}
	return n
}

func invalid(text string) *mcp.Error { return &mcp.Error{Code: mcp.CodeInvalidRequest, Message: text} }

// refuse answers with a status and a JSON-RPC error, which has no id unless one was
// read (BASE-08).
func refuse(w http.ResponseWriter, status int, id mcp.ID, e *mcp.Error) {
	h := w.Header()
	h["X-Content-Type-Options"] = valueNoSniff
	writeJSON(w, status, mcp.AppendError(nil, id, e))
}

// unannounced is how long an answer may be for net/http to find out its length
// itself, cheaper than we can say it.
const unannounced = 2048

func writeJSON(w http.ResponseWriter, status int, frame []byte) {
	h := w.Header()
	h[headerType] = valueJSON
	if len(frame) > unannounced {
		h[headerLength] = []string{strconv.Itoa(len(frame))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	_, _ = w.Write(frame) // the client has gone: nobody is left to be told
}
