// notices.go: notifications of changed lists and resources.
//
//	changed, ResourceUpdated      changeDelay            notified
//	quiet ───────────────────▶ waiting ──────▶ notifying ─────▶ quiet
//	                                              │ further changes
//	                                              └──────────▶ waiting
//
// A client that was notified of a list less than NoticePace ago is notified when that time is
// over.
//
// Legacy clients are notified of lists once they have initialized, and of the resources that
// they have subscribed to; clients of 2026-07-28 on the listen streams that
// asked for it. No notification waits for a client.

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
	"github.com/troupe-dev/troupe/mcpserver/internal/subscriptions"
)

// listKind is a list whose changes clients are notified of.
type listKind uint8

const (
	toolsList listKind = iota
	promptsList
	resourcesList // and the templates
	numLists
)

// listNotices are the notifications by the list.
var listNotices = [numLists]string{mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged}

// announces reports whether the capabilities declare changes of a list (CAP-03, TOOL-01).
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

// changeDelay gathers changes that follow each other closely.
const changeDelay = 20 * time.Millisecond

// notices knows the subscribers, and the changes that they were not notified of yet. Its
// methods may be used from any goroutine, and none of them blocks.
type notices struct {
	server *Server
	began  time.Time // the origin of the times of notified
	tasks  taskNews  // nil without tasks; set before the first session
	lists  [numLists]atomic.Uint64
	fresh  atomic.Bool // there are changes, and the server's actor knows

	notifying sync.Mutex // is held during notify, which a restarted actor may run while the earlier run goes on

	mu        sync.Mutex                        // guards the fields below: quick methods change and read them where requests are read
	streams   map[*session]map[*listen]struct{} // acknowledged, or about to be
	shared    int                               // streams over HTTP, of all clients: half of what may be in flight there
	resources *subscriptions.Table[subscriber]
	byTask    map[string]map[*listen]struct{}
	quotas    map[any]*quota
}

// subscriber is a legacy session or a listen stream.
type subscriber interface {
	// updated notifies of an update of a resource.
	updated(uri string)
}

func (h *notices) init(s *Server) {
	h.server, h.began = s, time.Now()
	h.streams = make(map[*session]map[*listen]struct{})
	h.resources = subscriptions.New[subscriber](s.opts.OnWatched)
	h.byTask = make(map[string]map[*listen]struct{})
	h.quotas = make(map[any]*quota)
}

// changed records a change of a list.
func (h *notices) changed(kind listKind) {
	h.lists[kind].Add(1)
	h.wake()
}

// wake makes the server's actor notify the clients soon.
func (h *notices) wake() {
	if !h.fresh.Swap(true) {
		h.server.ref.Send(news{})
	}
}

// Messages to the server's actor.
type (
	news     struct{}                      // there are changes
	newsDue  struct{}                      // the delay is over
	notified struct{ again time.Duration } // clients are notified; again is when a list is due, 0 for none
	listDue  struct{}                      // clients may be notified again of a list that has changed not long ago
)

// notifier is the part of the server's actor that notifies the clients.
type notifier struct {
	of      *notices
	busy    bool // waiting or notifying
	more    bool // there are changes since the notifying began
	pending bool // a listDue is to come
}

// receive handles the messages of the notifier.
func (k *notifier) receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started: // perhaps again, after a failure: earlier timers and tasks are lost
		if k.of.fresh.Load() || k.of.server.opts.NoticePace > 0 {
			k.wait(c)
		}
	case listDue:
		k.pending = false
		k.of.wake()
	case news:
		if k.busy {
			k.more = true
			return
		}
		k.wait(c)
	case newsDue:
		actors.Await(c,
			func(context.Context) (time.Duration, error) { return k.of.notify(), nil },
			func(again time.Duration, _ error) any { return notified{again} })
	case notified:
		if m.again > 0 && !k.pending {
			k.pending = true
			c.After(m.again, listDue{})
		}
		if k.busy = false; k.more {
			k.wait(c)
		}
	}
}

func (k *notifier) wait(c *actors.Context) {
	k.busy, k.more = true, false
	c.After(changeDelay, newsDue{})
}

// notify notifies all subscribers of the changes, and returns after what time the next
// notification of a list is due, 0 for never. It is a task of the server's actor.
func (h *notices) notify() (again time.Duration) {
	h.notifying.Lock()
	defer h.notifying.Unlock()
	h.fresh.Store(false)
	h.mu.Lock()
	var streams []*listen
	for _, of := range h.streams {
		streams = slices.AppendSeq(streams, maps.Keys(of))
	}
	updates := h.resources.Take()
	h.mu.Unlock()
	later := func(wait time.Duration) {
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	for _, n := range h.server.live() {
		later(h.catchUp(n))
	}
	for _, l := range streams {
		later(l.catchUp())
	}
	for _, u := range updates {
		u.To.updated(u.URI)
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

// knownList is what a session or stream was notified of one list.
type knownList struct {
	version atomic.Uint64
	next    atomic.Int64 // the earliest time of the next notification, since notices began
}

// offer calls send if k is behind a version and may be notified now. Otherwise it
// returns after what time it is to be notified, 0 for never.
func (h *notices) offer(k *knownList, version uint64, send func()) (wait time.Duration) {
	if k.version.Load() >= version {
		return 0
	}
	now, next := time.Since(h.began), k.next.Load()
	if now < time.Duration(next) {
		return time.Duration(next) - now
	}
	if pace := h.server.opts.NoticePace; pace > 0 && !k.next.CompareAndSwap(next, int64(now+pace)) {
		return pace // another goroutine notifies
	}
	if newer(&k.version, version) {
		send()
	}
	return 0
}

// given records that a session gets a list: with QuietUntilListed it is notified of later
// changes only.
func (h *notices) given(s *session, kind listKind) {
	if !h.server.opts.QuietUntilListed || s.listed[kind].Load() {
		return
	}
	now := h.lists[kind].Load() // before the list is read
	newer(&s.knows[kind].version, now)
	h.mu.Lock()
	for l := range h.streams[s] {
		newer(&l.knows[kind].version, now)
	}
	h.mu.Unlock()
	s.listed[kind].Store(true)
}

// quiet reports whether a session is not notified of a list yet.
func (h *notices) quiet(s *session, kind listKind) bool {
	return h.server.opts.QuietUntilListed && !s.listed[kind].Load()
}

// newer raises a known version, and reports whether it was older.
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

// catchUp notifies a legacy client of the lists that have changed since its last notification
// (TOOL-13, RES-06, PRM-05), if it has initialized (LIFE-07) and can receive it now:
// an HTTP session without a stream is notified when it has one. It returns after what time the
// next notification of a list is due, 0 for never.
func (n *notices) catchUp(s *session) (again time.Duration) {
	h := s.legacy.Load()
	if h == nil || !s.ready.Load() || !s.reachable() {
		return 0
	}
	for kind := range numLists {
		if n.quiet(s, kind) || !announces(&h.offered, kind) {
			continue
		}
		wait := n.offer(&s.knows[kind], n.lists[kind].Load(), func() { s.push(mcp.AppendNotification(nil, listNotices[kind], nil)) })
		if again == 0 || wait > 0 && wait < again {
			again = wait
		}
	}
	return again
}

// catchUpNow is catchUp for a session that has become reachable.
func (h *notices) catchUpNow(s *session) {
	if h.catchUp(s) > 0 {
		h.wake()
	}
}

// reachable reports whether the client can receive a message that belongs to no request now.
func (s *session) reachable() bool {
	streams, ok := s.out.(interface{ Listening() bool }) // of an HTTP session
	return !ok || streams.Listening()
}

// readUp records that a session begins with the lists as they are.
func (h *notices) readUp(s *session) {
	for kind, v := range h.now() {
		newer(&s.knows[kind].version, v)
	}
}
