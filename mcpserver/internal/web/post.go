package web

import (
	"errors"
	"net/http"

	"github.com/troupe-dev/troupe/mcp"
)

// post takes one message, or one array of them, in the order of SHM-15.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	in := takeIntake()
	defer in.release()
	from, ok := h.receive(w, r, in)
	if !ok {
		return
	}
	x := &Exchange{handler: h, w: w, r: r}
	if mcp.IsBatch(in.body) {
		h.postBatch(x, in, from)
		return
	}
	err := mcp.Scan(in.body, &in.message)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, requestID(&in.message), mcp.ErrorOf(err)) // SHM-14
	case !h.legacy || IsModern(r, &in.message):
		h.postModern(x, in, from)
	default:
		h.postLegacy(x, in, from)
	}
}

// receive checks the headers of a POST, authenticates its sender and reads its body; false
// if it has refused the request.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, in *intake) (Sender, bool) {
	if !h.announced(w, r, true) {
		return Sender{}, false
	}
	from, ok := h.authenticate(w, r)
	return from, ok && h.readBody(w, r, from, in)
}

// announced refuses a POST for what its headers say of the body, and of the response that
// the client accepts where a response has a body.
func (h *Handler) announced(w http.ResponseWriter, r *http.Request, responds bool) bool {
	status, why := 0, ""
	switch {
	case !isJSON(r.Header[headerType]): // SECA-2: no page can send that without a preflight request
		status, why = http.StatusUnsupportedMediaType, "Content-Type must be "+typeJSON
	case !isPlain(r.Header[headerEncoding]):
		status, why = http.StatusUnsupportedMediaType, "the body must not be compressed"
	case responds && !acceptsBoth(r.Header["Accept"]):
		status, why = http.StatusNotAcceptable, "Accept must list "+typeJSON+" and "+typeStream
	case r.ContentLength > int64(h.MaxMessage):
		status, why = http.StatusRequestEntityTooLarge, "the message is too long"
	default:
		return true
	}
	if status == http.StatusUnsupportedMediaType {
		w.Header()["Accept-Encoding"] = valueIdentity
	}
	refuse(w, status, mcp.ID{}, invalid(why))
	return false
}

// IsModern reports whether a message over HTTP is one of 2026-07-28 (ERA-12).
func IsModern(r *http.Request, m *mcp.Message) bool {
	return m.Modern || modernHeader(r.Header[headerVersion])
}

// modernHeader reports whether the header names 2026-07-28 or a later revision.
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

// postModern serves a message of 2026-07-28.
func (h *Handler) postModern(x *Exchange, in *intake, from Sender) {
	m := &in.message
	switch m.Kind {
	case mcp.KindRequest:
	case mcp.KindNotification:
		// None is defined that we would have to heed: a disconnect is the cancel, and an
		// id may be any client's (SHM-05, SHM-16).
		if err := CheckVersion(x.r.Header, m, h.Versions); err != nil {
			refuse(x.w, http.StatusBadRequest, mcp.ID{}, err)
			return
		}
		x.w.WriteHeader(http.StatusAccepted)
		return
	default:
		refuse(x.w, http.StatusBadRequest, mcp.ID{}, invalid("a client sends no responses")) // SHM-03
		return
	}
	err := h.Backend.Modern(m, from, x.r.Header, x)
	switch {
	case err == nil:
		x.wait(in)
	case errors.Is(err, ErrUnavailable):
		h.Logger.Error("modern requests cannot be served", "error", err)
		refuseUnavailable(x.w)
	default:
		wire := mcp.ErrorOf(err)
		status := modernStatus(wire.Code)
		if wire.Code == mcp.CodeInvalidParams { // of _meta (MOD-01)
			status = http.StatusBadRequest
		}
		refuse(x.w, status, m.ID, wire)
	}
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
func (h *Handler) postLegacy(x *Exchange, in *intake, from Sender) {
	m := &in.message
	if len(x.r.Header[headerSession]) == 0 && m.Kind == mcp.KindRequest && outside(m.Method) {
		h.postOutside(x, in, from)
		return
	}
	n := h.sessionOf(x.w, x.r, from, requestID(m))
	if n == nil {
		return
	}
	defer h.sessions.done(n)
	x.session = n
	switch m.Kind {
	case mcp.KindRequest:
		n.Request(m, from, x)
		x.wait(in)
	case mcp.KindNotification:
		n.Notification(m)
		x.w.WriteHeader(http.StatusAccepted) // SHL-11
	default:
		n.Response(m)
		x.w.WriteHeader(http.StatusAccepted) // SHL-16
	}
}

// outside reports whether a request needs no session to be understood.
func outside(method string) bool {
	return method == mcp.MethodInitialize || method == mcp.MethodDiscover
}

// requestID returns the id of a request, or of a message that may be meant as one. The id of
// a response is one of ours, and must not look like the answer to another request.
func requestID(m *mcp.Message) mcp.ID {
	if m.Kind == mcp.KindRequest || m.Kind == mcp.KindInvalid {
		return m.ID
	}
	return mcp.ID{}
}

// postOutside opens a session (SHL-50), or tells a client of 2026-07-28 what its
// probe lacks.
func (h *Handler) postOutside(x *Exchange, in *intake, from Sender) {
	m := &in.message
	if m.Method == mcp.MethodDiscover {
		refuse(x.w, http.StatusBadRequest, m.ID, mcp.Errorf(mcp.CodeInvalidParams, "the request has no _meta %s", mcp.MetaProtocolVersion))
		return
	}
	if v := x.r.Header[headerVersion]; len(v) > 1 || len(v) == 1 && mcp.Version(v[0]).Era() != mcp.EraLegacy { // SHL-62
		refuse(x.w, http.StatusBadRequest, m.ID, mcp.UnsupportedVersion(mcp.Version(v[0]), h.Versions))
		return
	}
	n, err := h.open(x.r.Context(), from)
	if err != nil {
		h.refuseSession(x.w, m.ID, err)
		return
	}
	defer h.sessions.done(n)
	x.session, x.opens = n, true
	n.Request(m, from, x)
	if n.Version() == "" { // the session has refused initialize
		h.sessions.remove(n)
		n.Close(errHungUp)
	}
	x.wait(in)
}

// postBatch serves an array of messages, which only 2025-03-26 has (BASE-22, SHM-03).
func (h *Handler) postBatch(x *Exchange, in *intake, from Sender) {
	if modernHeader(x.r.Header[headerVersion]) || !h.legacy {
		refuse(x.w, http.StatusBadRequest, mcp.ID{}, invalid("this revision has no batches"))
		return
	}
	n := h.sessionOf(x.w, x.r, from, mcp.ID{})
	if n == nil {
		return
	}
	defer h.sessions.done(n)
	x.session, x.batch = n, true
	n.Batch(in.body, from, x)
	x.wait(in)
}
