// notices.go: what the server tells of changes, and to whom.
//
//	changed, ResourceUpdated      changeDelay          told
//	quiet ───────────────────▶ waiting ──────▶ telling ─────▶ quiet
//	                                              │ more came meanwhile
//	                                              └──────────▶ waiting
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
	tasks  taskNews // nil where there are no tasks; set before anybody is served
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
	h.server = s
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
	news    struct{} // there is something to tell
	newsDue struct{} // the delay is over
	told    struct{} // who could be told was
)

// crier is the part of the server's actor that has the clients told.
type crier struct {
	hub  *notices
	busy bool // waiting or telling
	more bool // there is news since the telling began
}

// receive handles the messages that are the crier's.
func (k *crier) receive(c *actors.Context, msg any) {
	switch msg.(type) {
	case actors.Started: // perhaps again, after a failure: what was under way is lost
		if k.hub.fresh.Load() {
			k.wait(c)
		}
	case news:
		if k.busy {
			k.more = true
			return
		}
		k.wait(c)
	case newsDue:
		actors.Await(c,
			func(context.Context) (struct{}, error) { k.hub.tell(); return struct{}{}, nil },
			func(struct{}, error) any { return told{} })
	case told:
		if k.busy = false; k.more {
			k.wait(c)
		}
	}
}

func (k *crier) wait(c *actors.Context) {
	k.busy, k.more = true, false
	c.After(changeDelay, newsDue{})
}

// tell tells everybody what they have not heard. It is a task of the server's actor.
func (h *notices) tell() {
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
	for _, n := range h.server.live() {
		n.catchUp()
	}
	for _, l := range streams {
		l.catchUp()
	}
	for _, u := range updates {
		u.to.hear(u.uri)
	}
}

// now returns the versions of the lists.
func (h *notices) now() (v [numLists]uint64) {
	for kind := range numLists {
		v[kind] = h.lists[kind].Load()
	}
	return v
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
// an HTTP session without a stream is told when it has one.
func (s *session) catchUp() {
	h := s.legacy.Load()
	if h == nil || !s.ready.Load() || !s.reachable() {
		return
	}
	for kind := range numLists {
		if newer(&s.knows[kind], s.server.notices.lists[kind].Load()) && announces(&h.offered, kind) {
			s.push(mcp.AppendNotification(nil, listNotices[kind], nil))
		}
	}
}

// reachable reports whether something pushed goes to the client rather than to wait.
func (s *session) reachable() bool {
	streams, ok := s.out.(interface{ listening() bool }) // of an HTTP session
	return !ok || streams.listening()
}

// readUp says that a client who asks for the lists from now on gets them as they are.
func (s *session) readUp() {
	for kind, v := range s.server.notices.now() {
		newer(&s.knows[kind], v)
	}
}
