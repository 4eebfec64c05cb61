// notices.go: what the server tells of changes, and to whom.
//
//	changed, ResourceUpdated      changeDelay          told
//	quiet ───────────────────▶ waiting ──────▶ telling ─────▶ quiet
//	                                              │ more came meanwhile
//	                                              └──────────▶ waiting
//
// A list that was told of less than NoticePace ago is told of when that time is over.
//
// Legacy clients hear of lists once they have initialized, and of the resources that
// they have subscribed to. Clients of 2026-07-28 hear of both on the listen streams
// that asked for them. Nobody is waited for.

package mcpserver

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// listKind is a list that clients are told the changes of.
type listKind uint8

const (
	toolsList listKind = iota
	promptsList
	resourcesList // and the templates
	numLists
)

// listNotices are the notifications by the list.
var listNotices = [numLists]string{mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged}

// announces reports whether changes of a list are declared (CAP-03, TOOL-01).
func announces(c *mcp.ServerCapabilities, kind listKind) bool {
	switch kind {
	case toolsList:
		return c.Tools != nil && c.Tools.ListChanged
	case promptsList:
		return c.Prompts != nil && c.Prompts.ListChanged
	default:
		return c.Resources != nil && c.Resources.ListChanged
	}
}

// changeDelay gathers the changes of a program that changes many things.
const changeDelay = 20 * time.Millisecond

// notices is the hub: it knows who listens, and what they have not heard yet. Its
// methods may be used from any goroutine, and none of them blocks.
type notices struct {
	server *Server
	began  time.Time // what the times of heardOf are counted from
	tasks  taskNews  // nil where there are no tasks; set before anybody is served
	lists  [numLists]atomic.Uint64
	fresh  atomic.Bool // there is something to tell, and the server's actor knows

	telling sync.Mutex // held by whoever tells

	mu       sync.Mutex
	streams  map[*session]map[*listen]struct{} // that were acknowledged, or are about to be
	shared   int                               // streams over HTTP, of all clients: half of what may be in flight there
	watchers map[string]map[hearer]struct{}    // by the URI that was subscribed to
	lengths  [maxURI + 1]int32                 // how many URIs of each length watchers has
	watched  int                               // what watchers costs, in bytes
	byTask   map[string]map[*listen]struct{}
	quotas   map[any]*quota
	updated  map[string]struct{} // resources to tell of
	order    []string            // updated, the first first
}

// hearer is a legacy session or a listen stream.
type hearer interface {
	// hear tells of an update of the resource.
	hear(uri string)
}

func (h *notices) init(s *Server) {
	h.server, h.began = s, time.Now()
	h.streams = make(map[*session]map[*listen]struct{})
	h.watchers = make(map[string]map[hearer]struct{})
	h.byTask = make(map[string]map[*listen]struct{})
	h.quotas = make(map[any]*quota)
	h.updated = make(map[string]struct{})
}

// changed says that a list is not what it was.
func (s *Server) changed(kind listKind) {
	s.notices.lists[kind].Add(1)
	s.notices.wake()
}

// wake has the clients told soon.
func (h *notices) wake() {
	if !h.fresh.Swap(true) {
		h.server.ref.Send(news{})
	}
}

// Messages to the server's actor.
type (
	news    struct{}                      // there is something to tell
	newsDue struct{}                      // the delay is over
	told    struct{ again time.Duration } // who could be told was; again is when a list is due, 0 for none
	listDue struct{}                      // a list that was told of not long ago may be told of again
)

// crier is the part of the server's actor that has the clients told.
type crier struct {
	hub  *notices
	busy bool // waiting or telling
	more bool // there is news since the telling began
	late bool // a list is to be told of later
}

// receive handles the messages that are the crier's.
func (k *crier) receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started: // perhaps again, after a failure: what was under way is lost
		if k.hub.fresh.Load() || k.hub.server.opts.NoticePace > 0 {
			k.wait(c)
		}
	case listDue:
		k.late = false
		k.hub.wake()
	case news:
		if k.busy {
			k.more = true
			return
		}
		k.wait(c)
	case newsDue:
		actors.Await(c,
			func(context.Context) (time.Duration, error) { return k.hub.tell(), nil },
			func(again time.Duration, _ error) any { return told{again} })
	case told:
		if m.again > 0 && !k.late {
			k.late = true
			c.After(m.again, listDue{})
		}
		if k.busy = false; k.more {
			k.wait(c)
		}
	}
}

func (k *crier) wait(c *actors.Context) {
	k.busy, k.more = true, false
	c.After(changeDelay, newsDue{})
}

// tell tells everybody what they have not heard, and returns after what time somebody is
// to hear of a list that was told of not long ago, 0 for nobody. It is a task of the
// server's actor.
func (h *notices) tell() (again time.Duration) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.fresh.Store(false)
	h.mu.Lock()
	var streams []*listen
	for _, of := range h.streams {
		streams = slices.AppendSeq(streams, maps.Keys(of))
	}
	updates := h.takeUpdates()
	h.mu.Unlock()
	later := func(wait time.Duration) {
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	for _, n := range h.server.live() {
		later(n.catchUp())
	}
	for _, l := range streams {
		later(l.catchUp())
	}
	for _, u := range updates {
		u.to.hear(u.uri)
	}
	return again
}

// now returns the versions of the lists.
func (h *notices) now() (v [numLists]uint64) {
	for kind := range numLists {
		v[kind] = h.lists[kind].Load()
	}
	return v
}

// heardOf is what a session or stream has heard of one list.
type heardOf struct {
	version atomic.Uint64
	next    atomic.Int64 // when it may hear again, since the hub began
}

// tellOf calls say if somebody has not heard of a version, and may hear of it now. It
// returns after what time it is to be told otherwise, 0 for never.
func (h *notices) tellOf(k *heardOf, version uint64, say func()) (wait time.Duration) {
	if k.version.Load() >= version {
		return 0
	}
	now, next := time.Since(h.began), k.next.Load()
	if now < time.Duration(next) {
		return time.Duration(next) - now
	}
	if pace := h.server.opts.NoticePace; pace > 0 && !k.next.CompareAndSwap(next, int64(now+pace)) {
		return pace // somebody else tells
	}
	if newer(&k.version, version) {
		say()
	}
	return 0
}

// given says that a session is given a list: a client that is told only of lists that it
// has asked for has not to be told of what this one has already.
func (s *session) given(kind listKind) {
	h := &s.server.notices
	if !h.server.opts.QuietUntilListed || s.listed[kind].Load() {
		return
	}
	now := h.lists[kind].Load() // before the list is looked at
	newer(&s.knows[kind].version, now)
	h.mu.Lock()
	for l := range h.streams[s] {
		newer(&l.knows[kind].version, now)
	}
	h.mu.Unlock()
	s.listed[kind].Store(true)
}

// quiet reports whether a session is not to hear of a list yet.
func (s *session) quiet(kind listKind) bool {
	return s.server.opts.QuietUntilListed && !s.listed[kind].Load()
}

// newer raises what somebody knows of a list, and reports whether it was older.
func newer(known *atomic.Uint64, now uint64) bool {
	for {
		was := known.Load()
		if was >= now {
			return false
		}
		if known.CompareAndSwap(was, now) {
			return true
		}
	}
}

// catchUp tells a legacy client of the lists that have changed since it was told
// (TOOL-13, RES-06, PRM-05), if it has initialized (LIFE-07) and if it can be told now:
// an HTTP session without a stream is told when it has one. It returns after what time it
// is to be told of a list that it has heard of not long ago, 0 for never.
func (s *session) catchUp() (again time.Duration) {
	h := s.legacy.Load()
	if h == nil || !s.ready.Load() || !s.reachable() {
		return 0
	}
	n := &s.server.notices
	for kind := range numLists {
		if s.quiet(kind) || !announces(&h.offered, kind) {
			continue
		}
		wait := n.tellOf(&s.knows[kind], n.lists[kind].Load(), func() { s.push(mcp.AppendNotification(nil, listNotices[kind], nil)) })
		if again == 0 || wait > 0 && wait < again {
			again = wait
		}
	}
	return again
}

// catchUpNow is catchUp for a session that can be told since just now.
func (s *session) catchUpNow() {
	if s.catchUp() > 0 {
		s.server.notices.wake()
	}
}

// reachable reports whether something pushed goes to the client rather than to wait.
func (s *session) reachable() bool {
	streams, ok := s.out.(interface{ Listening() bool }) // of an HTTP session
	return !ok || streams.Listening()
}

// readUp says that a client who asks for the lists from now on gets them as they are.
func (s *session) readUp() {
	for kind, v := range s.server.notices.now() {
		newer(&s.knows[kind].version, v)
	}
}
