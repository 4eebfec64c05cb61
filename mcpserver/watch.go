// watch.go: who is told of which resources (RES-05), and how much of that one client
// may have.

package mcpserver

import (
	"fmt"
	"iter"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// Bounds on what is watched (ROB-3).
const (
	maxURI     = 2048     // bytes of a URI that is subscribed to
	maxWatched = 64 << 20 // bytes of all subscriptions to resources
	maxUpdated = 1024     // updates that wait to be told; see pend
)

// errTooMany refuses a subscription beyond a bound. As inbound.ErrBusy it is an
// internal error: the protocol has no code for it.
var errTooMany = mcp.Errorf(mcp.CodeInternal, "too many subscriptions")

// quota is what one client has: a pipe, a legacy session, or a principal over HTTP.
type quota struct{ listens, uris int }

// quotaKey returns what subscriptions are counted by. It is nil for somebody unknown
// over HTTP, of whom each stream counts by itself.
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

// release forgets a quota that nothing is left of. It is called under the lock.
func (h *notices) release(key any, q *quota) {
	if *q == (quota{}) && key != nil {
		delete(h.quotas, key)
	}
}

// admit counts a stream and subscribes it to its resources and tasks. URIs beyond the
// bound are left out of what it will have acknowledged; a stream too many is an error.
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
		l.accepted.ResourceSubscriptions = nil // nothing, not a list of nothing
	}
	for _, id := range l.accepted.TaskIDs {
		if h.byTask[id] == nil {
			h.byTask[id] = make(map[*listen]struct{})
		}
		h.byTask[id][l] = struct{}{}
	}
	return nil
}

// leave forgets a stream.
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

// watch subscribes who to a resource, and reports whether it is: not beyond a bound.
// It is called under the lock.
func (h *notices) watch(uri string, who hearer, q *quota) bool {
	to := h.watchers[uri]
	if _, has := to[who]; has {
		return true
	}
	if q.uris >= h.server.opts.MaxSubscriptions || h.watched+cost(uri) > maxWatched {
		return false
	}
	if to == nil {
		to = make(map[hearer]struct{}, 1)
		h.watchers[uri] = to
		h.lengths[len(uri)]++
		h.turned(uri, true)
	}
	to[who] = struct{}{}
	h.watched += cost(uri)
	q.uris++
	return true
}

// unwatch takes a subscription back, and reports whether there was one. It is called
// under the lock.
func (h *notices) unwatch(uri string, who hearer, q *quota) bool {
	to := h.watchers[uri]
	if _, has := to[who]; !has {
		return false
	}
	if delete(to, who); len(to) == 0 {
		delete(h.watchers, uri)
		h.lengths[len(uri)]--
		h.turned(uri, false)
	}
	h.watched -= cost(uri)
	q.uris--
	return true
}

// turned tells the program of a resource's first subscriber, or that the last has gone.
// It is called under the lock.
func (h *notices) turned(uri string, on bool) {
	if f := h.server.opts.OnWatched; f != nil {
		f(uri, on)
	}
}

// cost is what a subscription to a resource takes, in bytes.
func cost(uri string) int { return len(uri) + 512 }

// watchable refuses what can not be the URI of a resource (RES-08). Whether there is
// such a resource is not asked: it may come.
func watchable(uri string) error {
	if len(uri) > maxURI {
		return fmt.Errorf("the URI is longer than %d bytes", maxURI)
	}
	return registry.CheckURI(uri)
}

// subscribe and unsubscribe are resources/subscribe and resources/unsubscribe.
func (s *session) subscribe(a *arrival) ([]byte, error) {
	uri, err := s.subscriptionOf(a)
	if err != nil {
		return nil, err
	}
	h := &s.server.notices
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.deaf {
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

func (s *session) unsubscribe(a *arrival) ([]byte, error) {
	uri, err := s.subscriptionOf(a)
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

// subscriptionOf returns the URI of a request that is only for those we have offered
// subscriptions to (CAP-03).
func (s *session) subscriptionOf(a *arrival) (string, error) {
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

// forget takes back all that a legacy session has subscribed to; it has no listen
// streams any more.
func (h *notices) forget(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.deaf = true
	q := h.quotaOf(s)
	for uri := range s.subscribed {
		h.unwatch(uri, s, q)
	}
	s.subscribed = nil
	h.release(s, q)
}

// hear implements [hearer].
func (s *session) hear(uri string) {
	if !s.ready.Load() { // LIFE-07
		return
	}
	raw, err := mcp.Marshal(&mcp.ResourceParams{URI: uri})
	if err != nil {
		s.server.log.Warn("a notice cannot be encoded", "session", s.ref.Path(), "error", err)
		return
	}
	s.push(mcp.AppendNotification(nil, mcp.NotificationResourceUpdated, raw))
}

// ResourceUpdated tells the clients that have subscribed to a resource, or to one that
// it lies below, that it is worth reading again (RES-05, SUB-03). It does not block:
// they are told soon, and once for updates that follow each other closely.
func (s *Server) ResourceUpdated(uri string) {
	if s.notices.pend(uri) {
		s.notices.wake()
	}
}

// pend notes an update, and reports whether anybody wants to hear of it.
func (h *notices) pend(uri string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := false
	for subscribed := range h.covering(uri) {
		wanted = true
		if len(h.order) < maxUpdated {
			h.note(uri)
			return true
		}
		// Too many at once: say of what is subscribed to that something in it has
		// changed, of which there is a bounded number.
		h.note(subscribed)
	}
	return wanted
}

func (h *notices) note(uri string) {
	if _, again := h.updated[uri]; !again {
		h.updated[uri] = struct{}{}
		h.order = append(h.order, uri)
	}
}

// update is one thing to tell somebody.
type update struct {
	to  hearer
	uri string
}

// takeUpdates returns what is to be told, each to each once. It is called under the
// lock.
func (h *notices) takeUpdates() []update {
	var all []update
	for _, uri := range h.order {
		var seen map[hearer]struct{}
		for subscribed := range h.covering(uri) {
			for who := range h.watchers[subscribed] {
				if _, again := seen[who]; again {
					continue
				}
				if seen == nil {
					seen = make(map[hearer]struct{})
				}
				seen[who] = struct{}{}
				all = append(all, update{who, uri})
			}
		}
	}
	clear(h.updated)
	h.order = nil
	return all
}

// covering yields what is subscribed to of the URIs that uri is or lies below. It is
// called under the lock.
func (h *notices) covering(uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for one := range above(uri) {
			// Most lengths there are none of, and then nothing needs to be hashed.
			if h.lengths[len(one)] > 0 && len(h.watchers[one]) > 0 && !yield(one) {
				return
			}
		}
	}
}

// above yields the URIs that uri is or lies below, as clients see it: the longest
// first, none longer than can be subscribed to.
func above(uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(uri) <= maxURI && !yield(uri) {
			return
		}
		for end := min(len(uri), maxURI+1) - 1; end > 0; end-- {
			if !strings.ContainsRune("/?#", rune(uri[end])) {
				continue
			}
			if uri[end] == '/' && end+1 < len(uri) && end < maxURI && !yield(uri[:end+1]) {
				return
			}
			if !yield(uri[:end]) {
				return
			}
		}
	}
}
