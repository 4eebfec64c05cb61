package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// httpSession is a legacy session over HTTP: its client comes back with the id.
type httpSession struct {
	*session
	id      string
	streams *streams.Session

	// Of the table, under its lock.
	busy int  // requests that use it now
	idle int  // ticks since the last one
	used bool // a request has come after the one that has opened it
	gone bool // out of the table
}

// newHTTPSession returns a session that is not yet open, bound to a principal
// (SHL-54, SECA-7). Its id can not be guessed: 130 random bits, in letters and digits
// (SHL-50).
func (s *Server) newHTTPSession(p *Principal) *httpSession {
	n := &httpSession{session: newSession(s), id: rand.Text(), streams: s.streams.NewSession()}
	n.principal = p
	n.out = n.streams
	n.streams.Opened = n.catchUpNow
	n.hangUp = func() { s.web.remove(n) }
	return n
}

var (
	errTooManySessions = errors.New("there are too many sessions")
	errIdleSession     = errors.New("the session was idle for too long")
)

// webSessions are the legacy sessions over HTTP, and what else the handlers of a
// server share. One clock looks after all of them.
type webSessions struct {
	server *Server
	legacy bool // there may be any
	slow   slowBodies
	loads  loads

	mu    sync.Mutex
	byID  map[string]*httpSession
	clock *time.Timer // runs while there are any
	runs  bool
}

func (t *webSessions) init(s *Server) {
	t.server, t.legacy = s, s.newestLegacy() != ""
}

// ttlTicks is how many ticks an idle session lives.
const ttlTicks = 8

// open starts a session and keeps it, busy. Nobody else knows its id yet.
func (t *webSessions) open(ctx context.Context, n *httpSession) error {
	if err := t.add(n); err != nil {
		return err
	}
	if err := t.server.open(ctx, n.session); err != nil {
		t.remove(n)
		return err
	}
	return nil
}

// add keeps a session, busy. When there are too many, the longest idle of those that
// were opened and never used gives way (SECA-9): a client that is in use is not
// driven out by others.
func (t *webSessions) add(n *httpSession) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= t.server.opts.MaxSessions {
		out := t.unused()
		if out == nil {
			return fmt.Errorf("%w: %d", errTooManySessions, len(t.byID))
		}
		t.end(out, errTooManySessions)
	}
	if t.byID == nil {
		t.byID = make(map[string]*httpSession)
	}
	n.busy = 1
	t.byID[n.id] = n
	if !t.runs {
		t.runs = true
		if t.clock == nil {
			t.clock = time.AfterFunc(t.server.opts.SessionTTL/ttlTicks, t.tick)
		} else {
			t.clock.Reset(t.server.opts.SessionTTL / ttlTicks)
		}
	}
	return nil
}

// unused is called under the lock.
func (t *webSessions) unused() (longest *httpSession) {
	for _, n := range t.byID {
		if !n.used && n.busy == 0 && (longest == nil || n.idle > longest.idle) {
			longest = n
		}
	}
	return longest
}

// use returns the session of an id, if it is the principal's, and keeps it from
// being idle until done.
func (t *webSessions) use(id string, p *Principal) *httpSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || !n.principal.sameAs(p) || n.legacy.Load() == nil {
		return nil
	}
	n.busy++
	n.used = true
	return n
}

func (t *webSessions) done(n *httpSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.busy--
	n.idle = 0
}

// remove forgets a session, which may happen more than once. It does not end it.
func (t *webSessions) remove(n *httpSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(n)
}

// drop is called under the lock.
func (t *webSessions) drop(n *httpSession) {
	if !n.gone {
		n.gone = true
		delete(t.byID, n.id)
	}
}

// end is called under the lock.
func (t *webSessions) end(n *httpSession, cause error) {
	t.drop(n)
	n.ref.Send(&closeSession{cause: cause})
}

// InUse reports whether a client has an event stream open over HTTP, or a request in flight
// on a legacy session over HTTP.
func (s *Server) InUse() bool { return s.streams.Connected() || s.web.inUse() }

func (t *webSessions) inUse() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.byID {
		if n.inUse() {
			return true
		}
	}
	return false
}

// inUse is called under the lock of the table.
func (n *httpSession) inUse() bool {
	return n.busy > 0 || n.streams.Connections() > 0 || n.calls.Stats().IDs > 0
}

// tick ends the sessions that were idle for the TTL, or an eighth longer.
func (t *webSessions) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.byID {
		switch {
		case n.inUse():
			n.idle = 0
		case n.idle == ttlTicks:
			t.end(n, errIdleSession)
		default:
			n.idle++
		}
	}
	if t.runs = len(t.byID) > 0; t.runs {
		t.clock.Reset(t.server.opts.SessionTTL / ttlTicks)
	}
}
