// logs.go: log messages of backends, and the level that the client wants.

package gateway

import (
	"context"
	"errors"
	"slices"

	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// track notes that an operation has a call at a backend until end is called: the backend's log
// messages belong to it.
func (g *Gateway) track(server string, op *relay.Operation) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.logs.calls == nil {
		g.logs.calls = map[string][]*relay.Operation{}
	}
	g.logs.calls[server] = append(g.logs.calls[server], op)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		// A clone, since logged reads the old one without the lock.
		rest := slices.DeleteFunc(slices.Clone(g.logs.calls[server]), func(other *relay.Operation) bool { return other == op })
		if g.logs.calls[server] = rest; len(rest) == 0 {
			delete(g.logs.calls, server)
		}
	}
}

// logged passes on a log message of a backend.
func (g *Gateway) logged(server string, p *mcp.LogParams) {
	g.mu.Lock()
	known, calls := g.backends[server] != nil, g.logs.calls[server]
	g.mu.Unlock()
	switch {
	case !known:
	case len(calls) == 0:
		g.client.Log(p.Level, Logger(server, p), p.Data)
	case len(calls) > 1 && g.client.Shared: // it may belong to another person's call (SECA-6)
	default: // all calls are this client's; the newest is the best guess
		calls[len(calls)-1].Log(p.Level, Logger(server, p), p.Data)
	}
}

// Logger is the logger of a backend's message: several backends may have one of the same name.
func Logger(server string, p *mcp.LogParams) string {
	if p.Logger == "" {
		return server
	}
	return server + "/" + p.Logger
}

// SetLevel notes the log level that a legacy client wants, and passes it to the backends.
func (g *Gateway) SetLevel(lowest mcp.LogLevel) {
	g.mu.Lock()
	g.logs.wanted = lowest
	order := slices.Clone(g.order)
	g.mu.Unlock()
	for _, server := range order {
		g.notify(server, newLevel)
	}
}

// needLevel makes a legacy backend log at the level that a client of 2026-07-28 wants with one
// request. Such a backend has one level for all requests, which is the lowest (LOG-03, LOG-05).
func (g *Gateway) needLevel(ctx context.Context, server string, level mcp.LogLevel) {
	g.mu.Lock()
	set := g.logs.levels[server]
	enough := g.backends[server] == nil || level == "" || set != "" && level.AtLeast(set)
	if !enough && (g.logs.wanted == "" || g.logs.wanted.AtLeast(level)) {
		g.logs.wanted = level // for backends that start later
	}
	g.mu.Unlock()
	if !enough {
		g.setLevel(ctx, server, level)
	}
}

func (g *Gateway) setWantedLevel(ctx context.Context, server string) {
	g.mu.Lock()
	wanted, set := g.logs.wanted, g.logs.levels[server]
	g.mu.Unlock()
	if wanted != "" && wanted != set {
		g.setLevel(ctx, server, wanted)
	}
}

// setLevel sends a legacy backend the level. One of 2026-07-28 gets it with each call.
func (g *Gateway) setLevel(ctx context.Context, server string, level mcp.LogLevel) {
	c, err := g.backend(server)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if err := c.SetLogLevel(ctx, level); err != nil && !errors.Is(err, mcpclient.ErrUnsupported) {
		g.Log.Warn("a server does not accept the log level", "server", server, "level", level, "error", err)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.logs.levels == nil {
		g.logs.levels = map[string]mcp.LogLevel{}
	}
	g.logs.levels[server] = level
}
