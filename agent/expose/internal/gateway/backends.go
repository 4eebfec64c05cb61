package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

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
