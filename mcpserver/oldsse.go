package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// SSEHandler serves clients of the transport that 2024-11-05 had, HTTP with Server-Sent
// Events, on a path of its own beside [Server.Handler] (SSE-11): a GET opens the stream
// of a session, whose first event names the address of its POSTs, the same with a secret
// in the query. The session ends with the stream (SSE-05). All revisions with a
// handshake can be spoken over it (SSE-12).
//
// What is said of Handler holds for it too: the allowed hosts and origins, who is
// authenticated, the bounds, and how it is stopped.
func (s *Server) SSEHandler() http.Handler { return http.HandlerFunc(s.serveSSE) }

// sessionKey is the parameter of the query that tells the sessions apart.
const sessionKey = "session"

var valueGetPost = []string{"GET, POST"}

func (s *Server) serveSSE(w http.ResponseWriter, r *http.Request) {
	if !s.gate(w, r) || s.cors(w, r) { // SSE-06
		return
	}
	switch {
	case r.Method == http.MethodGet && s.newestLegacy() != "":
		s.openSSE(w, r)
	case r.Method == http.MethodPost && s.newestLegacy() != "":
		s.postSSE(w, r)
	default:
		w.Header()["Allow"] = valueGetPost
		refuse(w, http.StatusMethodNotAllowed, mcp.ID{}, invalid("the method is not allowed"))
	}
}

// oldSession is a session of this transport. It is the output of its session.
type oldSession struct {
	*session
	key    string // a secret
	stream *streams.Stream
}

// oldSessions are the sessions that are open.
type oldSessions struct {
	mu    sync.Mutex
	byKey map[string]*oldSession
}

func (t *oldSessions) add(n *oldSession, most int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byKey) >= most {
		return fmt.Errorf("%w: %d", errTooManySessions, len(t.byKey))
	}
	if t.byKey == nil {
		t.byKey = make(map[string]*oldSession)
	}
	t.byKey[n.key] = n
	return nil
}

// find returns the session of a key, if it is the principal's (SECA-7).
func (t *oldSessions) find(key string, p *Principal) *oldSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.byKey[key]; n != nil && n.principal.sameAs(p) {
		return n
	}
	return nil
}

func (t *oldSessions) remove(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byKey, key)
}

// Write implements output (SSE-03).
func (n *oldSession) Write(frame []byte) error {
	n.stream.Send(frame)
	return nil
}

func (n *oldSession) Append(frame []byte) error { return n.Write(frame) }
func (n *oldSession) Flush() error              { return nil }

func (n *oldSession) Close(context.Context) error {
	n.stream.End()
	return nil
}

// openSSE opens a session and its stream, and stays until they end; or returns while
// the stream lives on without a goroutine.
func (s *Server) openSSE(w http.ResponseWriter, r *http.Request) {
	if !accepts(r.Header["Accept"], typeStream) {
		refuse(w, http.StatusNotAcceptable, mcp.ID{}, invalid("Accept must list "+typeStream))
		return
	}
	p, ok := s.authenticate(w, r)
	if !ok {
		return
	}
	n := s.newOldSession(p)
	n.stream.Begin("endpoint", n.endpoint(r))
	err := s.old.add(n, s.opts.MaxSessions)
	if err == nil {
		err = s.open(r.Context(), n.session)
	}
	var c streams.Standing
	if err == nil {
		c, err = n.stream.Connect(w, r)
	}
	if err != nil {
		n.end()
		s.log.Warn("a session can not be opened", "error", err)
		if errors.Is(err, ErrClosed) || errors.Is(err, streams.ErrShutdown) {
			refuseClosed(w)
			return
		}
		w.Header().Set("Retry-After", "30")
		refuse(w, http.StatusServiceUnavailable, mcp.ID{}, mcp.Errorf(mcp.CodeInternal, "no more sessions can be opened now"))
		return
	}
	_ = c.Run(r.Context()) // gone has ended the session
}

func (s *Server) newOldSession(p *Principal) *oldSession {
	n := &oldSession{session: newSession(s), key: rand.Text()}
	n.principal = p
	n.out = n
	n.hangUp = func() { s.old.remove(n.key) }
	n.stream = s.streams.Typed(sse.DefaultType, func(error) { n.end() })
	return n
}

// end ends the session: nobody can hear its answers any more.
func (n *oldSession) end() {
	n.hangUp()
	if n.started.Completed() {
		n.ref.Send(&closeSession{cause: errHungUp})
	}
}

// endpoint is where the client sends its messages: relative, because what stands before
// us may have changed the rest of the address (SSE-02).
func (n *oldSession) endpoint(r *http.Request) string {
	query := r.URL.Query() // it may say more, to whoever stands before us
	query.Set(sessionKey, n.key)
	return "?" + query.Encode()
}

// postSSE takes one message of a client, or one array of them. Whatever there is to say
// about it goes out on the stream (SSE-03).
func (s *Server) postSSE(w http.ResponseWriter, r *http.Request) {
	switch {
	case !isJSON(r.Header[headerType]): // SECA-2
		refuse(w, http.StatusUnsupportedMediaType, mcp.ID{}, invalid("Content-Type must be "+typeJSON))
		return
	case !isPlain(r.Header[headerEncoding]):
		w.Header()["Accept-Encoding"] = valueIdentity
		refuse(w, http.StatusUnsupportedMediaType, mcp.ID{}, invalid("the body must not be compressed"))
		return
	case r.ContentLength > int64(s.opts.MaxMessage):
		refuse(w, http.StatusRequestEntityTooLarge, mcp.ID{}, invalid("the message is too long"))
		return
	}
	p, ok := s.authenticate(w, r)
	if !ok {
		return
	}
	n := s.old.find(r.URL.Query().Get(sessionKey), p)
	if n == nil {
		refuse(w, http.StatusNotFound, mcp.ID{}, invalid("no such session")) // SSE-07
		return
	}
	in := takeIntake()
	defer in.release()
	if !s.readBody(w, r, p, in) {
		return
	}
	if mcp.IsBatch(in.body) {
		n.startBatch(in.body, n.session) // WIRE-12
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
		in.arrival = arrival{Message: m, principal: p, port: n.session}
		n.handle(&in.arrival)
	case m.Kind == mcp.KindNotification:
		n.notification(m)
	default:
		n.response(m)
	}
	w.WriteHeader(http.StatusAccepted)
}
