package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// SSE returns the handler of the transport of 2024-11-05 (SSE-11): a GET opens the stream of
// a session, whose first event names the address of its POSTs, and the session ends with
// the stream (SSE-05).
func (h *Handler) SSE() http.Handler { return http.HandlerFunc(h.serveSSE) }

// sessionKey is the parameter of the query that names a session.
const sessionKey = "session"

var valueGetPost = []string{"GET, POST"}

func (h *Handler) serveSSE(w http.ResponseWriter, r *http.Request) {
	if !h.allows(w, r) || h.cors(w, r) { // SSE-06
		return
	}
	switch {
	case r.Method == http.MethodGet && h.legacy:
		h.getSSE(w, r)
	case r.Method == http.MethodPost && h.legacy:
		h.postSSE(w, r)
	default:
		w.Header()["Allow"] = valueGetPost
		refuse(w, http.StatusMethodNotAllowed, mcp.ID{}, invalid("the method is not allowed"))
	}
}

// oldSession is a session of this transport.
type oldSession struct {
	Session          // set before the session can be found
	key       string // a secret
	principal string // its ID
	oldOutput
}

// oldOutput sends everything on the stream of the session (SSE-03).
type oldOutput struct{ stream *streams.Stream }

// oldSessions are the open sessions.
type oldSessions struct {
	most  int
	count atomic.Int64 // with those that are being opened
	byKey sync.Map     // of *oldSession
}

// find returns the session of a key, if it is the sender's (SECA-7).
func (t *oldSessions) find(key string, from Sender) *oldSession {
	found, _ := t.byKey.Load(key)
	if n, _ := found.(*oldSession); n != nil && n.principal == from.ID {
		return n
	}
	return nil
}

// remove drops a session; a second call does nothing.
func (t *oldSessions) remove(key string) {
	if _, there := t.byKey.LoadAndDelete(key); there {
		t.count.Add(-1)
	}
}

// Write implements [Output].
func (n *oldOutput) Write(frame []byte) error {
	n.stream.Send(frame)
	return nil
}

// Append implements [Output].
func (n *oldOutput) Append(frame []byte) error { return n.Write(frame) }

// Flush implements [Output].
func (n *oldOutput) Flush() error { return nil }

// Close implements [Output].
func (n *oldOutput) Close(context.Context) error {
	n.stream.End()
	return nil
}

// openOld opens the session of a GET and its stream. On an error nothing is left of either.
// If the session ends before it can be found, its stream ends too, and removes it.
func (h *Handler) openOld(w http.ResponseWriter, r *http.Request, from Sender) (streams.Standing, error) {
	t, n := &h.old, &oldSession{key: rand.Text(), principal: from.ID}
	remove := func() { t.remove(n.key) }
	n.stream = h.streams.Typed(sse.DefaultType, func(error) {
		remove()
		n.Session.Close(errHungUp)
	})
	n.stream.Begin("endpoint", n.endpoint(r))
	if t.count.Add(1) > int64(t.most) {
		t.count.Add(-1)
		return nil, fmt.Errorf("%w: %d", errTooManySessions, t.most)
	}
	opened, err := h.Backend.Open(r.Context(), from, &n.oldOutput, remove)
	if err != nil {
		t.count.Add(-1)
		return nil, err
	}
	n.Session = opened
	t.byKey.Store(n.key, n)
	c, err := n.stream.Connect(w, r, from.Expiry)
	if err != nil {
		remove()
		opened.Close(errHungUp)
	}
	return c, err
}

// getSSE opens a session and its stream. It returns when they have ended, or go on without
// the goroutine.
func (h *Handler) getSSE(w http.ResponseWriter, r *http.Request) {
	if !accepts(r.Header["Accept"], typeStream) {
		refuse(w, http.StatusNotAcceptable, mcp.ID{}, invalid("Accept must list "+typeStream))
		return
	}
	from, ok := h.authenticate(w, r)
	if !ok {
		return
	}
	switch c, err := h.openOld(w, r, from); {
	case err == nil:
		_ = c.Run(r.Context()) // the session ends with the stream
	case errors.Is(err, ErrUnavailable) || errors.Is(err, streams.ErrShutdown):
		refuseUnavailable(w)
	default:
		h.refuseSession(w, mcp.ID{}, err)
	}
}

// endpoint is the address of the client's POSTs: relative, because a proxy in front of the server may
// have changed the rest of the address (SSE-02).
func (n *oldSession) endpoint(r *http.Request) string {
	query := r.URL.Query() // it may have parameters for a proxy
	query.Set(sessionKey, n.key)
	return "?" + query.Encode()
}

// postSSE takes one message of a client, or one array of them. The answers go out on the
// stream (SSE-03).
func (h *Handler) postSSE(w http.ResponseWriter, r *http.Request) {
	if !h.announced(w, r, false) {
		return
	}
	from, ok := h.authenticate(w, r)
	if !ok {
		return
	}
	n := h.old.find(r.URL.Query().Get(sessionKey), from)
	if n == nil {
		refuse(w, http.StatusNotFound, mcp.ID{}, invalid("no such session")) // SSE-07
		return
	}
	in := takeIntake()
	defer in.release()
	if !h.readBody(w, r, from, in) {
		return
	}
	if mcp.IsBatch(in.body) {
		n.Batch(in.body, from, nil) // WIRE-12
		w.WriteHeader(http.StatusAccepted)
		return
	}
	m := &in.message
	if err := mcp.Scan(in.body, m); err != nil {
		refuse(w, http.StatusBadRequest, requestID(m), mcp.ErrorOf(err))
		return
	}
	switch {
	case m.Modern: // it would come without its headers (SHM-04)
		refuse(w, http.StatusBadRequest, requestID(m), invalid("2026-07-28 is not spoken on this transport"))
		return
	case m.Kind == mcp.KindRequest:
		n.Request(m, from, nil)
	case m.Kind == mcp.KindNotification:
		n.Notification(m)
	default:
		n.Response(m)
	}
	w.WriteHeader(http.StatusAccepted)
}
