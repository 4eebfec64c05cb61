// Package gathering reads the lists of all servers of a host at once, and keeps the last good one
// of each.
package gathering

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Gatherer has what is known of the servers of a host; S is one of them.
type Gatherer[S any] struct {
	Servers []S
	Name    func(S) string
	// Skip leaves out a server that has nothing to say, or for which to wait is in vain.
	Skip  func(S) bool
	Limit time.Duration // of reading all lists
	Go    func(what string, f func())
	Log   *slog.Logger

	mu sync.Mutex // guards the lists of the servers, and what Changed makes of them: callers read them at each turn of a model, without a message to the host's actor
}

// Last is the last good list of one kind of a server. Its Gatherer guards it.
type Last[T any] struct {
	Items []T
	Err   error // of the last listing
	read  bool  // there was a good one
}

// put takes the outcome of a listing, and reports whether the list is another one.
func (l *Last[T]) put(items []T, err error) bool {
	if l.Err = err; err != nil || l.holds(items) {
		return false
	}
	l.Items, l.read = items, true
	return true
}

// holds reports whether it is the very list that is kept.
func (l *Last[T]) holds(items []T) bool { return l.read && Same(l.Items, items) }

// Same reports whether two lists are the very same.
func Same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Kind says where the lists of one kind are, and how they are read.
type Kind[S, T any] struct {
	Name string
	Last func(S) *Last[T]
	// Known returns what a listing would answer without asking the server.
	Known func(S) ([]T, bool)
	Read  func(context.Context, S) ([]T, error)
	// Prepare makes something of a new list, which Changed takes under the lock: preparing takes
	// a while. Both may be nil.
	Prepare func(S, []T) any
	Changed func(S, any)
}

// Look calls f while no list changes.
func (g *Gatherer[S]) Look(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// Gather reads the lists of all servers, or of those that are named, within the limit. Servers that
// fail are left with their last good list. The error is the cause of ctx.
func Gather[S, T any](ctx context.Context, g *Gatherer[S], k Kind[S, T], only ...string) error {
	limit, cancel := context.WithTimeout(ctx, g.Limit)
	defer cancel()
	var listings []*actors.Reply[struct{}]
	for _, s := range g.Servers {
		if len(only) > 0 && !slices.Contains(only, g.Name(s)) || g.Skip(s) || current(g, s, k) {
			continue
		}
		done := new(actors.Reply[struct{}])
		g.Go("catalogue of "+g.Name(s), func() {
			defer done.Complete(struct{}{}, nil)
			fill(limit, g, s, k)
		})
		listings = append(listings, done)
	}
	for _, done := range listings {
		_, _ = done.Wait(ctx) // each ends by limit
	}
	return context.Cause(ctx)
}

// current reports whether the last list is what the server's client would answer by itself.
func current[S, T any](g *Gatherer[S], s S, k Kind[S, T]) bool {
	items, ok := k.Known(s)
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	last := k.Last(s)
	return last.Err == nil && last.holds(items)
}

// fill reads a list of one server and keeps it.
func fill[S, T any](ctx context.Context, g *Gatherer[S], s S, k Kind[S, T]) {
	items, err := k.Read(ctx, s)
	if err != nil {
		g.Log.Warn("a list of a server is not known", "server", g.Name(s), "list", k.Name, "error", err)
	}
	last := k.Last(s)
	known := false
	g.Look(func() { known = last.holds(items) })
	var prepared any
	if err == nil && k.Prepare != nil && !known {
		prepared = k.Prepare(s, items)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && prepared == nil && k.Prepare != nil && !Same(last.Items, items) {
		return // another list has come meanwhile, and is as good
	}
	if last.put(items, err) && k.Changed != nil {
		k.Changed(s, prepared)
	}
}

// Refresh reads a list of a server that has changed, if it was ever read, or always.
func Refresh[S, T any](g *Gatherer[S], s S, k Kind[S, T], always bool) {
	wanted := always
	g.Look(func() { wanted = wanted || k.Last(s).read })
	if wanted {
		ctx, cancel := context.WithTimeout(context.Background(), g.Limit)
		defer cancel()
		fill(ctx, g, s, k)
	}
}

// Listed gathers the lists of a kind, and returns what all servers have of it, sorted by server and
// key.
func Listed[S, T, O any](ctx context.Context, g *Gatherer[S], k Kind[S, T], key func(*T) string, of func(server string, item T) O) ([]O, error) {
	if err := Gather(ctx, g, k); err != nil {
		return nil, err
	}
	servers := slices.SortedFunc(slices.Values(g.Servers), func(a, b S) int { return cmp.Compare(g.Name(a), g.Name(b)) })
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []O
	for _, s := range servers {
		items := slices.Clone(k.Last(s).Items)
		slices.SortFunc(items, func(a, b T) int { return cmp.Compare(key(&a), key(&b)) })
		for _, item := range items {
			all = append(all, of(g.Name(s), item))
		}
	}
	return all, nil
}
