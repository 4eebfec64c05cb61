package expose

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/troupe-dev/troupe/agent/expose/internal/hook"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

const headerSession = "Mcp-Session-Id"

// Handler serves clients over Streamable HTTP, in both eras on one URL: see
// [mcpserver.Server.Handler].
//
// A request goes to the server of its client: that of its session; a new one for initialize;
// and in 2026-07-28, which has no sessions, that of its principal and capabilities. A server
// that offers nothing answers all other requests.
func (f *Front) Handler() http.Handler { return http.HandlerFunc(f.serveHTTP) } // ERA-12

func (f *Front) serveHTTP(w http.ResponseWriter, r *http.Request) {
	r, ok := f.identify(r)
	byDefault := f.defaultServer.Handler()
	if !ok || f.clients.isClosed() {
		byDefault.ServeHTTP(w, r)
		return
	}
	ids := r.Header[headerSession]
	if hook.Server.IsModern(r, new(mcp.Message)) { // by the header that it must have
		ids = nil // this revision has no sessions (SHM-01)
	}
	if len(ids) == 1 {
		if u := f.clients.find(bySession, ids[0], principalOf(r)); u != nil {
			defer f.clients.done(u)
			if r.Method == http.MethodDelete {
				w = &headWriter{ResponseWriter: w, head: func(status int) {
					if status == http.StatusNoContent { // the session ends with this answer, and its client a little later
						f.clients.unname(u)
					}
				}}
			}
			u.server.Handler().ServeHTTP(w, r)
			return
		}
	}
	if r.Method != http.MethodPost || len(ids) > 0 {
		byDefault.ServeHTTP(w, r)
		return
	}
	_, body, release, ok := hook.Server.Admit(f.defaultServer, w, r)
	if !ok {
		return
	}
	release = sync.OnceFunc(release)
	defer release()
	r.Body, r.ContentLength = &handedOn{body, release}, int64(len(body))
	u, opens, err := f.route(r, body)
	switch {
	case err != nil:
		f.refuse(w, err)
		return
	case u == nil:
		byDefault.ServeHTTP(w, r)
		return
	}
	if opens {
		w = &headWriter{ResponseWriter: w, head: func(int) {
			if id := w.Header().Get(headerSession); id != "" {
				f.clients.name(u, bySession, id)
			}
		}}
	}
	defer func() {
		f.clients.done(u)
		if opens && !f.clients.hasName(u) { // it was refused
			u.close(errHungUp)
		}
	}()
	u.server.Handler().ServeHTTP(w, r)
}

// handedOn is a body that was read before. It is released as soon as it was read again, since
// a call may take long.
type handedOn struct {
	rest    []byte
	release func() // may be called again
}

// Read implements [io.Reader].
func (b *handedOn) Read(p []byte) (int, error) {
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if len(b.rest) == 0 {
		b.rest = nil
		b.release()
		return n, io.EOF
	}
	return n, nil
}

// Close implements [io.Closer].
func (b *handedOn) Close() error { return nil }

// route finds the client of a POST without a session, busy; nil is the default server, which
// answers bad requests itself. Opens reports that the client was made for this
// request, an initialize.
func (f *Front) route(r *http.Request, body []byte) (u *clientSession, opens bool, err error) {
	var m mcp.Message
	if mcp.IsBatch(body) || mcp.Scan(body, &m) != nil || m.Kind != mcp.KindRequest {
		return nil, false, nil
	}
	p := principalOf(r)
	if !hook.Server.IsModern(r, &m) {
		if m.Method != mcp.MethodInitialize {
			return nil, false, nil
		}
		u, err = f.open(p)
		return u, true, err
	}
	key, ok := clientKey(p, m.Meta)
	if !ok || m.Method == mcp.MethodDiscover { // the default server's answer is that of all
		return nil, false, nil
	}
	u, err = f.stateless(p, key)
	return u, false, err
}

// refuse answers a client for which there is no room.
func (f *Front) refuse(w http.ResponseWriter, why error) {
	f.log.Warn("a client cannot be served", "error", why)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Retry-After", "30")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(mcp.AppendError(nil, mcp.ID{}, mcp.Errorf(mcp.CodeInternal, "no more clients can be served now")))
}

// clientKey identifies a stateless client by its principal and capabilities. It is false if
// the capabilities cannot be read.
func clientKey(p *mcpserver.Principal, meta json.RawMessage) (string, bool) {
	var all mcp.Meta
	if mcp.Unmarshal(meta, &all) != nil {
		return "", false
	}
	raw, ok := all[mcp.MetaClientCapabilities]
	if !ok || mcp.Unmarshal(raw, new(mcp.ClientCapabilities)) != nil {
		return "", false
	}
	canonical, err := jsonx.Canonical(raw)
	if err != nil {
		return "", false
	}
	sum := sha256.New()
	sum.Write([]byte(principalID(p)))
	sum.Write([]byte{0})
	sum.Write(canonical)
	return hex.EncodeToString(sum.Sum(nil)), true
}

// SSEHandler serves clients of the transport of 2024-11-05, HTTP+SSE, on a path of its own:
// see [mcpserver.Server.SSEHandler].
func (f *Front) SSEHandler() http.Handler { return http.HandlerFunc(f.serveSSE) }

// streamKey is the query parameter by which a POST finds its client. The session's own secret
// is beside it.
const streamKey = "client"

func (f *Front) serveSSE(w http.ResponseWriter, r *http.Request) {
	r, ok := f.identify(r)
	byDefault := f.defaultServer.SSEHandler()
	if !ok || f.clients.isClosed() || r.Method != http.MethodGet {
		if ok {
			if u := f.clients.find(byStream, r.URL.Query().Get(streamKey), principalOf(r)); u != nil {
				defer f.clients.done(u)
				u.server.SSEHandler().ServeHTTP(w, r)
				return
			}
		}
		byDefault.ServeHTTP(w, r)
		return
	}
	if _, _, _, ok := hook.Server.Admit(f.defaultServer, w, r); !ok {
		return
	}
	u, err := f.open(principalOf(r))
	if err != nil {
		f.refuse(w, err)
		return
	}
	key := rand.Text()
	f.clients.name(u, byStream, key)
	query := r.URL.Query()
	query.Set(streamKey, key)
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	refused := false
	u.server.SSEHandler().ServeHTTP(&headWriter{ResponseWriter: w, head: func(status int) { refused = status >= http.StatusBadRequest }}, r)
	f.clients.done(u)
	if refused {
		u.close(errHungUp)
	}
}

// identify authenticates a request, once. False means that a server has to refuse it, which it
// does by identified.
func (f *Front) identify(r *http.Request) (*http.Request, bool) {
	var s sender
	if f.opts.Server.HTTP.Authenticate != nil {
		s.principal, s.err = f.opts.Server.HTTP.Authenticate(r)
	}
	return r.WithContext(context.WithValue(r.Context(), senderKey{}, s)), s.err == nil
}

// headWriter reports the head of a response before the client sees it.
type headWriter struct {
	http.ResponseWriter
	head func(status int) // called once
	seen bool
}

// Unwrap is for [http.ResponseController].
func (w *headWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *headWriter) WriteHeader(status int) {
	if !w.seen {
		w.seen = true
		w.head(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *headWriter) Write(b []byte) (int, error) {
	if !w.seen {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}
