// quota.go: who is subscribed (RES-05), and how many subscriptions one client may have.

package subscriptions

import (
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// errTooMany refuses a subscription beyond a bound. As inbound.ErrBusy it is an
// internal error: the protocol has no code for it.
var errTooMany = mcp.Errorf(mcp.CodeInternal, "too many subscriptions")

// quotaKey returns the client whose subscriptions are counted together. It is nil for anonymous
// clients over HTTP, whose streams are counted one by one.
func quotaKey(s Session, principal string) any {
	switch {
	case !s.Stateless():
		return s
	case principal != "":
		return principal
	}
	return nil
}

// quotaOf is called under the lock.
func (n *Notices) quotaOf(key any) *quota {
	if key == nil {
		return new(quota)
	}
	q := n.quotas[key]
	if q == nil {
		q = new(quota)
		n.quotas[key] = q
	}
	return q
}

// release drops an empty quota. It is called under the lock.
func (n *Notices) release(key any, q *quota) {
	if *q == (quota{}) && key != nil {
		delete(n.quotas, key)
	}
}

// watch subscribes to a resource, and reports whether it is within the bounds. It is called
// under the lock.
func (n *Notices) watch(uri string, who subscriber, q *quota) bool {
	if q.uris >= n.opts.MaxSubscriptions {
		return n.resources.Has(uri, who)
	}
	ok, added := n.resources.Add(uri, who)
	if added {
		q.uris++
	}
	return ok
}

// unwatch ends a subscription, if there is one. It is called under the lock.
func (n *Notices) unwatch(uri string, who subscriber, q *quota) {
	if n.resources.Remove(uri, who) {
		q.uris--
	}
}

// CheckURI returns an error for a text that is not the URI of a resource (RES-08). The
// resource need not exist yet.
func CheckURI(uri string) error {
	if len(uri) > MaxURI {
		return fmt.Errorf("the URI is longer than %d bytes", MaxURI)
	}
	return registry.CheckURI(uri)
}

// Subscribe subscribes a legacy session to a resource.
func (n *Notices) Subscribe(s Session, uri string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := s.Subscriptions()
	if c.closed {
		return mcp.Errorf(mcp.CodeInternal, "the session is ending")
	}
	q := n.quotaOf(s)
	if ok := n.watch(uri, s, q); !ok {
		n.release(s, q)
		return errTooMany
	}
	if c.subscribed == nil {
		c.subscribed = make(map[string]struct{})
	}
	c.subscribed[uri] = struct{}{}
	return nil
}

// Unsubscribe ends the subscription of a legacy session to a resource.
func (n *Notices) Unsubscribe(s Session, uri string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.quotaOf(s)
	n.unwatch(uri, s, q)
	n.release(s, q)
	delete(s.Subscriptions().subscribed, uri)
}

// Forget ends all subscriptions of a legacy session, whose streams have ended.
func (n *Notices) Forget(s Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := s.Subscriptions()
	c.closed = true
	q := n.quotaOf(s)
	for uri := range c.subscribed {
		n.unwatch(uri, s, q)
	}
	c.subscribed = nil
	n.release(s, q)
}
