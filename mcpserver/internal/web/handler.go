// handler.go: the handler, and the checks that all its requests pass.

package web

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/webserver"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// Options says what a [Handler] serves. Backend, Versions, Logger, Go and all numbers are
// required.
type Options struct {
	Backend        Backend
	Versions       []mcp.Version
	Authenticate   func(r *http.Request) (Sender, error) // nil: all senders are anonymous
	AllowedHosts   []string
	AllowedOrigins []string
	MaxMessage     int
	MaxSessions    int
	SessionTTL     time.Duration
	Streams        streams.Options
	Logger         *slog.Logger
}

// Handler serves HTTP clients. Its methods may be used from any goroutine.
type Handler struct {
	Options
	legacy   bool // a legacy revision is spoken
	origins  *guard
	bodies   bodies
	streams  *streams.Set
	sessions sessions
	old      oldSessions
	draining atomic.Bool
}

// New returns a handler. An error says which of the allowed hosts and origins is none.
func New(o Options) (*Handler, error) {
	origins, err := newGuard(o.AllowedHosts, o.AllowedOrigins)
	if err != nil {
		return nil, err
	}
	newest, _ := mcp.Newest(o.Versions, mcp.LegacyVersions())
	h := &Handler{Options: o, legacy: newest != "", origins: origins, streams: streams.NewSet(o.Streams)}
	h.sessions.ttl, h.sessions.most = o.SessionTTL, o.MaxSessions
	h.old.most = o.MaxSessions
	return h, nil
}

// Drain refuses all further requests.
func (h *Handler) Drain() { h.draining.Store(true) }

// Close ends all event streams, after Drain.
func (h *Handler) Close() { h.streams.Close() }

// InUse reports whether a client has an event stream open, or a request in flight in a
// legacy session.
func (h *Handler) InUse() bool { return h.streams.Connected() || h.sessions.inUse() }

// allows refuses requests from hosts and origins that are not allowed (SHL-02, SHM-02), and
// all requests once the server shuts down. From here on a body has BodyTime, also that of a request
// which is refused (ROB-8).
func (h *Handler) allows(w http.ResponseWriter, r *http.Request) bool {
	webserver.BoundBody(w, r)
	if why := h.origins.check(r); why != "" {
		h.Logger.Warn("a request from a host or origin that is not allowed", "host", clip.Name(r.Host), "origin", clip.Name(r.Header.Get("Origin")))
		refuse(w, http.StatusForbidden, mcp.ID{}, invalid(why))
		return false
	}
	if h.draining.Load() {
		refuseUnavailable(w)
		return false
	}
	return true
}

// authenticate returns the sender of a request; false if it has refused the request
// (SHL-03, SHL-54).
func (h *Handler) authenticate(w http.ResponseWriter, r *http.Request) (Sender, bool) {
	if h.Authenticate == nil {
		return Sender{}, true
	}
	from, err := h.Authenticate(r)
	if err == nil {
		delete(r.Header, "Authorization") // nothing that the server calls has the token (AUTH-51)
		return from, true
	}
	e, ok := errors.AsType[*Refusal](err)
	if !ok {
		e = &Refusal{Err: err}
	}
	status := e.write(w, mcp.ID{})
	h.Logger.Debug("a request was not authorized", "status", status, "error", err)
	return Sender{}, false
}

// refuseSession answers a request whose session could not be opened.
func (h *Handler) refuseSession(w http.ResponseWriter, id mcp.ID, err error) {
	h.Logger.Warn("a session cannot be opened", "error", err)
	w.Header().Set("Retry-After", "30")
	refuse(w, http.StatusServiceUnavailable, id, mcp.Errorf(mcp.CodeInternal, "no more sessions can be opened now"))
}

// sessionOf returns the session that a request names, after a check of the version that the
// request names. Otherwise it answers, and returns nil. The session is busy until done.
func (h *Handler) sessionOf(w http.ResponseWriter, r *http.Request, from Sender, id mcp.ID) *session {
	names := r.Header[headerSession]
	if len(names) != 1 || names[0] == "" {
		refuse(w, http.StatusBadRequest, id, invalid("the request names no session (Mcp-Session-Id)")) // SHL-51
		return nil
	}
	n := h.sessions.use(names[0], from)
	if n == nil {
		refuse(w, http.StatusNotFound, id, invalid("no such session")) // SHL-52
		return nil
	}
	speaks := n.Version()
	if v := r.Header[headerVersion]; len(v) > 1 || len(v) == 1 && v[0] != string(speaks) { // SHL-62, SHL-63
		h.sessions.done(n)
		refuse(w, http.StatusBadRequest, id, invalid("the session speaks "+string(speaks)))
		return nil
	}
	return n
}

// open opens a session of a principal (SHL-54, SECA-7), busy. Its id has 130 random bits, in
// letters and digits (SHL-50).
func (h *Handler) open(ctx context.Context, from Sender) (*session, error) {
	n := &session{id: rand.Text(), principal: from.ID, streams: h.streams.NewSession()}
	t := &h.sessions
	if err := t.add(n); err != nil {
		return nil, err
	}
	opened, err := h.Backend.Open(ctx, from, n.streams, func() { t.remove(n) })
	if err != nil {
		t.remove(n)
		return nil, err
	}
	n.streams.Opened = opened.Reachable
	t.mu.Lock()
	n.Session = opened
	t.mu.Unlock()
	return n, nil
}
