package subscriptions

import (
	"encoding/json"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// List is a list whose changes clients are notified of.
type List uint8

const (
	Tools List = iota
	Prompts
	Resources // and the templates
	numLists
)

// listNotices are the notifications by the list.
var listNotices = [numLists]string{mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged}

// announces reports whether the capabilities declare changes of a list (CAP-03, TOOL-01).
func announces(c *mcp.ServerCapabilities, list List) bool {
	switch list {
	case Tools:
		return c.Tools != nil && c.Tools.ListChanged
	case Prompts:
		return c.Prompts != nil && c.Prompts.ListChanged
	default:
		return c.Resources != nil && c.Resources.ListChanged
	}
}

// Options are what Notices need of their server.
type Options struct {
	Pace             time.Duration // the least time between two notices of one list to one client
	QuietUntilListed bool          // a client is not notified of a list before it has asked for it
	MaxListens       int           // streams of one client
	MaxShared        int           // streams over HTTP, of all clients
	MaxSubscriptions int           // resources of one client, and tasks of one stream
	OnWatched        func(uri string, on bool)
	ServerMeta       []byte            // `"_meta":{…}` of results
	Sessions         iter.Seq[Session] // that are open
	Wake             func(news any)    // sends to the actor that has the Notifier
	Announce         func(task string) // notifies a new stream of the status of a task
	Logger           *slog.Logger
}

// Session is a connection, as Notices see it. Its methods do not block.
type Session interface {
	subscriber
	// Subscriptions returns the state of the session here, the same each time.
	Subscriptions() *Client
	// Stateless reports whether it stands for the requests of many clients.
	Stateless() bool
	// Offered returns the capabilities that its legacy client was told; nil before that.
	Offered() *mcp.ServerCapabilities
	// Ready reports whether its legacy client has initialized (LIFE-07).
	Ready() bool
	// Reachable reports whether the client can receive a message that belongs to no request now.
	Reachable() bool
	// Notify sends such a message.
	Notify(frame []byte)
	// Go runs f on a goroutine of the server.
	Go(f func())
}

// subscriber is a legacy session or a stream.
type subscriber interface {
	// Updated notifies of an update of a resource.
	Updated(uri string)
}

// Client is what Notices keep of a session.
type Client struct {
	knows  [numLists]known       // what the legacy client may know of the lists
	listed [numLists]atomic.Bool // it has asked for the list; only with QuietUntilListed

	// Guarded by the Notices.
	closed     bool                // the session ends, and takes no more subscriptions
	subscribed map[string]struct{} // by the legacy client; nil for nothing
}

// Notices know the subscribers, and the changes that they were not notified of yet. The
// methods may be used from any goroutine, and none of them blocks.
type Notices struct {
	opts  Options
	began time.Time // the origin of the times of known
	lists [numLists]atomic.Uint64
	fresh atomic.Bool // there are changes, and the server's actor knows

	mu        sync.Mutex                       // guards the fields below: quick methods change and read them where requests are read
	streams   map[Session]map[*Stream]struct{} // acknowledged, or about to be
	shared    int                              // streams over HTTP, of all clients
	resources *Table[subscriber]
	byTask    map[string]map[*Stream]struct{}
	quotas    map[any]*quota
}

// quota counts the subscriptions of one client: a pipe, a legacy session, or a principal over HTTP.
type quota struct{ listens, uris int }

// New returns Notices without subscribers.
func New(o Options) *Notices {
	return &Notices{
		opts: o, began: time.Now(), streams: make(map[Session]map[*Stream]struct{}), resources: NewTable[subscriber](o.OnWatched),
		byTask: make(map[string]map[*Stream]struct{}), quotas: make(map[any]*quota),
	}
}

// Changed records a change of a list.
func (n *Notices) Changed(list List) {
	n.lists[list].Add(1)
	n.wake()
}

// Updated records an update of a resource.
func (n *Notices) Updated(uri string) {
	n.mu.Lock()
	subscribed := n.resources.Update(uri)
	n.mu.Unlock()
	if subscribed {
		n.wake()
	}
}

// news is a message to the server's actor, which has the Notifier: there are changes.
type news struct{}

// wake makes the server's actor notify the clients soon.
func (n *Notices) wake() {
	if !n.fresh.Swap(true) {
		n.opts.Wake(news{})
	}
}

// notify notifies all subscribers of the changes, and returns after what time the next
// notification of a list is due, 0 for never. It is a task of the server's actor. Several runs
// at once, of an actor that was restarted, notify of each change once.
func (n *Notices) notify() (again time.Duration) {
	n.fresh.Store(false)
	n.mu.Lock()
	var streams []*Stream
	for _, of := range n.streams {
		streams = slices.AppendSeq(streams, maps.Keys(of))
	}
	updates := n.resources.Take()
	n.mu.Unlock()
	for s := range n.opts.Sessions {
		again = sooner(again, n.catchUp(s))
	}
	for _, l := range streams {
		again = sooner(again, l.catchUp())
	}
	for _, u := range updates {
		u.To.Updated(u.URI)
	}
	return again
}

// sooner returns the shorter of two waits, of which 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// known is what a session or stream was notified of one list.
type known struct {
	version atomic.Uint64
	next    atomic.Int64 // the earliest time of the next notification, since Notices began
}

// raise raises a known version, and reports whether it was older.
func (k *known) raise(now uint64) bool {
	for {
		was := k.version.Load()
		if was >= now {
			return false
		}
		if k.version.CompareAndSwap(was, now) {
			return true
		}
	}
}

// offer calls send if k is behind the list and may be notified now. Otherwise it
// returns after what time it is to be notified, 0 for never.
func (n *Notices) offer(k *known, list List, send func()) (wait time.Duration) {
	version := n.lists[list].Load()
	if k.version.Load() >= version {
		return 0
	}
	now, next := time.Since(n.began), k.next.Load()
	if now < time.Duration(next) {
		return time.Duration(next) - now
	}
	if pace := n.opts.Pace; pace > 0 && !k.next.CompareAndSwap(next, int64(now+pace)) {
		return pace // another goroutine notifies
	}
	if k.raise(version) {
		send()
	}
	return 0
}

// Given records that a session gets a list: with QuietUntilListed it is notified of later
// changes only.
func (n *Notices) Given(s Session, list List) {
	if !n.opts.QuietUntilListed {
		return
	}
	c := s.Subscriptions()
	if c.listed[list].Load() {
		return
	}
	now := n.lists[list].Load() // before the list is read
	c.knows[list].raise(now)
	n.mu.Lock()
	for l := range n.streams[s] {
		l.knows[list].raise(now)
	}
	n.mu.Unlock()
	c.listed[list].Store(true)
}

// quiet reports whether a session is not notified of a list yet.
func (n *Notices) quiet(c *Client, list List) bool {
	return n.opts.QuietUntilListed && !c.listed[list].Load()
}

// catchUp notifies a legacy client of the lists that have changed since its last notification
// (TOOL-13, RES-06, PRM-05), if it has initialized (LIFE-07) and can receive it now:
// an HTTP session without a stream is notified when it has one. It returns after what time the
// next notification of a list is due, 0 for never.
func (n *Notices) catchUp(s Session) (again time.Duration) {
	offered := s.Offered()
	if offered == nil || !s.Ready() || !s.Reachable() {
		return 0
	}
	c := s.Subscriptions()
	for list := range numLists {
		if !n.quiet(c, list) && announces(offered, list) {
			again = sooner(again, n.offer(&c.knows[list], list, func() { s.Notify(mcp.AppendNotification(nil, listNotices[list], nil)) }))
		}
	}
	return again
}

// CatchUp notifies a session that has become reachable.
func (n *Notices) CatchUp(s Session) {
	if n.catchUp(s) > 0 {
		n.wake()
	}
}

// Begin records that a session begins with the lists as they are.
func (n *Notices) Begin(s Session) {
	for list := range numLists {
		s.Subscriptions().knows[list].raise(n.lists[list].Load())
	}
}

// Task notifies the subscribers of a task. Params is the task as tasks/get shows it, an object
// without a _meta.
func (n *Notices) Task(id string, params json.RawMessage) {
	n.mu.Lock()
	to := slices.Collect(maps.Keys(n.byTask[id]))
	n.mu.Unlock()
	for _, l := range to {
		l.taskChanged(params)
	}
}

// TaskWatched reports whether a stream has subscribed to a task.
func (n *Notices) TaskWatched(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.byTask[id]) > 0
}

// Len counts the subscriptions, and what those to resources cost in bytes.
func (n *Notices) Len() (streams, uris, tasks, quotas, bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, of := range n.streams {
		streams += len(of)
	}
	uris, bytes = n.resources.Len()
	return streams, uris, len(n.byTask), len(n.quotas), bytes
}
