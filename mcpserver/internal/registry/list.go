// Package registry holds what a server has registered: its tools, resources, templates,
// prompts and skills, as lists that change while clients page through them.
//
//	tools := registry.New(registry.Options[*tool]{Kind: "tool", Key: (*tool).name, …})
//	err := tools.Add(t)
//	page, err := tools.Now().Page(message, version)
//
// A [List] changes under one lock; clients see its newest [Snapshot], which is made when it
// is first needed. Cursors stay valid when entries come and go, and in other instances of
// the server. The package also checks what definitions have in common: URIs, icons,
// annotations.
package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// ErrUnknown is returned by [List.Replace] for a key that no entry has.
var ErrUnknown = errors.New("unknown entry")

// Options describes a list.
type Options[T any] struct {
	Kind    string                 // for messages and cursors, such as "tool"
	Key     func(T) string         // by which an entry is found and sorted
	Taken   error                  // for the key of another entry
	Fits    func(e, other T) error // checks a new entry against each other one; nil for no check
	Changed func()                 // is called after a change that clients see
	// Page returns the result of the list method with some of the entries.
	Page   func(entries []T, p PageInfo) any
	Paging *Paging
}

// PageInfo is the part of a result that pages of all lists have.
type PageInfo struct {
	Next  *string // nil on the last page (PAGE-03)
	TTL   *int64
	Scope string
}

// Paging says how the lists of a server are cut into pages.
type Paging struct {
	Versions []mcp.Version // all that are spoken
	Entries  int           // of a page at most
	Bytes    int           // of a page at most, unless a single entry is longer
	TTL      time.Duration
	Scope    string // who may share what clients keep; the same for all pages (CACHE-08)
	// Finish completes an encoded result of a revision.
	Finish func(result []byte, v mcp.Version) []byte
}

// List is a list as it changes. Its methods may be used from any goroutine.
type List[T any] struct {
	Options[T]
	declared atomic.Bool
	now      atomic.Pointer[Snapshot[T]] // nil after a change

	mu   sync.Mutex // guards the fields below: any goroutine may register and remove entries, which is done when the method returns; requests read the snapshot
	all  map[string]T
	held int  // calls of Hold without their Release
	news bool // the list has changed since the first of them
}

// New returns an empty list.
func New[T any](o Options[T]) *List[T] { return &List[T]{Options: o, all: make(map[string]T)} }

// Declared reports whether the list ever had an entry: a capability stays declared (CAP-08).
func (l *List[T]) Declared() bool { return l.declared.Load() }

// Now returns the list as clients see it.
func (l *List[T]) Now() *Snapshot[T] {
	if c := l.now.Load(); c != nil {
		return c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshot()
}

// snapshot is Now, called under the lock.
func (l *List[T]) snapshot() *Snapshot[T] {
	if c := l.now.Load(); c != nil {
		return c
	}
	c := &Snapshot[T]{list: l, byKey: maps.Clone(l.all), pages: make(map[mcp.Version]*pages)}
	c.sorted = slices.SortedFunc(maps.Values(c.byKey), func(a, b T) int { return strings.Compare(l.Key(a), l.Key(b)) })
	for _, v := range l.Paging.Versions {
		c.pages[v] = new(pages)
	}
	l.now.Store(c)
	return c
}

// update changes the list under its lock: change reports whether it has changed anything.
func (l *List[T]) update(change func() (bool, error)) error {
	l.mu.Lock()
	changed, err := change()
	visible := changed && l.altered()
	l.mu.Unlock()
	if visible {
		l.Changed()
	}
	return err
}

// altered reports whether clients see a change now. It is called under the lock.
func (l *List[T]) altered() bool {
	if l.held > 0 {
		l.news = true
		return false
	}
	l.now.Store(nil)
	return true
}

// Add adds an entry with a new key.
func (l *List[T]) Add(e T) error {
	return l.update(func() (bool, error) {
		if _, taken := l.all[l.Key(e)]; taken {
			return false, fmt.Errorf("adding the %s %q: %w", l.Kind, l.Key(e), l.Taken)
		}
		if l.Fits != nil {
			for _, other := range l.all {
				if err := l.Fits(e, other); err != nil {
					return false, err
				}
			}
		}
		l.all[l.Key(e)] = e
		l.declared.Store(true)
		return true, nil
	})
}

// Put adds an entry, or replaces the one with the same key.
func (l *List[T]) Put(e T) {
	_ = l.update(func() (bool, error) {
		l.all[l.Key(e)] = e
		l.declared.Store(true)
		return true, nil
	})
}

// Remove removes entries by key, and returns the keys that there were.
func (l *List[T]) Remove(keys []string) (removed []string) {
	_ = l.update(func() (bool, error) {
		for _, key := range keys {
			if _, there := l.all[key]; there {
				delete(l.all, key)
				removed = append(removed, key)
			}
		}
		return len(removed) > 0, nil
	})
	return removed
}

// Replace replaces an entry without notifying clients, to whom the new one looks the same.
func (l *List[T]) Replace(key string, f func(old T) (T, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, there := l.all[key]
	if !there {
		return fmt.Errorf("the %s %q: %w", l.Kind, key, ErrUnknown)
	}
	e, err := f(old)
	if err == nil {
		l.all[key] = e
		l.altered()
	}
	return err
}

// Hold keeps the list that clients see until Release.
func (l *List[T]) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snapshot()
	l.held++
}

// Release shows clients the list as it is now, unless another Hold keeps it.
func (l *List[T]) Release() {
	l.mu.Lock()
	l.held--
	visible := l.held == 0 && l.news
	if visible {
		l.news = false
		l.now.Store(nil)
	}
	l.mu.Unlock()
	if visible {
		l.Changed()
	}
}
