// Package web carries the messages of an MCP server over HTTP: Streamable HTTP in both eras
// on one URL, and the HTTP+SSE transport of 2024-11-05 on another.
//
//	h, err := web.New(web.Options{Backend: server, …})
//	http.Handle("/mcp", h.Streamable())
//	http.Handle("/sse", h.SSE())
//
// The package checks where a request comes from (Host, Origin), authenticates its sender,
// reads the body within bounds, holds the headers against it, finds its session, and writes
// the response: at once, or as an event stream that the client can resume. The [Backend]
// does everything else.
package web

import (
	"errors"
	"net/http"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// Streamable returns the handler of Streamable HTTP.
func (h *Handler) Streamable() http.Handler { return http.HandlerFunc(h.serve) }

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	if !h.allows(w, r) || h.cors(w, r) {
		return
	}
	// Without a session, GET and DELETE are requests of no era that has them (SHM-01).
	legacy := h.legacy && (len(r.Header[headerSession]) > 0 || !modernHeader(r.Header[headerVersion]))
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r)
	case r.Method == http.MethodGet && legacy: // ERA-15
		h.get(w, r)
	case r.Method == http.MethodDelete && legacy:
		h.delete(w, r)
	default:
		allow := valueAllMethod
		if !legacy {
			allow = valueOnlyPost // SHM-01
		}
		w.Header()["Allow"] = allow
		refuse(w, http.StatusMethodNotAllowed, mcp.ID{}, invalid("the method is not allowed"))
	}
}

// Admit does with a request what comes before its message is read: it checks the origin,
// authenticates the sender, and reads the body of a POST; body is nil for other methods. With ok
// false the request was answered. The body must not be used after release.
func (h *Handler) Admit(w http.ResponseWriter, r *http.Request) (from Sender, body []byte, release func(), ok bool) {
	nothing := func() {}
	if !h.allows(w, r) || h.cors(w, r) {
		return Sender{}, nil, nothing, false
	}
	if r.Method != http.MethodPost {
		from, ok = h.authenticate(w, r)
		return from, nil, nothing, ok
	}
	in := takeIntake()
	if from, ok = h.receive(w, r, in); !ok {
		in.release()
		return Sender{}, nil, nothing, false
	}
	return from, in.body, in.release, true
}

// get opens or resumes a stream of a legacy session (SHL-20).
func (h *Handler) get(w http.ResponseWriter, r *http.Request) {
	if !accepts(r.Header["Accept"], typeStream) {
		refuse(w, http.StatusNotAcceptable, mcp.ID{}, invalid("Accept must list "+typeStream))
		return
	}
	from, ok := h.authenticate(w, r)
	if !ok {
		return
	}
	n := h.sessionOf(w, r, from, mcp.ID{})
	if n == nil {
		return
	}
	defer h.sessions.done(n)
	switch err := n.streams.Get(w, r, n.Version(), from.Expiry); {
	case err == nil:
	case errors.Is(err, streams.ErrUnknownEvent): // not 404, which is the end of the session (SHL-42, SHL-52)
		refuse(w, http.StatusBadRequest, mcp.ID{}, invalid(err.Error()))
	case errors.Is(err, streams.ErrTooMany):
		refuse(w, http.StatusTooManyRequests, mcp.ID{}, invalid(err.Error()))
	default:
		refuse(w, http.StatusNotFound, mcp.ID{}, invalid(streams.ErrClosed.Error()))
	}
}

// delete ends a legacy session (SHL-53). Its calls end with it (ROB-7).
func (h *Handler) delete(w http.ResponseWriter, r *http.Request) {
	from, ok := h.authenticate(w, r)
	if !ok {
		return
	}
	if n := h.sessionOf(w, r, from, mcp.ID{}); n != nil {
		h.sessions.done(n)
		h.sessions.remove(n)
		n.Close(errHungUp)
		w.WriteHeader(http.StatusNoContent)
	}
}
