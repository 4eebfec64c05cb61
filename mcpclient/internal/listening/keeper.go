// Package listening watches a server for a client: its tasks, its lists and its resources. It
// keeps the stream open on which a modern server announces changes.
package listening

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
)

// How the keeper's stream is changed and opened again.
const (
	wishDelay   = 20 * time.Millisecond // for several wishes at once
	keeperPause = 5 * time.Second       // after the server has ended the stream; doubles
	keeperMost  = 5 * time.Minute
)

// Keeper is the one listen stream that a client keeps open to a modern server for its own
// sake: for changes of the lists that the program uses, for resources that were subscribed to
// one by one, and for tasks that are waited for. A new wish opens the stream anew.
type Keeper struct {
	watching *Watching

	mu     sync.Mutex             // guards the fields below it: wishes come on the goroutines of callers and must be known when they return; the stream itself is an actor
	lists  mcp.SubscriptionFilter // the lists that are to be kept fresh
	uris   map[*Resource]bool
	tasks  map[string]int // that are waited for, by how many
	listen *watch.Listen  // nil if there is no stream
	sent   mcp.SubscriptionFilter
	timer  *time.Timer // a change of the wish, or a new stream, is due
	ended  int         // in a row
	no     bool        // the server refuses, until the next session
	closed bool
}

// Resource is one resource that was subscribed to.
type Resource struct {
	URI      string
	Updated  func(uri string)
	Accepted func()      // may be called several times
	Ended    func(error) // by itself
}

// Add listens for a resource, and returns what ends that.
func (k *Keeper) Add(r *Resource) (remove func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closed:
		return nil, k.watching.Closed
	case k.no:
		return nil, k.watching.NotAccepted(r.URI)
	}
	if k.uris == nil {
		k.uris = make(map[*Resource]bool)
	}
	k.uris[r] = true
	k.due(wishDelay)
	return func() { k.remove(r) }, nil
}

func (k *Keeper) remove(r *Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uris[r] {
		delete(k.uris, r)
		k.due(wishDelay)
	}
}

// Want says that a list is to be kept fresh, by the method that reads it: changes are listened for
// if the server announces them.
func (k *Keeper) Want(method string, caps *mcp.ServerCapabilities) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.lists
	switch f := &k.lists; method {
	case mcp.MethodListTools:
		f.ToolsListChanged = caps.Tools != nil && caps.Tools.ListChanged
	case mcp.MethodListPrompts:
		f.PromptsListChanged = caps.Prompts != nil && caps.Prompts.ListChanged
	case mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodListSkills:
		f.ResourcesListChanged = caps.Resources != nil && caps.Resources.ListChanged
	}
	if !sameFilter(&before, &k.lists) {
		k.due(wishDelay)
	}
}

// AddTask and RemoveTask say which tasks are waited for.
func (k *Keeper) AddTask(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tasks == nil {
		k.tasks = make(map[string]int)
	}
	if k.tasks[id]++; k.tasks[id] == 1 {
		k.due(wishDelay)
	}
}

func (k *Keeper) RemoveTask(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tasks[id]--; k.tasks[id] == 0 {
		delete(k.tasks, id)
		k.due(wishDelay)
	}
}

// due has the stream looked after in a while. It is called under the lock.
func (k *Keeper) due(after time.Duration) {
	if k.closed || k.timer != nil {
		return
	}
	k.timer = time.AfterFunc(after, k.look)
}

// wish is what the stream is to carry. It is called under the lock.
func (k *Keeper) wish() (f mcp.SubscriptionFilter) {
	f = k.lists
	for w := range k.uris {
		f.ResourceSubscriptions = append(f.ResourceSubscriptions, w.URI)
	}
	slices.Sort(f.ResourceSubscriptions)
	f.ResourceSubscriptions = slices.Compact(f.ResourceSubscriptions)
	f.TaskIDs = slices.Sorted(maps.Keys(k.tasks))
	return f
}

func sameFilter(a, b *mcp.SubscriptionFilter) bool {
	return a.ToolsListChanged == b.ToolsListChanged && a.PromptsListChanged == b.PromptsListChanged &&
		a.ResourcesListChanged == b.ResourcesListChanged && slices.Equal(a.ResourceSubscriptions, b.ResourceSubscriptions) &&
		slices.Equal(a.TaskIDs, b.TaskIDs)
}

// look opens, changes or closes the stream.
func (k *Keeper) look() {
	k.mu.Lock()
	k.timer = nil
	wish := k.wish()
	empty := sameFilter(&wish, new(mcp.SubscriptionFilter))
	switch {
	case k.closed || k.no:
	case empty && k.listen != nil:
		k.listen.Close()
		k.listen = nil
	case empty || k.listen != nil && sameFilter(&wish, &k.sent):
	case k.listen != nil:
		k.sent = wish
		k.listen.Set(wish)
	default:
		k.sent = wish
		k.mu.Unlock()
		k.open(wish)
		return
	}
	k.mu.Unlock()
}

// open starts a stream. It may have ended before it is known here.
func (k *Keeper) open(wish mcp.SubscriptionFilter) {
	ended := false // guarded by the lock
	l := k.watching.Subscriptions.Open(wish, func(n watch.Notice) {
		if n.Kind == watch.Ended {
			k.mu.Lock()
			ended = true
			k.mu.Unlock()
		}
		k.notice(n)
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ended:
	case k.closed:
		l.Close()
	default:
		k.listen = l
		if now := k.wish(); !sameFilter(&now, &wish) {
			k.due(wishDelay)
		}
	}
}

// notice runs on the subscription's actor.
func (k *Keeper) notice(n watch.Notice) {
	k.watching.Changed(&n)
	switch n.Kind {
	case watch.Acknowledged:
		k.acknowledged(&n)
	case watch.ResourceUpdated:
		k.tell(func(w *Resource) (string, bool) { return n.URI, n.About(w.URI) })
	case watch.Missed:
		k.tell(func(w *Resource) (string, bool) { return w.URI, true })
	case watch.Ended:
		k.over(n.Err)
	}
}

// tell calls the functions of those whose resource which chooses.
func (k *Keeper) tell(which func(*Resource) (string, bool)) {
	k.mu.Lock()
	all := slices.Collect(maps.Keys(k.uris))
	k.mu.Unlock()
	for _, w := range all {
		if uri, ok := which(w); ok {
			w.Updated(uri)
		}
	}
}

// acknowledged compares what the server has agreed to with what was wished (SUB-05).
// Lists that it does not announce are read again when their time is over.
func (k *Keeper) acknowledged(n *watch.Notice) {
	var refused []*Resource
	k.mu.Lock()
	k.ended = 0
	for w := range k.uris {
		switch {
		case slices.Contains(n.Accepted.ResourceSubscriptions, w.URI):
			w.Accepted()
		case slices.Contains(n.Missing.ResourceSubscriptions, w.URI):
			delete(k.uris, w)
			refused = append(refused, w)
			// Not asked for again for its sake alone.
			k.sent.ResourceSubscriptions = slices.DeleteFunc(slices.Clone(k.sent.ResourceSubscriptions), func(uri string) bool { return uri == w.URI })
		}
	}
	k.mu.Unlock()
	for _, w := range refused {
		w.Ended(k.watching.NotAccepted(w.URI))
	}
	if n.Missing.ToolsListChanged || n.Missing.PromptsListChanged || n.Missing.ResourcesListChanged {
		k.watching.Log.Debug("the server announces fewer changes than it said it would")
	}
}

// over is told when the stream has ended for good. What the server ended in order is
// asked for again after a while; what it refuses is not.
func (k *Keeper) over(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listen = nil
	if k.closed {
		return
	}
	if err != nil {
		k.no = true
		for w := range k.uris {
			w.Ended(k.watching.Failed(err))
		}
		k.uris = nil
		k.watching.Log.Debug("the server's changes are not listened for", "error", err)
		return
	}
	k.due(min(keeperPause<<min(k.ended, 10), keeperMost))
	k.ended++
}

// Connected is called at a new session: a server that was upgraded may listen now.
func (k *Keeper) Connected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.no {
		k.no = false
		k.due(wishDelay)
	}
}

// Close ends the stream.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	for w := range k.uris {
		w.Ended(k.watching.Closed)
	}
	k.uris = nil
	if k.listen != nil {
		k.listen.Close()
		k.listen = nil
	}
}
