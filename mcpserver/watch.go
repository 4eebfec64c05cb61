// watch.go: subscriptions to resources (RES-05), and how many one client may have.

package mcpserver

import (
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
	"github.com/troupe-dev/troupe/mcpserver/internal/subscriptions"
)

// errTooMany refuses a subscription beyond a bound. As inbound.ErrBusy it is an
// internal error: the protocol has no code for it.
var errTooMany = mcp.Errorf(mcp.CodeInternal, "too many subscriptions")

// quota counts the subscriptions of one client: a pipe, a legacy session, or a principal over HTTP.
type quota struct{ listens, uris int }

// quotaKey returns the client whose subscriptions are counted together. It is nil for anonymous
// clients over HTTP, whose streams are counted one by one.
func (h *notices) quotaKey(s *session, p *Principal) any {
	switch {
	case !s.stateless:
		return s
	case p != nil && p.ID != "":
		return p.ID
	}
	return nil
}

// quotaOf is called under the lock.
func (h *notices) quotaOf(key any) *quota {
	if key == nil {
		return new(quota)
	}
	q := h.quotas[key]
	if q == nil {
		q = new(quota)
		h.quotas[key] = q
	}
	return q
}

// release drops an empty quota. It is called under the lock.
func (h *notices) release(key any, q *quota) {
	if *q == (quota{}) && key != nil {
		delete(h.quotas, key)
	}
}

// admit counts a stream and subscribes it to its resources and tasks. It leaves URIs beyond the
// bound out of the acknowledgement; a stream beyond the bound is an error.
func (h *notices) admit(l *listen) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.quota = h.quotaOf(l.key)
	if l.quota.listens >= h.server.opts.MaxListens || l.session.stateless && h.shared >= (h.server.opts.MaxConcurrent+1)/2 {
		h.release(l.key, l.quota)
		return errTooMany
	}
	if l.session.stateless {
		h.shared++
	}
	l.quota.listens++
	for i, uri := range l.accepted.ResourceSubscriptions {
		if !h.watch(uri, l, l.quota) {
			l.accepted.ResourceSubscriptions = l.accepted.ResourceSubscriptions[:i:i]
			break
		}
	}
	if len(l.accepted.ResourceSubscriptions) == 0 {
		l.accepted.ResourceSubscriptions = nil // it is left out, not an empty list
	}
	for _, id := range l.accepted.TaskIDs {
		if h.byTask[id] == nil {
			h.byTask[id] = make(map[*listen]struct{})
		}
		h.byTask[id][l] = struct{}{}
	}
	return nil
}

// leave removes a stream.
func (h *notices) leave(l *listen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.streams[l.session]
	if delete(of, l); len(of) == 0 {
		delete(h.streams, l.session)
	}
	for _, uri := range l.accepted.ResourceSubscriptions {
		h.unwatch(uri, l, l.quota)
	}
	for _, id := range l.accepted.TaskIDs {
		if delete(h.byTask[id], l); len(h.byTask[id]) == 0 {
			delete(h.byTask, id)
		}
	}
	if l.session.stateless {
		h.shared--
	}
	l.quota.listens--
	h.release(l.key, l.quota)
}

// watch subscribes to a resource, and reports whether it is within the bounds. It is called
// under the lock.
func (h *notices) watch(uri string, who subscriber, q *quota) bool {
	if q.uris >= h.server.opts.MaxSubscriptions {
		return h.resources.Has(uri, who)
	}
	ok, added := h.resources.Add(uri, who)
	if added {
		q.uris++
	}
	return ok
}

// unwatch ends a subscription, if there is one. It is called under the lock.
func (h *notices) unwatch(uri string, who subscriber, q *quota) {
	if h.resources.Remove(uri, who) {
		q.uris--
	}
}

// watchable returns an error for a text that is not the URI of a resource (RES-08). The
// resource need not exist yet.
func watchable(uri string) error {
	if len(uri) > subscriptions.MaxURI {
		return fmt.Errorf("the URI is longer than %d bytes", subscriptions.MaxURI)
	}
	return registry.CheckURI(uri)
}

// subscribe and unsubscribe are resources/subscribe and resources/unsubscribe.
func subscribe(s *session, a *arrival) ([]byte, error) {
	uri, err := subscriptionOf(s, a)
	if err != nil {
		return nil, err
	}
	h := &s.server.notices
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.listensClosed {
		return nil, mcp.Errorf(mcp.CodeInternal, "the session is ending")
	}
	q := h.quotaOf(s)
	if ok := h.watch(uri, s, q); !ok {
		h.release(s, q)
		return nil, errTooMany
	}
	if s.subscribed == nil {
		s.subscribed = make(map[string]struct{})
	}
	s.subscribed[uri] = struct{}{}
	return []byte("{}"), nil
}

func unsubscribe(s *session, a *arrival) ([]byte, error) {
	uri, err := subscriptionOf(s, a)
	if err != nil {
		return nil, err
	}
	h := &s.server.notices
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.quotaOf(s)
	h.unwatch(uri, s, q)
	h.release(s, q)
	delete(s.subscribed, uri)
	return []byte("{}"), nil
}

// subscriptionOf returns the URI of a request, which is only for clients to which the server has
// declared subscriptions (CAP-03).
func subscriptionOf(s *session, a *arrival) (string, error) {
	if h := s.legacy.Load(); h == nil || h.offered.Resources == nil || !h.offered.Resources.Subscribe {
		return "", mcp.Errorf(mcp.CodeMethodNotFound, "method not found")
	}
	var p mcp.ResourceParams
	if err := a.DecodeParams(&p); err != nil {
		return "", err
	}
	if err := watchable(p.URI); err != nil {
		return "", mcp.Errorf(mcp.CodeInvalidParams, "%s", err.Error())
	}
	return p.URI, nil
}

// forget ends all subscriptions of a legacy session, whose listen streams have ended.
func (h *notices) forget(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.listensClosed = true
	q := h.quotaOf(s)
	for uri := range s.subscribed {
		h.unwatch(uri, s, q)
	}
	s.subscribed = nil
	h.release(s, q)
}

// updated implements [subscriber].
func (s *session) updated(uri string) {
	if !s.ready.Load() { // LIFE-07
		return
	}
	raw, err := mcp.Marshal(&mcp.ResourceParams{URI: uri})
	if err != nil {
		s.server.log.Warn("a notification cannot be encoded", "session", s.ref.Path(), "error", err)
		return
	}
	s.push(mcp.AppendNotification(nil, mcp.NotificationResourceUpdated, raw))
}

// ResourceUpdated notifies the clients that have subscribed to a resource, or to one that
// it lies below, that it is worth reading again. It does not block:
// they are notified soon, and once for updates that follow each other closely.
func (s *Server) ResourceUpdated(uri string) {
	h := &s.notices
	h.mu.Lock()
	subscribed := h.resources.Update(uri)
	h.mu.Unlock()
	if subscribed {
		h.wake()
	}
}
