// Package subscriptions notifies clients of changed lists, resources (RES-05) and tasks: it has the subscriptions, and
// the changes that the subscribers were not notified of yet.
package subscriptions

import (
	"iter"
	"strings"
)

// Bounds of a table (ROB-3).
const (
	MaxURI     = 2048     // bytes of a URI that is subscribed to
	maxBytes   = 64 << 20 // of all subscriptions
	maxUpdated = 1024     // updates that wait, see [Table.Update]
)

// Table has the subscriptions of subscribers S to resources. It has no lock: its owner guards
// it.
type Table[S comparable] struct {
	// Watched is called when a resource gets its first subscriber, and when it has lost its
	// last; nil calls nothing.
	Watched func(uri string, on bool)

	subscribers map[string]map[S]struct{} // by URI
	lengths     [MaxURI + 1]int32         // how many URIs of each length have subscribers
	bytes       int                       // that subscribers costs
	updated     map[string]struct{}
	order       []string // updated, the first first
}

// NewTable returns an empty table.
func NewTable[S comparable](watched func(uri string, on bool)) *Table[S] {
	return &Table[S]{Watched: watched, subscribers: make(map[string]map[S]struct{}), updated: make(map[string]struct{})}
}

// Len returns the resources with subscribers, and what their subscriptions cost in bytes.
func (t *Table[S]) Len() (uris, bytes int) { return len(t.subscribers), t.bytes }

// Add subscribes a subscriber to a resource, whose URI has at most MaxURI bytes. It reports
// whether the table has room, and whether the subscription is new.
func (t *Table[S]) Add(uri string, who S) (ok, added bool) {
	to := t.subscribers[uri]
	if _, has := to[who]; has {
		return true, false
	}
	if t.bytes+cost(uri) > maxBytes {
		return false, false
	}
	if to == nil {
		to = make(map[S]struct{}, 1)
		t.subscribers[uri] = to
		t.lengths[len(uri)]++
		t.watched(uri, true)
	}
	to[who] = struct{}{}
	t.bytes += cost(uri)
	return true, true
}

// Has reports whether a subscriber is subscribed to a resource.
func (t *Table[S]) Has(uri string, who S) bool {
	_, has := t.subscribers[uri][who]
	return has
}

// Remove ends a subscription, and reports whether there was one.
func (t *Table[S]) Remove(uri string, who S) bool {
	to := t.subscribers[uri]
	if _, has := to[who]; !has {
		return false
	}
	if delete(to, who); len(to) == 0 {
		delete(t.subscribers, uri)
		t.lengths[len(uri)]--
		t.watched(uri, false)
	}
	t.bytes -= cost(uri)
	return true
}

func (t *Table[S]) watched(uri string, on bool) {
	if t.Watched != nil {
		t.Watched(uri, on)
	}
}

// cost is what a subscription takes, in bytes.
func cost(uri string) int { return len(uri) + 512 }

// Update records an update of a resource, and reports whether it has subscribers.
func (t *Table[S]) Update(uri string) bool {
	wanted := false
	for subscribed := range t.covering(uri) {
		wanted = true
		if len(t.order) < maxUpdated {
			t.note(uri)
			return true
		}
		// Too many at once: notify of the subscribed URIs above it instead, of which there is a
		// bounded number.
		t.note(subscribed)
	}
	return wanted
}

func (t *Table[S]) note(uri string) {
	if _, again := t.updated[uri]; !again {
		t.updated[uri] = struct{}{}
		t.order = append(t.order, uri)
	}
}

// Update is one notification for a subscriber.
type Update[S comparable] struct {
	To  S
	URI string
}

// Take removes the recorded updates and returns the notifications, each once.
func (t *Table[S]) Take() []Update[S] {
	var all []Update[S]
	for _, uri := range t.order {
		var seen map[S]struct{}
		for subscribed := range t.covering(uri) {
			for who := range t.subscribers[subscribed] {
				if _, again := seen[who]; again {
					continue
				}
				if seen == nil {
					seen = make(map[S]struct{})
				}
				seen[who] = struct{}{}
				all = append(all, Update[S]{who, uri})
			}
		}
	}
	clear(t.updated)
	t.order = nil
	return all
}

// covering yields the subscribed URIs that uri is or lies below.
func (t *Table[S]) covering(uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for one := range above(uri) {
			// Most lengths have no URI, and then nothing needs to be hashed.
			if t.lengths[len(one)] > 0 && len(t.subscribers[one]) > 0 && !yield(one) {
				return
			}
		}
	}
}

// above yields the URIs that uri is or lies below, as clients see it: the longest
// first, none longer than MaxURI.
func above(uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(uri) <= MaxURI && !yield(uri) {
			return
		}
		for end := min(len(uri), MaxURI+1) - 1; end > 0; end-- {
			if !strings.ContainsRune("/?#", rune(uri[end])) {
				continue
			}
			if uri[end] == '/' && end+1 < len(uri) && end < MaxURI && !yield(uri[:end+1]) {
				return
			}
			if !yield(uri[:end]) {
				return
			}
		}
	}
}
