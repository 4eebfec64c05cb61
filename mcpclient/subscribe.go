package mcpclient

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/resource"
)

// Subscribe asks the server to tell when a resource changes, in whatever way its
// revision has (RES-05, SUB-01), and waits until it agrees. F is called with the URI
// that changed, which may lie below uri, and also when changes may have been missed:
// after a reconnect the server is asked again. F may block; when it is too slow calls
// are dropped, as with [Options].OnToolsChanged.
func (c *Client) Subscribe(ctx context.Context, uri string, f func(uri string)) (*Subscription, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckURI(uri); err != nil {
		return nil, c.failed(mcp.MethodSubscribe, err)
	}
	if missing := missingCapability(mcp.MethodSubscribe, info); missing != "" {
		return nil, c.failed(mcp.MethodSubscribe, &UnsupportedError{Method: mcp.MethodSubscribe, Capability: missing, Version: info.Version})
	}
	s := new(Subscription)
	tell := func(uri string) { c.events.add(func() { f(uri) }) }
	if info.Era == mcp.EraModern {
		return s, c.watching().keeper.add(ctx, s, uri, tell)
	}
	u := &watch.ResourceUser{Updated: tell, Ended: func(err error) { s.end(c.failed(mcp.MethodSubscribe, err)) }}
	r, err := c.watching().resources.Add(ctx, uri, u)
	if err != nil {
		return nil, c.failed(mcp.MethodSubscribe, err)
	}
	s.stop = func() { r.Remove(u) }
	return s, nil
}

// How the keeper's stream is changed and opened again.
const (
	wishDelay   = 20 * time.Millisecond // for several wishes at once
	keeperPause = 5 * time.Second       // after the server has ended the stream; doubles
	keeperMost  = 5 * time.Minute
)

// keeper is the one listen stream that a client keeps open to a modern server for its
// own sake: for changes of the lists that somebody has asked for, for resources that
// were subscribed to one by one, and for tasks that are watched. A new wish opens the
// stream anew.
type keeper struct {
	client *Client

	mu     sync.Mutex
	lists  mcp.SubscriptionFilter // the lists that are to be kept fresh
	uris   map[*Subscription]resourceWish
	tasks  map[string]int // that are waited for, by how many
	listen *watch.Listen  // nil if there is no stream
	sent   mcp.SubscriptionFilter
	timer  *time.Timer // a change of the wish, or a new stream, is due
	ended  int         // in a row
	no     bool        // the server refuses, until the next session
	closed bool
}

// resourceWish is one resource that was subscribed to.
type resourceWish struct {
	uri  string
	tell func(string)
}

// wantFresh says that somebody uses a list, and wants it fresh from here on: changes
// are listened for if the server announces them, and the program wants to hear of
// them.
func (c *Client) wantFresh(method string) {
	info := c.info.Load()
	if info == nil || info.Era != mcp.EraModern || c.opts.NoListen {
		return
	}
	caps, k := &info.Capabilities, &c.watching().keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.lists
	switch method {
	case mcp.MethodListTools:
		k.lists.ToolsListChanged = caps.Tools != nil && caps.Tools.ListChanged
	case mcp.MethodListPrompts:
		k.lists.PromptsListChanged = caps.Prompts != nil && caps.Prompts.ListChanged
	case mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodListSkills:
		k.lists.ResourcesListChanged = caps.Resources != nil && caps.Resources.ListChanged
	}
	if before.ToolsListChanged != k.lists.ToolsListChanged || before.PromptsListChanged != k.lists.PromptsListChanged ||
		before.ResourcesListChanged != k.lists.ResourcesListChanged {
		k.due(wishDelay)
	}
}

// add subscribes to a resource and waits for the server's word.
func (k *keeper) add(ctx context.Context, s *Subscription, uri string, tell func(string)) error {
	s.stop = func() { k.remove(s) }
	k.mu.Lock()
	switch {
	case k.closed:
		k.mu.Unlock()
		return k.client.failed(mcp.MethodListen, ErrClosed)
	case k.no:
		k.mu.Unlock()
		return k.client.failed(mcp.MethodListen, errNotAccepted(uri))
	}
	if k.uris == nil {
		k.uris = make(map[*Subscription]resourceWish)
	}
	k.uris[s] = resourceWish{uri, tell}
	k.due(wishDelay)
	k.mu.Unlock()
	if _, err := s.ready.Wait(ctx); err != nil {
		k.remove(s)
		return err
	}
	return nil
}

func (k *keeper) remove(s *Subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.uris[s]; there {
		delete(k.uris, s)
		k.due(wishDelay)
	}
}

// addTask and removeTask say which tasks are waited for.
func (k *keeper) addTask(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tasks == nil {
		k.tasks = make(map[string]int)
	}
	if k.tasks[id]++; k.tasks[id] == 1 {
		k.due(wishDelay)
	}
}

func (k *keeper) removeTask(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tasks[id]--; k.tasks[id] == 0 {
		delete(k.tasks, id)
		k.due(wishDelay)
	}
}

// due has the stream looked after in a while. It is called under the lock.
func (k *keeper) due(after time.Duration) {
	if k.closed || k.timer != nil {
		return
	}
	k.timer = time.AfterFunc(after, k.look)
}

// wish is what the stream is to carry. It is called under the lock.
func (k *keeper) wish() (f mcp.SubscriptionFilter) {
	f = k.lists
	for _, w := range k.uris {
		f.ResourceSubscriptions = append(f.ResourceSubscriptions, w.uri)
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
func (k *keeper) look() {
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
func (k *keeper) open(wish mcp.SubscriptionFilter) {
	ended := false // guarded by the lock
	l := k.client.watching().listens.Open(wish, func(n Notice) {
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
func (k *keeper) notice(n Notice) {
	k.client.changed(&n)
	switch n.Kind {
	case watch.Acknowledged:
		k.acknowledged(&n)
	case watch.ResourceUpdated:
		k.tell(func(w resourceWish) (string, bool) { return n.URI, watch.Covers(w.uri, n.URI) })
	case watch.Missed:
		k.tell(func(w resourceWish) (string, bool) { return w.uri, true })
	case watch.Ended:
		k.over(n.Err)
	}
}

// tell calls the functions of those whose resource which chooses.
func (k *keeper) tell(which func(resourceWish) (string, bool)) {
	k.mu.Lock()
	all := slices.Collect(maps.Values(k.uris))
	k.mu.Unlock()
	for _, w := range all {
		if uri, ok := which(w); ok {
			w.tell(uri)
		}
	}
}

// acknowledged compares what the server has agreed to with what was wished (SUB-05).
// Lists that it does not announce are read again when their time is over.
func (k *keeper) acknowledged(n *Notice) {
	var refused []*Subscription
	k.mu.Lock()
	k.ended = 0
	for s, w := range k.uris {
		switch {
		case slices.Contains(n.Accepted.ResourceSubscriptions, w.uri):
			s.ready.Complete(struct{}{}, nil)
		case slices.Contains(n.Missing.ResourceSubscriptions, w.uri):
			delete(k.uris, s)
			s.uri = w.uri
			refused = append(refused, s)
			// Not asked for again for its sake alone.
			k.sent.ResourceSubscriptions = slices.DeleteFunc(slices.Clone(k.sent.ResourceSubscriptions), func(uri string) bool { return uri == w.uri })
		}
	}
	k.mu.Unlock()
	for _, s := range refused {
		s.end(k.client.failed(mcp.MethodListen, errNotAccepted(s.uri)))
	}
	if n.Missing.ToolsListChanged || n.Missing.PromptsListChanged || n.Missing.ResourcesListChanged {
		k.client.log.Debug("the server announces fewer changes than it said it would")
	}
}

// over is told when the stream has ended for good. What the server ended in order is
// asked for again after a while; what it refuses is not.
func (k *keeper) over(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listen = nil
	if k.closed {
		return
	}
	if err != nil {
		k.no = true
		for s := range k.uris {
			s.end(k.client.failed(mcp.MethodListen, err))
		}
		k.uris = nil
		k.client.log.Debug("the server's changes are not listened for", "error", err)
		return
	}
	k.due(min(keeperPause<<min(k.ended, 10), keeperMost))
	k.ended++
}

// connected is told of a new session: a server that was upgraded may listen now.
func (k *keeper) connected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.no {
		k.no = false
		k.due(wishDelay)
	}
}

// close ends the stream.
func (k *keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	for s := range k.uris {
		s.end(ErrClosed)
	}
	k.uris = nil
	if k.listen != nil {
		k.listen.Close()
		k.listen = nil
	}
}
