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

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

const headerSession = "Mcp-Session-Id"

// Handler serves clients over Streamable HTTP, of both eras on one URL (ERA-12): see
// [mcpserver.Server.Handler].
//
// Whose request it is decides which server of the front it is for: that of its session;
// a new one for initialize; and in 2026-07-28, which has no sessions, that of its
// principal with these capabilities. Whatever is none of these is answered by a server
// that has nobody's things.
func (f *Front) Handler() http.Handler { return http.HandlerFunc(f.serveHTTP) }

func (f *Front) serveHTTP(w http.ResponseWriter, r *http.Request) {
	r, ok := f.identify(r)
	lobby := f.lobby.Handler()
	if !ok || f.isClosed() {
		lobby.ServeHTTP(w, r)
		return
	}
	ids := r.Header[headerSession]
	if mcpserver.IsModern(r, new(mcp.Message)) { // by the header that it must have
		ids = nil // which this revision does not know (SHM-01)
	}
	if len(ids) == 1 {
		if u := f.find(f.sessions, ids[0], whoOf(r)); u != nil {
			defer f.done(u)
			u.server.Handler().ServeHTTP(w, r)
			return
		}
	}
	if r.Method != http.MethodPost || len(ids) > 0 {
		lobby.ServeHTTP(w, r)
		return
	}
	_, body, release, ok := f.lobby.Before(w, r)
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
		lobby.ServeHTTP(w, r)
		return
	}
	if opens {
		w = &sessionWriter{ResponseWriter: w, front: f, up: u}
	}
	defer func() {
		f.done(u)
		if opens && !f.isSession(u) { // it was refused
			u.close(errHungUp)
		}
	}()
	u.server.Handler().ServeHTTP(w, r)
}

// handedOn is a body that was read before. It is given back as soon as it was read again:
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

// route finds the upstream of a POST without a session, busy; nil is the lobby, which
// answers whatever is wrong with it. Opens says that it was made for this request, an
// initialize.
func (f *Front) route(r *http.Request, body []byte) (u *upstream, opens bool, err error) {
	var m mcp.Message
	if mcp.IsBatch(body) || mcp.Scan(body, &m) != nil || m.Kind != mcp.KindRequest {
		return nil, false, nil
	}
	p := whoOf(r)
	if !mcpserver.IsModern(r, &m) {
		if m.Method != mcp.MethodInitialize {
			return nil, false, nil
		}
		u, err = f.open(p, "")
		return u, true, err
	}
	key, ok := clientKey(p, m.Meta)
	if !ok || m.Method == mcp.MethodDiscover { // the lobby says what all of them would
		return nil, false, nil
	}
	u, err = f.stateless(p, key)
	return u, false, err
}

// stateless returns the upstream of a key, made if there is none.
func (f *Front) stateless(p *mcpserver.Principal, key string) (*upstream, error) {
	f.making.Lock() // two first requests make one
	defer f.making.Unlock()
	if u := f.find(f.keyed, key, p); u != nil {
		return u, nil
	}
	return f.make(p, key)
}

// refuse tells a client that there is no room for it.
func (f *Front) refuse(w http.ResponseWriter, why error) {
	f.log.Warn("a client can not be served", "error", why)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Retry-After", "30")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(mcp.AppendError(nil, mcp.ID{}, mcp.Errorf(mcp.CodeInternal, "no more clients can be served now")))
}

// clientKey tells stateless clients apart: by principal and capabilities. It is false if
// the capabilities can not be read.
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

// SSEHandler serves clients of the transport that 2024-11-05 had, on a path of its own:
// see [mcpserver.Server.SSEHandler].
func (f *Front) SSEHandler() http.Handler { return http.HandlerFunc(f.serveSSE) }

// streamKey is the parameter of the query by which we know the upstream of a POST. The
// session's own secret stands beside it.
const streamKey = "client"

func (f *Front) serveSSE(w http.ResponseWriter, r *http.Request) {
	r, ok := f.identify(r)
	lobby := f.lobby.SSEHandler()
	if !ok || f.isClosed() || r.Method != http.MethodGet {
		if ok {
			if u := f.find(f.streams, r.URL.Query().Get(streamKey), whoOf(r)); u != nil {
				defer f.done(u)
				u.server.SSEHandler().ServeHTTP(w, r)
				return
			}
		}
		lobby.ServeHTTP(w, r)
		return
	}
	if _, _, _, ok := f.lobby.Before(w, r); !ok {
		return
	}
	u, err := f.open(whoOf(r), "")
	if err != nil {
		f.refuse(w, err)
		return
	}
	key := rand.Text()
	f.mu.Lock()
	u.used, u.session = true, key
	f.streams[key] = u
	f.mu.Unlock()
	query := r.URL.Query()
	query.Set(streamKey, key)
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	out := &statusWriter{ResponseWriter: w}
	u.server.SSEHandler().ServeHTTP(out, r)
	f.done(u)
	if out.refused {
		u.close(errHungUp)
	}
}

// who is what was found out about the sender of a request.
type who struct {
	principal *mcpserver.Principal
	err       error
}

type whoKey struct{}

// identify finds out who sends a request, once. False is that it is to be refused, which
// a server does with the same words as ever: see known.
func (f *Front) identify(r *http.Request) (*http.Request, bool) {
	var one who
	if f.opts.Server.Authenticate != nil {
		one.principal, one.err = f.opts.Server.Authenticate(r)
	}
	return r.WithContext(context.WithValue(r.Context(), whoKey{}, one)), one.err == nil
}

func whoOf(r *http.Request) *mcpserver.Principal {
	one, _ := r.Context().Value(whoKey{}).(who)
	return one.principal
}

// known is the Authenticate of the servers of a front.
func known(r *http.Request) (*mcpserver.Principal, error) {
	one, _ := r.Context().Value(whoKey{}).(who)
	return one.principal, one.err
}

// find returns the upstream of a key, if it is the principal's (SECA-7), busy.
func (f *Front) find(table map[string]*upstream, key string, p *mcpserver.Principal) *upstream {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := table[key]
	if u == nil || principalID(u.principal) != principalID(p) {
		return nil
	}
	f.use(u)
	return u
}

func (f *Front) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

func (f *Front) isSession(u *upstream) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return u.session != ""
}

// sessionWriter sees which session an initialize has opened, before the client does.
type sessionWriter struct {
	http.ResponseWriter
	front *Front
	up    *upstream
	seen  bool
}

// Unwrap is for [http.ResponseController].
func (w *sessionWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *sessionWriter) WriteHeader(status int) {
	w.look()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *sessionWriter) Write(b []byte) (int, error) {
	w.look()
	return w.ResponseWriter.Write(b)
}

func (w *sessionWriter) look() {
	id := w.Header().Get(headerSession)
	if w.seen || id == "" {
		return
	}
	w.seen = true
	w.front.mu.Lock()
	defer w.front.mu.Unlock()
	if _, open := w.front.all[w.up]; open {
		w.up.session = id
		w.front.sessions[id] = w.up
	}
}

// statusWriter sees whether a stream was refused.
type statusWriter struct {
	http.ResponseWriter
	refused bool
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	w.refused = w.refused || status >= http.StatusBadRequest
	w.ResponseWriter.WriteHeader(status)
}
