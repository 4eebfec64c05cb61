// gateway.go: the servers of one client's tenant as parts of that client's own server.
//
//	           event             read, or as it was            what differs
//	server ──────────▶ its lane ────────────────────▶ shelves ─────────────▶ registry
//
// Each server has a lane, so that one that is slow, or has failed, holds up nobody: its
// last good lists stay. What the client is told of changes, and how often, is its
// server's business.

package expose

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Times of a gateway.
const (
	listTimeout = 30 * time.Second       // for the lists of one server, as a host has it
	relistPause = 200 * time.Millisecond // between two readings of one server's lists
	// A server that changes long lists all the time gets a share of a processor, not all of
	// it (SECA-9): it rests so many times as long as it took to offer what it has.
	offerShare   = 8
	maxOfferRest = 5 * time.Second
)

// relistDelays are those after which lists are read again that a server which is
// connected has failed to give. After the last the server has to say that they changed.
var relistDelays = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

// news says what of a server is to be looked at.
type news uint8

const (
	newTools news = 1 << iota
	newResources
	newTemplates
	newPrompts
	newLevel // of log messages
	newWatch // subscriptions that may be in vain, or to another server

	newLists = newTools | newResources | newTemplates | newPrompts
)

// gateway keeps one client's server in step with the servers of its tenant.
type gateway struct {
	up     *upstream
	log    *slog.Logger
	ctx    context.Context // ends with the gateway
	cancel context.CancelCauseFunc
	links  links
	book   atomic.Pointer[uriBook] // not nil once started

	host atomic.Pointer[mcpclient.Host] // nil before the first start; closed after pause

	mu      sync.Mutex
	order   []string                // of the servers in the configuration
	lanes   map[string]*lane        // by server; other ones after each start
	rests   context.CancelCauseFunc // ends the tasks of the lanes; nil before start, and after pause
	offered chan struct{}           // closed, and another one, when the client's lists were brought in step
	wanted  mcp.LogLevel            // the messages that the client has asked for; "" if it has not
	calls   map[string][]*errand
	watches map[string]*watched // by the client's URI
	// expected are the resources that are being subscribed to by legacy clients.
	expected map[string]int

	shelves sync.Mutex // held by whoever changes what is registered
	shelf   shelvesOfAll
}

// lane is what is kept of one server.
type lane struct {
	server string
	ctx    context.Context // ends with the gateway, or its pause
	wake   chan struct{}   // has room for one: there is news
	first  chan struct{}   // closed when its lists were read once, or could not be

	// Guarded by the lock of the gateway.
	news       news
	busy       bool   // a task looks after the news
	listed     bool   // first is closed
	generation uint64 // of the connection that the lists are of
	failures   int    // to read them, in a row
	told       news   // the lists that the server has said it announces changes of
	completes  bool   // it suggests values
	level      mcp.LogLevel
}

// newGateway returns a gateway that takes events. It serves nothing before start.
func newGateway(u *upstream) *gateway {
	g := &gateway{up: u, log: u.log, lanes: map[string]*lane{}, calls: map[string][]*errand{}, watches: map[string]*watched{},
		expected: map[string]int{}, offered: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancelCause(u.ctx)
	g.book.Store(newBook(nil, nil, nil))
	g.shelf.init()
	return g
}

// start connects to the servers of the tenant. It may be called again after pause: what is
// known of the servers stays until they have listed what they have.
func (g *gateway) start(t *agent.Tenant) {
	host := t.Host()
	g.mu.Lock()
	again := g.host.Swap(host) != nil
	var ctx context.Context
	ctx, g.rests = context.WithCancelCause(g.ctx)
	g.order = nil
	for _, s := range host.Servers() {
		if wanted := g.up.front.opts.Servers; !s.Disabled && (wanted == nil || slices.Contains(wanted, s.Name)) {
			g.order = append(g.order, s.Name)
			l := &lane{server: s.Name, ctx: ctx, wake: make(chan struct{}, 1), first: make(chan struct{})}
			if before := g.lanes[s.Name]; before != nil {
				l.completes = before.completes
			}
			g.lanes[s.Name] = l
		}
	}
	order := slices.Clone(g.order)
	g.mu.Unlock()
	if !again {
		g.book.Store(newBook(order, nil, nil))
	}
	g.up.server.RelayOthers(g.readOther)
	for _, server := range order {
		g.tell(server, newLists|newLevel|newWatch)
	}
}

// pause stops following the servers, whose connections are about to end. The client's lists
// stay as they are.
func (g *gateway) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rests != nil {
		g.rests(errIdle)
		g.rests = nil
	}
}

// waitForLists waits until each server has listed what it has, or has failed, but no longer
// than ListWait: what comes later is a change. The error is the cause of ctx.
func (g *gateway) waitForLists(ctx context.Context) error {
	g.mu.Lock()
	var lanes []*lane
	for _, server := range g.order {
		lanes = append(lanes, g.lanes[server])
	}
	g.mu.Unlock()
	enough := time.NewTimer(g.up.front.opts.ListWait)
	defer enough.Stop()
	late := false
	for _, l := range lanes {
		if !late {
			select {
			case <-l.first:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-enough.C:
				late = true
			}
		}
		select {
		case <-l.first:
		default:
			g.log.Warn("a server has not listed what it has in time; the client is served without it meanwhile; give slow servers longer with --list-wait",
				"server", l.server, "waited", g.up.front.opts.ListWait)
		}
	}
	return nil
}

// client returns the connection to a server.
func (g *gateway) client(server string) (*mcpclient.Client, error) {
	host := g.host.Load()
	if host == nil {
		return nil, mcpclient.ErrClosed
	}
	return host.Client(server)
}

// close ends what the gateway does. Its connections are the tenant's.
func (g *gateway) close() { g.cancel(ErrClosed) }

// event takes what has happened to a server.
func (g *gateway) event(e mcpclient.Event) {
	n := news(0)
	if e.ToolsChanged {
		n |= newTools
	}
	if e.ResourcesChanged {
		n |= newResources | newTemplates
	}
	if e.PromptsChanged {
		n |= newPrompts
	}
	if n == 0 && e.Status.State == conn.Ready && g.isNew(e.Server, e.Status.Generation) {
		n = newLists | newLevel | newWatch
	}
	g.tell(e.Server, n)
}

// announced takes from which lists on a server of 2026-07-28 tells changes: what it has
// changed after they were read, and before that, it has told nobody (SUB-02).
func (g *gateway) announced(server string, f *mcp.SubscriptionFilter) {
	n := news(0)
	if f.ToolsListChanged {
		n |= newTools
	}
	if f.ResourcesListChanged {
		n |= newResources | newTemplates
	}
	if f.PromptsListChanged {
		n |= newPrompts
	}
	g.mu.Lock()
	if l := g.lanes[server]; l != nil {
		n &^= l.told
		l.told |= n
	}
	g.mu.Unlock()
	g.tell(server, n)
}

// isNew reports whether the lists of a server are those of another connection.
func (g *gateway) isNew(server string, generation uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[server]
	return l != nil && l.generation != generation
}

// tell has a server's news looked after.
func (g *gateway) tell(server string, n news) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[server]
	if l == nil || n == 0 || l.ctx.Err() != nil {
		return
	}
	l.news |= n
	select {
	case l.wake <- struct{}{}:
	default:
	}
	if !l.busy {
		l.busy = true
		g.up.front.rt.System().Go("gateway "+server, func() { g.attend(l) })
	}
}

// attend looks after the news of a server until there is none.
func (g *gateway) attend(l *lane) {
	defer g.listed(l)
	var pause, least time.Duration
	for g.rest(l, pause, least) {
		n := g.take(l)
		if n == 0 {
			return
		}
		failed := g.read(l, n&newLists)
		began := time.Now()
		g.offerAll()
		least = min(offerShare*time.Since(began), maxOfferRest)
		g.listed(l)
		if n&newLevel != 0 {
			g.setLevel(l.ctx, l, g.wantedLevel())
		}
		if n&(newWatch|newResources|newTemplates) != 0 {
			g.watchAgain()
		}
		pause = g.again(l, failed)
	}
}

// take returns the news of a server. If there is none, its task is over.
func (g *gateway) take(l *lane) news {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := l.news
	l.news = 0
	if n == 0 {
		l.busy = false
	}
	return n
}

// rest waits between two readings, at least so long: news that comes in a burst is looked
// at once. It reports whether the gateway goes on.
func (g *gateway) rest(l *lane, pause, least time.Duration) bool {
	if pause > relistPause { // it has failed: news is a reason to try earlier
		late := time.NewTimer(pause)
		defer late.Stop()
		select {
		case <-late.C:
		case <-l.wake:
		case <-l.ctx.Done():
		}
		pause = relistPause
	}
	if pause = max(pause, least); pause > 0 {
		soon := time.NewTimer(pause)
		defer soon.Stop()
		select {
		case <-soon.C:
		case <-l.ctx.Done():
		}
	}
	select {
	case <-l.wake:
	default:
	}
	return l.ctx.Err() == nil
}

// again says when a server is looked at again, and notes the lists that failed. One that
// is not connected is looked at when it is.
func (g *gateway) again(l *lane, failed news) time.Duration {
	ready := false
	if c, err := g.client(l.server); err == nil {
		ready = c.Status().State == conn.Ready
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if failed == 0 {
		l.failures = 0
		return relistPause
	}
	if !ready || l.failures >= len(relistDelays) {
		return relistPause
	}
	l.news |= failed
	l.failures++
	return relistDelays[l.failures-1]
}

// listed says that the lists of a server were read, or could not be.
func (g *gateway) listed(l *lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.listed {
		l.listed = true
		close(l.first)
	}
}

// read reads lists of a server and returns those that could not be read: they stay what
// they were.
func (g *gateway) read(l *lane, n news) (failed news) {
	if n == 0 {
		return 0
	}
	c, err := g.client(l.server)
	if err != nil {
		return n
	}
	ctx, cancel := context.WithTimeout(l.ctx, max(listTimeout, g.up.front.opts.ListWait))
	defer cancel()
	info, err := c.Info(ctx)
	if err != nil {
		if l.ctx.Err() == nil {
			g.log.Warn("a server can not be reached; what is known of it stays", "server", l.server, "error", err)
		}
		return n
	}
	generation := c.Status().Generation // now: an older one is read again, too often rather than too seldom
	g.mu.Lock()
	if l.generation != generation {
		l.generation, l.told = generation, 0
	}
	l.completes = info.Capabilities.Completions != nil || !info.Version.Has(mcp.FeatureCompletions)
	g.mu.Unlock()
	for _, list := range []struct {
		kind news
		read func() error
	}{
		{newTools, func() error {
			return fill(g, &g.shelf.tools, l, func() ([]mcp.Tool, error) { return c.ListTools(ctx) })
		}},
		{newResources, func() error {
			return fill(g, &g.shelf.resources, l, func() ([]mcp.Resource, error) { return c.ListResources(ctx) })
		}},
		{newTemplates, func() error {
			return fill(g, &g.shelf.templates, l, func() ([]mcp.ResourceTemplate, error) { return c.ListResourceTemplates(ctx) })
		}},
		{newPrompts, func() error {
			return fill(g, &g.shelf.prompts, l, func() ([]mcp.Prompt, error) { return c.ListPrompts(ctx) })
		}},
	} {
		if n&list.kind == 0 {
			continue
		}
		if err := list.read(); err != nil {
			failed |= list.kind
			if l.ctx.Err() != nil {
				continue
			}
			g.log.Warn("a list of a server can not be read; what is known of it stays", "server", l.server, "error", err)
		}
	}
	return failed
}

// fill puts a list of a server on its shelf.
func fill[D any](g *gateway, s *shelf[D], l *lane, read func() ([]D, error)) error {
	items, err := read()
	if errors.Is(err, mcp.ErrMethodNotFound) { // it declares a list that it does not have
		g.warn("list", target{server: l.server}, "a server does not know a list that it declares; it counts as empty", err)
		items, err = nil, nil
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.last[l.server] = items
	return nil
}
