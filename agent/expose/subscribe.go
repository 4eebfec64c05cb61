// subscribe.go: a client's subscriptions to resources as subscriptions to servers, in
// whatever way the revision on either side has.
//
//	      watched          the server agrees           unwatched
//	(no) ─────────▶ asking ─────────────────▶ subscribed ────────▶ (no)
//	                   │ nobody has it, or refuses      │ it is another server's now
//	                   └──▶ waiting ◀───────────────────┘
//
// A resource that several streams of the client watch is subscribed to once. One that
// waits is tried again when a server lists something new, or was connected to anew.

package expose

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/mcpclient"
)

// watched is a resource that the client watches.
type watched struct {
	uri string // as the client knows it

	// Guarded by the lock of the gateway.
	wanted bool
	busy   bool          // a task looks after it
	again  bool          // it is to be looked at once more
	idle   chan struct{} // closed when busy ends; nil before the first time

	// Touched by that task alone.
	at  target // that sub is about
	sub *mcpclient.Subscription
}

// watched takes note of a resource that has its first watcher, or no longer any. It does
// not block, and may be called before start.
func (g *gateway) watched(uri string, on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.watches[uri]
	if w == nil {
		if !on {
			return
		}
		w = &watched{uri: uri}
		g.watches[uri] = w
	}
	w.wanted = on
	g.look(w)
}

// subscribeTime bounds how long a client's subscription waits for the server's word.
const subscribeTime = 5 * time.Second

// expect is called before a legacy client's subscription is carried out. What it returns
// is called after it, and waits until the server has been asked, too: the client hears of
// all that changes after the answer. It is called once. A client of 2026-07-28 is told at
// once, and of a change as soon as the server is asked.
func (g *gateway) expect(uri string) (wait func(ctx context.Context)) {
	g.mu.Lock()
	g.expected[uri]++
	g.mu.Unlock()
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, subscribeTime)
		defer cancel()
		g.mu.Lock()
		var idle chan struct{}
		if w := g.watches[uri]; w != nil && w.busy {
			idle = w.idle
		}
		g.mu.Unlock()
		if idle != nil {
			select {
			case <-idle:
			case <-ctx.Done():
			}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.expected[uri]--; g.expected[uri] == 0 {
			delete(g.expected, uri)
		}
	}
}

// watchAgain looks at all that is watched: whose it is may have changed.
func (g *gateway) watchAgain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.watches {
		g.look(w)
	}
}

// look has a task look after a resource. It is called under the lock.
func (g *gateway) look(w *watched) {
	w.again = true
	if w.busy || g.host.Load() == nil || g.ctx.Err() != nil {
		return
	}
	w.busy, w.idle = true, make(chan struct{})
	g.up.front.rt.System().Go("gateway", func() {
		for g.more(w) {
			g.settle(w)
		}
	})
}

// more reports whether a resource has to be looked at again; if not its task is over.
func (g *gateway) more(w *watched) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.again && g.ctx.Err() == nil {
		w.again = false
		return true
	}
	w.busy = false
	close(w.idle)
	if !w.wanted && g.watches[w.uri] == w {
		delete(g.watches, w.uri)
	}
	return false
}

// settle subscribes to a resource that is watched, or no longer does.
func (g *gateway) settle(w *watched) {
	g.mu.Lock()
	wanted := w.wanted
	g.mu.Unlock()
	at, found := g.find(w.uri)
	if w.sub != nil {
		ended := false
		select {
		case <-w.sub.Done():
			ended = true
		default:
		}
		if wanted && found && at == w.at && !ended {
			return
		}
		_ = w.sub.Close() // it returns nil
		w.sub = nil
	}
	if !wanted || !found {
		return
	}
	sub, err := g.subscribe(w.uri, at)
	switch {
	case err == nil:
		w.at, w.sub = at, sub
		g.mu.Lock()
		early := g.expected[w.uri] == 0
		g.mu.Unlock()
		if early { // the client was told so before the server was: something may have changed since
			g.up.server.ResourceUpdated(w.uri)
		}
	case errors.Is(err, mcpclient.ErrUnsupported): // it never says when something changes
		g.log.Debug("a server has no subscriptions", "server", at.server, "uri", shorten(w.uri))
	default:
		g.log.Warn("a resource can not be subscribed to", "server", at.server, "uri", shorten(w.uri), "error", err)
	}
}

// subscribe has a server tell of changes.
func (g *gateway) subscribe(uri string, at target) (*mcpclient.Subscription, error) {
	c, err := g.client(at.server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(g.ctx, listTimeout)
	defer cancel()
	return c.Subscribe(ctx, at.own, func(changed string) {
		if below, ok := strings.CutPrefix(changed, at.own); ok {
			g.up.server.ResourceUpdated(uri + below)
			return
		}
		g.up.server.ResourceUpdated(uri) // something that the server takes for a part of it
	})
}
