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
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// Backend is the server whose messages are carried.
type Backend interface {
	// Modern handles a request of 2026-07-28 with the header h. A returned error refuses the
	// request; otherwise x gets its answer.
	Modern(m *mcp.Message, from Sender, h http.Header, x *Exchange) error
	// Open opens a legacy session. Messages that belong to none of its requests go to out.
	// Ended is called when the session ends, maybe more than once.
	Open(ctx context.Context, from Sender, out Output, ended func()) (Session, error)
}

// Session is a legacy session of the [Backend]. No method waits for the client.
type Session interface {
	// Request handles a request, and Batch an array of messages. With x nil the answers go to
	// the session's output.
	Request(m *mcp.Message, from Sender, x *Exchange)
	Batch(data []byte, x *Exchange)
	Notification(m *mcp.Message)
	Response(m *mcp.Message)
	// Version returns the negotiated revision, empty before initialize.
	Version() mcp.Version
	// Busy reports whether calls are in flight.
	Busy() bool
	// Reachable says that the client has opened a stream for messages of the server.
	Reachable()
	// Close ends the session.
	Close(cause error)
}

// Output takes the messages of a session that belong to none of its requests. No method but
// Close blocks.
type Output interface {
	// Write sends a frame, after those that are appended.
	Write(frame []byte) error
	// Append leaves the sending to a later Write or Flush.
	Append(frame []byte) error
	Flush() error
	Close(ctx context.Context) error
}

// Sender is who has sent a request.
type Sender struct {
	ID        string // of the principal; empty for an anonymous one
	Principal any    // as HTTPOptions.Authenticate has returned it
}

// ErrUnavailable refuses a request because the server shuts down.
var ErrUnavailable = errors.New("the server is shutting down")

// Causes of the end of a session.
var (
	errHungUp          = errors.New("the client has hung up")
	errTooManySessions = errors.New("there are too many sessions")
	errIdleSession     = errors.New("the session was idle for too long")
)

// Refusal is an error of HTTPOptions.Authenticate that chooses the response.
type Refusal struct {
	Status    int    // 400, 401 or 403; others are 401
	Challenge string // the value of WWW-Authenticate; may be empty
	Err       error  // for the log
}

func (e *Refusal) Error() string { return e.Err.Error() }

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
	bodies   slowBodies
	bytes    clientBytes
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

// Streamable returns the handler of Streamable HTTP.
func (h *Handler) Streamable() http.Handler { return http.HandlerFunc(h.serve) }

// Names and values of headers as net/http keeps them. Values are shared by all
// responses and never changed.
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

// allows refuses requests from hosts and origins that are not allowed (SHL-02, SHM-02), and
// all requests once the server shuts down.
func (h *Handler) allows(w http.ResponseWriter, r *http.Request) bool {
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

func refuseUnavailable(w http.ResponseWriter) {
	h := w.Header()
	h["Connection"] = valueClose
	h.Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, mcp.ID{}, mcp.Errorf(mcp.CodeInternal, "%v", ErrUnavailable))
}

// refuseSession answers a request whose session could not be opened.
func (h *Handler) refuseSession(w http.ResponseWriter, id mcp.ID, err error) {
	h.Logger.Warn("a session cannot be opened", "error", err)
	w.Header().Set("Retry-After", "30")
	refuse(w, http.StatusServiceUnavailable, id, mcp.Errorf(mcp.CodeInternal, "no more sessions can be opened now"))
}

// authenticate returns the sender of a request; false if it has refused the request
// (SHL-03, SHL-54).
func (h *Handler) authenticate(w http.ResponseWriter, r *http.Request) (Sender, bool) {
	if h.Authenticate == nil {
		return Sender{}, true
	}
	from, err := h.Authenticate(r)
	if err == nil {
		return from, true
	}
	status, challenge := http.StatusUnauthorized, ""
	if e, ok := errors.AsType[*Refusal](err); ok {
		if e.Status == http.StatusForbidden || e.Status == http.StatusBadRequest { // AUTH-04
			status = e.Status
		}
		challenge = e.Challenge
	}
	if challenge == "" && status == http.StatusUnauthorized {
		challenge = "Bearer" // a 401 must have a challenge (RFC 9110, 15.5.2)
	}
	if challenge != "" {
		w.Header().Set("Www-Authenticate", challenge)
	}
	h.Logger.Debug("a request was not authorized", "status", status, "error", err)
	refuse(w, status, mcp.ID{}, invalid("not authorized"))
	return Sender{}, false
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
	switch err := n.streams.Get(w, r, n.Version()); {
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

func invalid(text string) *mcp.Error { return &mcp.Error{Code: mcp.CodeInvalidRequest, Message: text} }

// refuse answers with a status and a JSON-RPC error. The zero id is left out (BASE-08).
func refuse(w http.ResponseWriter, status int, id mcp.ID, e *mcp.Error) {
	h := w.Header()
	h["X-Content-Type-Options"] = valueNoSniff
	writeJSON(w, status, mcp.AppendError(nil, id, e))
}

// unannounced bounds the answers whose length net/http finds out itself, cheaper than a
// header is set.
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
	_, _ = w.Write(frame) // an error means that the client has gone
}
