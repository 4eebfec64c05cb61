package expose

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent/expose/internal/hook"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/mcpserver"
)

// ErrClosed is returned once Close or Shutdown was called.
var ErrClosed = relay.ErrClosed

// Errors that refuse or end a client.
var (
	errHungUp  = errors.New("the client has hung up")
	errTooMany = errors.New("there are too many clients")
	errIdle    = errors.New("the client was idle for too long")
	errCrowded = errors.New("the client had to make room for others")
)

// table is one of the ways in which a request finds its client.
type table int

const (
	byKey     table = iota // stateless clients
	bySession              // legacy sessions over HTTP, by the session's ID
	byStream               // those of HTTP+SSE, by the front's key
	tables
)

// clients are the clients of a front: those that are open, idle or ending.
type clients struct {
	opts *Options
	log  *slog.Logger

	mu     sync.Mutex // guards the fields below and the rows: each request takes it for a map access or two, and an actor would put a hop into each
	open   map[*clientSession]struct{}
	ending map[*clientSession]struct{} // closed, and not ended yet
	found  [tables]map[string]*clientSession
	clock  *time.Timer // runs while there are clients that may be idle
	closed bool
}

// row is the entry of one client in the clients' table.
type row struct {
	busy int       // requests that use it now
	used bool      // a request has come after the one that opened it
	idle time.Time // since when
	id   string    // by which the client comes back; empty for pipes and stateless clients
}

func (t *clients) init(o *Options) {
	t.opts, t.log = o, o.Logger
	t.open, t.ending = make(map[*clientSession]struct{}), make(map[*clientSession]struct{})
	for i := range t.found {
		t.found[i] = make(map[string]*clientSession)
	}
}

// admit takes a client in, busy, and makes its server. If another request has just brought the
// stateless client of the same key, that one is returned.
func (t *clients) admit(u *clientSession) (*clientSession, error) {
	t.mu.Lock()
	in, out, err := t.place(u)
	t.mu.Unlock()
	if out != nil {
		out.end(errCrowded)
	}
	if in != u {
		u.cancel(err)
	}
	if err != nil {
		return nil, err
	}
	if _, err := in.serve(); err != nil {
		in.close(err)
		return nil, err
	}
	return in, nil
}

// place finds room for u. At the bound the longest idle client gives way, which is out: one
// without a session, or whose session was opened and never used (SECA-9). A principal without
// sessions has a share of the room, or it would drive out all others by declaring ever other
// capabilities. The caller holds mu.
func (t *clients) place(u *clientSession) (in, out *clientSession, err error) {
	if t.closed {
		return nil, nil, ErrClosed
	}
	if in := t.found[byKey][u.key]; u.key != "" && in != nil {
		t.use(in)
		return in, nil, nil
	}
	if len(t.ending) >= t.opts.MaxClients { // crowded out ones may take long to end
		return nil, nil, errTooMany
	}
	if u.key != "" && t.hasShare(u.principal) {
		if out = t.idlest(func(o *clientSession) bool {
			return o.key != "" && principalID(o.principal) == principalID(u.principal)
		}); out == nil {
			return nil, nil, errTooMany
		}
	} else if len(t.open)+len(t.ending) >= t.opts.MaxClients {
		if out = t.idlest(func(o *clientSession) bool { return o.key != "" || !o.row.used }); out == nil {
			return nil, nil, errTooMany
		}
	}
	if out != nil {
		t.drop(out) // at once: no request finds it again
	}
	t.open[u] = struct{}{}
	if u.key != "" {
		t.found[byKey][u.key] = u
	}
	u.row.busy = 1
	return u, out, nil
}

// hasShare reports whether a principal has as many stateless clients as it may. The caller
// holds mu.
func (t *clients) hasShare(p *mcpserver.Principal) bool {
	n := 0
	for _, o := range t.found[byKey] {
		if principalID(o.principal) == principalID(p) {
			n++
		}
	}
	return n >= max(t.opts.MaxClients/4, 1)
}

// idlest returns the longest idle of the clients that fit, nil if none is idle. The caller holds
// mu.
func (t *clients) idlest(fits func(*clientSession) bool) (found *clientSession) {
	for u := range t.open {
		if u.row.busy == 0 && !u.client.Working() && fits(u) && (found == nil || u.row.idle.Before(found.row.idle)) {
			found = u
		}
	}
	return found
}

// find returns the client of a key, busy, if it is the principal's (SECA-7).
func (t *clients) find(by table, key string, p *mcpserver.Principal) *clientSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.found[by][key]
	if u == nil || principalID(u.principal) != principalID(p) {
		return nil
	}
	t.use(u)
	return u
}

// use keeps a client from being idle until done. The caller holds mu.
func (t *clients) use(u *clientSession) {
	u.row.busy++
	u.row.used = true
}

func (t *clients) done(u *clientSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.row.busy--
	u.row.idle = time.Now()
	t.startClock()
}

// touch starts the idle time of a client anew.
func (t *clients) touch(u *clientSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.row.idle = time.Now()
}

// name lets requests find an open client by its ID.
func (t *clients) name(u *clientSession, by table, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.open[u]; open {
		u.row.id = id
		t.found[by][id] = u
	}
}

// unname has no request find a client by its session any more.
func (t *clients) unname(u *clientSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found[bySession][u.row.id] == u {
		delete(t.found[bySession], u.row.id)
	}
}

// hasName reports whether a client has an ID.
func (t *clients) hasName(u *clientSession) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return u.row.id != ""
}

// startClock has the clock run while there are clients that may be idle. The caller holds mu.
func (t *clients) startClock() {
	if t.clock != nil || t.closed {
		return
	}
	switch {
	case len(t.found[bySession]) > 0 && t.opts.IdleServers > 0:
		t.clock = time.AfterFunc(min(t.opts.IdleClient, t.opts.IdleServers)/4, t.sweep)
	case len(t.found[byKey]) > 0:
		t.clock = time.AfterFunc(t.opts.IdleClient/4, t.sweep)
	}
}

// sweep ends the idle stateless clients, and the connections of idle sessions.
func (t *clients) sweep() {
	t.mu.Lock()
	t.clock = nil
	now := time.Now()
	ends := t.restSessions(now)
	for _, u := range t.found[byKey] {
		if u.row.busy == 0 && now.Sub(u.row.idle) >= t.opts.IdleClient && !u.client.Working() {
			t.drop(u) // at once: no request finds it again
			ends = append(ends, func() { u.end(errIdle) })
		}
	}
	t.startClock()
	t.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// restSessions takes the connections from the idle clients with a session, and returns
// functions that end them. The caller holds mu.
func (t *clients) restSessions(now time.Time) (ends []func()) {
	if t.opts.IdleServers < 0 || t.closed {
		return nil
	}
	for _, u := range t.found[bySession] {
		if u.row.busy > 0 || u.client.Working() || hook.Server.InUse(u.server) {
			u.row.idle = now
			continue
		}
		if now.Sub(u.row.idle) < t.opts.IdleServers {
			continue
		}
		if end := u.rest(); end != nil {
			t.log.Info("a client is idle: its connections to the servers end, and are made anew when it comes back", "client", u.client.Name)
			ends = append(ends, end)
		}
	}
	return ends
}

// forget takes a client off all tables: no request finds it again. It reports whether the
// client was open.
func (t *clients) forget(u *clientSession) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drop(u)
}

// drop is forget for a caller that holds mu.
func (t *clients) drop(u *clientSession) bool {
	if _, there := t.open[u]; !there {
		return false
	}
	delete(t.open, u)
	t.ending[u] = struct{}{}
	for by, key := range [tables]string{byKey: u.key, bySession: u.row.id, byStream: u.row.id} {
		if t.found[by][key] == u {
			delete(t.found[by], key)
		}
	}
	return true
}

// ended forgets a client of which nothing is left.
func (t *clients) ended(u *clientSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ending, u)
}

func (t *clients) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

func (t *clients) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// close admits no more clients, and returns those that have not ended.
func (t *clients) close() (open, ending []*clientSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.clock != nil {
		t.clock.Stop()
		t.clock = nil
	}
	return slices.Collect(maps.Keys(t.open)), slices.Collect(maps.Keys(t.ending))
}
