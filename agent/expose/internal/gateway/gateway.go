package gateway

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/internal/clip"
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

	mu       sync.Mutex              // guards the fields below and the rows of the tables: calls, subscriptions and notices of backends change them in passing, and an actor would put a hop into each call
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
	g.uris.links = newLinks()
	g.uris.book.Store(newBook(nil, nil, nil))
	g.lists.init()
	return g
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

// logs is the part of a gateway's state that routes log messages.
type logs struct {
	calls  map[string][]*relay.Operation // under way, by backend, the newest last
	wanted mcp.LogLevel                  // by the client; empty if it has not said
	levels map[string]mcp.LogLevel       // that legacy backends have
}

// warn logs that clients get an item of a backend changed, or not at all.
func (g *Gateway) warn(kind string, t target, what string, why error) {
	first, last := g.Warnings.add(t.server, warning{kind, clip.Text(t.own, 200), what, why.Error()})
	if !first {
		return
	}
	attrs := []any{slog.String("kind", kind), slog.String("server", t.server), slog.String("name", clip.Text(t.own, 200)), slog.Any("error", why)}
	if last {
		attrs = append(attrs, slog.String("note", "more about this server is not logged"))
	}
	g.Log.Warn(what, attrs...)
}

// restarted notes that all backends are new.
func (l *logs) restarted() { l.levels = nil }
