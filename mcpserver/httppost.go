package mcpserver

import (
	"net/http"

	"github.com/troupe-dev/troupe/mcp"
)

// servePost takes one message, or one array of them, in the order of SHM-15.
func (s *Server) servePost(w http.ResponseWriter, r *http.Request) {
	if status, why := checkPost(r, s.opts.MaxMessage); status != 0 {
		if status == http.StatusUnsupportedMediaType {
			w.Header()["Accept-Encoding"] = valueIdentity
		}
		refuse(w, status, mcp.ID{}, invalid(why))
		return
	}
	p, ok := s.authenticate(w, r)
	if !ok {
		return
	}
	in := takeIntake()
	defer in.release()
	if !s.readBody(w, r, p, in) {
		return
	}
	x := &exchange{server: s, w: w, r: r}
	if mcp.IsBatch(in.body) {
		s.postBatch(x, in, p)
		return
	}
	err := mcp.Scan(in.body, &in.message)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, requestID(&in.message), mcp.ErrorOf(err)) // SHM-14
	case s.isModern(r, &in.message):
		s.postModern(x, in, p)
	default:
		s.postLegacy(x, in, p)
	}
}

// checkPost looks at what a POST says of its body, and wants to get.
func checkPost(r *http.Request, limit int) (status int, why string) {
	switch {
	case !isJSON(r.Header[headerType]): // SECA-2: no page can send that without being asked about it
		return http.StatusUnsupportedMediaType, "Content-Type must be " + typeJSON
	case !isPlain(r.Header[headerEncoding]):
		return http.StatusUnsupportedMediaType, "the body must not be compressed"
	case !acceptsBoth(r.Header["Accept"]):
		return http.StatusNotAcceptable, "Accept must list " + typeJSON + " and " + typeStream
	case r.ContentLength > int64(limit):
		return http.StatusRequestEntityTooLarge, "the message is too long"
	}
	return 0, ""
}

// isModern chooses the era of a request (ERA-12).
func (s *Server) isModern(r *http.Request, m *mcp.Message) bool {
	return m.Modern || modernHeader(r.Header[headerVersion]) || !s.web.legacy
}

// modernHeader reports whether the header names 2026-07-28 or something that may be
// yet to come.
func modernHeader(values []string) bool {
	if len(values) != 1 {
		return false
	}
	v := mcp.Version(values[0])
	if v.Known() {
		return v.Era() == mcp.EraModern
	}
	return len(v) == len(mcp.V2026_07_28) && v[0] <= '9' && v > mcp.V2026_07_28
}

// postModern serves a message that stands for itself.
func (s *Server) postModern(x *exchange, in *intake, p *Principal) {
	m := &in.message
	switch m.Kind {
	case mcp.KindRequest:
	case mcp.KindNotification:
		// None is defined that we would have to heed: a disconnect is the cancel, and an
		// id may be anybody's (SHM-05, SHM-16).
		if err := s.checkVersion(x.r.Header, m); err != nil {
			refuse(x.w, http.StatusBadRequest, mcp.ID{}, err)
			return
		}
		x.w.WriteHeader(http.StatusAccepted)
		return
	default:
		refuse(x.w, http.StatusBadRequest, mcp.ID{}, invalid("a client sends no responses")) // SHM-03
		return
	}
	n := s.common.Load()
	if n == nil {
		var err error
		if n, err = s.shared(); err != nil {
			s.log.Error("modern requests can not be served", "error", err)
			refuseClosed(x.w)
			return
		}
	}
	a := &in.arrival
	*a = arrival{Message: m, principal: p, port: x, here: true}
	if err := n.admitWeb(a, x.r.Header); err != nil {
		wire := mcp.ErrorOf(err)
		status := modernStatus(wire.Code)
		if wire.Code == mcp.CodeInvalidParams { // of _meta (MOD-01)
			status = http.StatusBadRequest
		}
		refuse(x.w, status, m.ID, wire)
		return
	}
	n.proceed(a)
	x.wait(in)
}

// modernStatus is the status of an error of 2026-07-28 that comes before any event
// (SHM-12, SHM-18).
func modernStatus(code int64) int {
	switch code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingClientCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusOK
}

// postLegacy serves a message of a session, or opens one.
func (s *Server) postLegacy(x *exchange, in *intake, p *Principal) {
	m := &in.message
	if len(x.r.Header[headerSession]) == 0 && m.Kind == mcp.KindRequest && outside(m.Method) {
		s.postOutside(x, in, p)
		return
	}
	n := s.sessionOf(x.w, x.r, p, requestID(m))
	if n == nil {
		return
	}
	defer s.web.done(n)
	x.legacy = n
	switch m.Kind {
	case mcp.KindRequest:
		a := &in.arrival
		*a = arrival{Message: m, principal: p, port: x, here: true}
		n.handle(a)
		x.wait(in)
	case mcp.KindNotification:
		n.notification(m)
		x.w.WriteHeader(http.StatusAccepted) // SHL-11
	default:
		n.response(m)
		x.w.WriteHeader(http.StatusAccepted) // SHL-16
	}
}

// outside reports whether a request needs no session to be understood.
func outside(method string) bool {
	return method == mcp.MethodInitialize || method == mcp.MethodDiscover
}

// requestID is the id of what is, or may be meant as, a request. That of an answer is
// one of ours, and no error is to be taken for the answer to another request.
func requestID(m *mcp.Message) mcp.ID {
	if m.Kind == mcp.KindRequest || m.Kind == mcp.KindInvalid {
		return m.ID
	}
	return mcp.ID{}
}

// postOutside opens a session (SHL-50), or tells a client of 2026-07-28 what its
// probe lacks.
func (s *Server) postOutside(x *exchange, in *intake, p *Principal) {
	m := &in.message
	if m.Method == mcp.MethodDiscover {
		refuse(x.w, http.StatusBadRequest, m.ID, mcp.Errorf(mcp.CodeInvalidParams, "the request has no _meta %s", mcp.MetaProtocolVersion))
		return
	}
	if v := x.r.Header[headerVersion]; len(v) > 1 || len(v) == 1 && mcp.Version(v[0]).Era() != mcp.EraLegacy { // SHL-62
		refuse(x.w, http.StatusBadRequest, m.ID, mcp.UnsupportedVersion(mcp.Version(v[0]), s.opts.Versions))
		return
	}
	n := s.newHTTPSession(p)
	if err := s.web.open(x.r.Context(), n); err != nil {
		s.log.Warn("a session can not be opened", "error", err)
		x.w.Header().Set("Retry-After", "30")
		refuse(x.w, http.StatusServiceUnavailable, m.ID, mcp.Errorf(mcp.CodeInternal, "no more sessions can be opened now"))
		return
	}
	defer s.web.done(n)
	x.legacy, x.opens = n, true
	a := &in.arrival
	*a = arrival{Message: m, principal: p, port: x, here: true}
	n.handle(a)
	if n.legacy.Load() == nil { // it was refused
		s.web.remove(n)
		n.ref.Send(&closeSession{cause: errHungUp})
	}
	x.wait(in)
}

// postBatch serves an array of messages: 2025-03-26 has them (BASE-22), nobody else
// (SHM-03).
func (s *Server) postBatch(x *exchange, in *intake, p *Principal) {
	if modernHeader(x.r.Header[headerVersion]) || !s.web.legacy {
		refuse(x.w, http.StatusBadRequest, mcp.ID{}, invalid("this revision has no batches"))
		return
	}
	n := s.sessionOf(x.w, x.r, p, mcp.ID{})
	if n == nil {
		return
	}
	defer s.web.done(n)
	x.legacy, x.batch = n, true
	n.startBatch(in.body, x)
	x.wait(in)
}
