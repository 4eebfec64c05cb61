// subscriptions.go: a client's subscriptions to resources as subscriptions to backends, in
// whatever way the revision of each side has.
//
//	      watched          the backend agrees          unwatched
//	(no) ─────────▶ asking ─────────────────▶ subscribed ────────▶ (no)
//	                   │ no backend has it, or refuses  │ another backend has it now
//	                   └──▶ waiting ◀───────────────────┘
//
// A resource that several streams of the client watch has one subscription. One that waits is
// tried again when a backend lists something new, or has a new connection.

package gateway

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcpclient"
)

// watch is a gateway's row for one resource that the client watches.
type watch struct {
	g   *Gateway
	uri string // as the client knows it

	// Guarded by the lock of the gateway, whose row this is.
	wanted bool
	busy   bool          // a task settles it
	again  bool          // the task has to check once more
	idle   chan struct{} // closed when busy ends; nil before the first time

	// The task alone uses these.
	at  target // that sub is about
	sub *mcpclient.Subscription
}

// Watched notes that a resource has its first watcher, or no watcher any more. It does not
// block, and may be called before Start.
func (g *Gateway) Watched(uri string, on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.watches[uri]
	if w == nil {
		if !on {
			return
		}
		w = &watch{g: g, uri: uri}
		g.watches[uri] = w
	}
	w.wanted = on
	w.check()
}

// subscribeTime bounds how long a client's subscription waits for the backend's answer.
const subscribeTime = 5 * time.Second

// Expect is called before a legacy client's subscription is carried out. The function that it
// returns is called once, after that, and waits until the backend is asked, too: then the
// client is notified of all changes after its answer. A client of 2026-07-28 is answered at
// once, and notified of a change as soon as the backend is asked.
func (g *Gateway) Expect(uri string) (wait func(ctx context.Context)) {
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

// checkWatches checks all watched resources: other backends may have them now.
func (g *Gateway) checkWatches() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.watches {
		w.check()
	}
}

// check has a task settle a resource. The caller holds the gateway's lock.
func (w *watch) check() {
	w.again = true
	if w.busy || w.g.host.Load() == nil || w.g.ctx.Err() != nil {
		return
	}
	w.busy, w.idle = true, make(chan struct{})
	w.g.System.Go("gateway", func() {
		for {
			wanted, again := w.nextCheck()
			if !again {
				return
			}
			w.settle(wanted)
		}
	})
}

// nextCheck reports whether the task of a resource has to settle it again; if not the task is
// over.
func (w *watch) nextCheck() (wanted, again bool) {
	w.g.mu.Lock()
	defer w.g.mu.Unlock()
	if w.again && w.g.ctx.Err() == nil {
		w.again = false
		return w.wanted, true
	}
	w.busy = false
	close(w.idle)
	if !w.wanted && w.g.watches[w.uri] == w {
		delete(w.g.watches, w.uri)
	}
	return false, false
}

// settle subscribes to a watched resource, or ends its subscription.
func (w *watch) settle(wanted bool) {
	at, found := w.g.uris.find(w.uri)
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
	sub, err := w.subscribe(at)
	switch {
	case err == nil:
		w.at, w.sub = at, sub
		w.g.mu.Lock()
		early := w.g.expected[w.uri] == 0
		w.g.mu.Unlock()
		if early { // the client had its answer before the backend was asked: a change may be missed
			w.g.server.ResourceUpdated(w.uri)
		}
	case errors.Is(err, mcpclient.ErrUnsupported):
		w.g.Log.Debug("a server has no subscriptions", "server", at.server, "uri", clip.Text(w.uri, 200))
	default:
		w.g.Log.Warn("a resource cannot be subscribed to", "server", at.server, "uri", clip.Text(w.uri, 200), "error", err)
	}
}

func (w *watch) subscribe(at target) (*mcpclient.Subscription, error) {
	c, err := w.g.backend(at.server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(w.g.ctx, listTimeout)
	defer cancel()
	return c.Subscribe(ctx, at.own, func(changed string) {
		if below, ok := strings.CutPrefix(changed, at.own); ok {
			w.g.server.ResourceUpdated(w.uri + below)
			return
		}
		w.g.server.ResourceUpdated(w.uri) // the backend counts another URI as part of it
	})
}
