package watch

import "github.com/troupe-dev/troupe/actors"

// Covers reports whether uri is the resource that was subscribed to, or lies below it.
func Covers(subscribed, uri string) bool { return covers(subscribed, uri) }

// Resource returns the subscription to a resource.
func (s *Subscriptions) Resource(uri string) *resource {
	s.resources.mu.Lock()
	defer s.resources.mu.Unlock()
	return s.byURI[uri]
}

// Done returns a channel that is closed once the subscription has ended.
func (r *resource) Done() <-chan struct{} { return r.over.Done() }

// Ref returns the actor.
func (r *resource) Ref() actors.Ref { return *r.ref.Load() }
