package gateway

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/agent/expose/internal/hook"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// Options are the same for all gateways of a front.
type Options struct {
	System *actors.System
	Log    *slog.Logger
	// Servers are the backends that are offered. Nil means all.
	Servers []string
	// PlainNames keeps the own names of tools and prompts where they are unique.
	PlainNames bool
	// ListWait is how long a client's first list waits for backends that start.
	ListWait time.Duration
	// Reserved reports whether a name of a tool or prompt is taken by the front itself.
	Reserved func(name string) bool
	// Warnings are those of the front.
	Warnings *Warnings
}

// Gateway keeps one client's server in step with the backends. Make it with [New], then
// [Gateway.Attach] its server; it serves nothing before [Gateway.Start].
type Gateway struct {
	*Options
	client *relay.Client
	server *mcpserver.Server
	ctx    context.Context // ends with the gateway
	cancel context.CancelCauseFunc

	host  atomic.Pointer[mcpclient.Host] // nil before the first start; closed after a pause
	lists lists
	uris  uris

	// mu guards the fields below and the rows of the tables. Calls, subscriptions and notices
	// of backends change them in passing, in the goroutine that has them; an actor would put a
	// hop into each call.
	mu       sync.Mutex
	order    []string                // of the backends in the configuration
	backends map[string]*serverSync  // new ones after each start
	pause    context.CancelCauseFunc // ends the tasks of backends; nil before start, and after a pause
	logs     logs
	watches  map[string]*watch // by the client's URI
	expected map[string]int    // subscriptions of legacy clients under way, by URI
}

// New returns a gateway of a client. It ends with ctx, or with Close.
func New(ctx context.Context, o *Options, client *relay.Client) *Gateway {
	g := &Gateway{Options: o, client: client, backends: map[string]*serverSync{}, watches: map[string]*watch{}, expected: map[string]int{}}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	g.uris.book.Store(newBook(nil, nil, nil))
	g.lists.init()
	return g
}

// Attach makes s the server that is kept in step.
func (g *Gateway) Attach(s *mcpserver.Server) {
	g.server = s
	hook.Server.RelayOthers(s, g.readUnlisted)
}

// Start connects to the backends of a host. After a pause the known lists stay until the
// backends have listed again.
func (g *Gateway) Start(host *mcpclient.Host) {
	g.mu.Lock()
	again := g.host.Swap(host) != nil
	var ctx context.Context
	ctx, g.pause = context.WithCancelCause(g.ctx)
	g.order = nil
	for _, s := range host.Servers() {
		if !s.Disabled && (g.Servers == nil || slices.Contains(g.Servers, s.Name)) {
			g.order = append(g.order, s.Name)
			g.backends[s.Name] = &serverSync{g: g, server: s.Name, ctx: ctx, wake: make(chan struct{}, 1), first: make(chan struct{})}
		}
	}
	g.logs.restarted()
	order := slices.Clone(g.order)
	g.mu.Unlock()
	g.lists.setOrder(order)
	if !again {
		g.uris.book.Store(newBook(order, nil, nil))
	}
	for _, server := range order {
		g.notify(server, newLists|newLevel|newWatch)
	}
}

// Pause stops following the backends, whose connections are about to end. The client's lists
// stay as they are.
func (g *Gateway) Pause(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pause != nil {
		g.pause(cause)
		g.pause = nil
	}
}

// Close ends the tasks of the gateway. The connections are the tenant's.
func (g *Gateway) Close() { g.cancel(relay.ErrClosed) }

// WaitForLists waits until each backend has listed or failed, but no longer than ListWait:
// later lists are changes. The error is the cause of ctx.
func (g *Gateway) WaitForLists(ctx context.Context) error {
	g.mu.Lock()
	var all []*serverSync
	for _, server := range g.order {
		all = append(all, g.backends[server])
	}
	g.mu.Unlock()
	limit := time.NewTimer(g.ListWait)
	defer limit.Stop()
	expired := false
	for _, s := range all {
		if !expired {
			select {
			case <-s.first:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-limit.C:
				expired = true
			}
		}
		select {
		case <-s.first:
		default:
			g.Log.Warn("a server has not listed what it has in time; the client is served without it meanwhile; give slow servers longer with --list-wait",
				"server", s.server, "waited", g.ListWait)
		}
	}
	return nil
}

// InStep returns a channel that is closed when the client's lists are next brought in step.
func (g *Gateway) InStep() <-chan struct{} { return g.lists.nextChange() }

// HasTool reports whether a tool is in the client's list.
func (g *Gateway) HasTool(name string) bool {
	return g.Reserved(name) || isShown(&g.lists, &g.lists.tools, name)
}

// HasPrompt reports whether a prompt is in the client's list.
func (g *Gateway) HasPrompt(name string) bool {
	return g.Reserved(name) || isShown(&g.lists, &g.lists.prompts, name)
}

// backend returns the connection to a backend.
func (g *Gateway) backend(server string) (*mcpclient.Client, error) {
	host := g.host.Load()
	if host == nil {
		return nil, mcpclient.ErrClosed
	}
	return host.Client(server)
}

// Event takes an event of a backend's connection.
func (g *Gateway) Event(e mcpclient.Event) {
	n := newsOf(e.ToolsChanged, e.ResourcesChanged, e.PromptsChanged)
	if n == 0 && e.Status.State == conn.Ready {
		g.mu.Lock()
		if s := g.backends[e.Server]; s != nil && s.generation != e.Status.Generation {
			n = newLists | newLevel | newWatch
		}
		g.mu.Unlock()
	}
	g.notify(e.Server, n)
}

// Notification takes a notification of a backend, in order and before the outcome of the call
// that it belongs to. It does not block.
func (g *Gateway) Notification(server, method string, params []byte) {
	switch method {
	case mcp.NotificationMessage:
		if p := new(mcp.LogParams); mcp.Unmarshal(params, p) == nil && p.Validate() == nil {
			g.logged(server, p)
		}
	case mcp.NotificationListenAcknowledged:
		if p := new(mcp.ListenParams); mcp.Unmarshal(params, p) == nil && p.Validate() == nil {
			g.announced(server, p.Notifications)
		}
	}
}

// announced takes from which lists on a backend of 2026-07-28 notifies of changes. It sent no
// notification of changes between the reading of the list and now (SUB-02).
func (g *Gateway) announced(server string, f *mcp.SubscriptionFilter) {
	n := newsOf(f.ToolsListChanged, f.ResourcesListChanged, f.PromptsListChanged)
	g.mu.Lock()
	if s := g.backends[server]; s != nil {
		n &^= s.announced
		s.announced |= n
	}
	g.mu.Unlock()
	g.notify(server, n)
}
