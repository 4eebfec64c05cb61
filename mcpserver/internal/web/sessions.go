package web

import (
	"fmt"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcpserver/internal/streams"
)

// session is a legacy session of Streamable HTTP, whose client names it by its id.
type session struct {
	Session   // nil until it is open
	id        string
	principal string // its ID
	streams   *streams.Session

	// Of the table, under its lock.
	busy int  // requests that use it now
	idle int  // ticks since the last one
	used bool // a request has followed the one that has opened it
	gone bool // out of the table
}

// sessions are the legacy sessions of Streamable HTTP. One clock ends those that are idle
// for too long.
type sessions struct {
	ttl  time.Duration
	most int

	mu    sync.Mutex // guards the table and its sessions' counts, of goroutines of net/http and the clock: each request looks its session up, which would be a message to an actor
	byID  map[string]*session
	clock *time.Timer // runs while the table has sessions
	runs  bool
}

// ttlTicks is how many ticks an idle session lives.
const ttlTicks = 8

// add adds a session, busy. A full table drops its longest idle session of those that
// were opened and never used (SECA-9), so that no client can end sessions in use.
func (t *sessions) add(n *session) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= t.most {
		out := t.unused()
		if out == nil {
			return fmt.Errorf("%w: %d", errTooManySessions, len(t.byID))
		}
		t.end(out, errTooManySessions)
	}
	if t.byID == nil {
		t.byID = make(map[string]*session)
	}
	n.busy = 1
	t.byID[n.id] = n
	if !t.runs {
		t.runs = true
		if t.clock == nil {
			t.clock = time.AfterFunc(t.ttl/ttlTicks, t.tick)
		} else {
			t.clock.Reset(t.ttl / ttlTicks)
		}
	}
	return nil
}

// unused is called under the lock.
func (t *sessions) unused() (longest *session) {
	for _, n := range t.byID {
		if !n.used && n.busy == 0 && (longest == nil || n.idle > longest.idle) {
			longest = n
		}
	}
	return longest
}

// use returns the session of an id, if it is the sender's, and keeps it from being idle
// until done.
func (t *sessions) use(id string, from Sender) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || n.principal != from.ID || n.Session == nil || n.Version() == "" {
		return nil
	}
	n.busy++
	n.used = true
	return n
}

func (t *sessions) done(n *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.busy--
	n.idle = 0
}

// remove drops a session from the table; a second call does nothing. It does not end the session.
func (t *sessions) remove(n *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(n)
}

// drop is called under the lock.
func (t *sessions) drop(n *session) {
	if !n.gone {
		n.gone = true
		delete(t.byID, n.id)
	}
}

// end is called under the lock.
func (t *sessions) end(n *session, cause error) {
	t.drop(n)
	n.Close(cause)
}

func (t *sessions) inUse() bool {
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
func (n *session) inUse() bool {
	return n.busy > 0 || n.streams.Connections() > 0 || n.Busy()
}

// tick ends the sessions that were idle for the TTL, or up to an eighth longer.
func (t *sessions) tick() {
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
		t.clock.Reset(t.ttl / ttlTicks)
	}
}
