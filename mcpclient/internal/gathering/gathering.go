// Package gathering reads the lists of all servers of a host at once, and keeps the last good one
// of each.
package gathering

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
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
}

// Last is the last good list of one kind of a server. Its zero value is none.
type Last[T any] struct{ now atomic.Pointer[Listing[T]] }

// Listing is what a [Last] has. It does not change.
type Listing[T any] struct {
	Items []T
	Err   error // of the last listing
	Made  any   // what [Kind].Prepare has made of Items
	read  bool  // there was a good one
}

// Now returns the last good list; one that was never read is empty.
func (l *Last[T]) Now() Listing[T] {
	if now := l.now.Load(); now != nil {
		return *now
	}
	return Listing[T]{}
}

// holds reports whether it is the very list that is kept.
func (l *Listing[T]) holds(items []T) bool { return l.read && Same(l.Items, items) }

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
	// Prepare makes something of a new list; nil makes nothing.
	Prepare func(S, []T) any
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
	last := k.Last(s).Now()
	return last.Err == nil && last.holds(items)
}

// fill reads a list of one server and keeps it.
func fill[S, T any](ctx context.Context, g *Gatherer[S], s S, k Kind[S, T]) {
	items, err := k.Read(ctx, s)
	if err != nil && !conn.IsRefused(err) {
		g.Log.Warn("a list of a server is not known", "server", g.Name(s), "list", k.Name, "error", err)
	}
	for last := k.Last(s); ; { // again, if another listing has ended meanwhile
		before := last.now.Load()
		next := last.Now()
		if next.Err = err; err == nil && !next.holds(items) {
			next.Items, next.read = items, true
			if k.Prepare != nil {
				next.Made = k.Prepare(s, items)
			}
		}
		if last.now.CompareAndSwap(before, &next) {
			return
		}
	}
}

// Refresh reads a list of a server that has changed, if it was ever read, or always.
func Refresh[S, T any](g *Gatherer[S], s S, k Kind[S, T], always bool) {
	if always || k.Last(s).Now().read {
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
	var all []O
	for _, s := range servers {
		items := slices.Clone(k.Last(s).Now().Items)
		slices.SortFunc(items, func(a, b T) int { return cmp.Compare(key(&a), key(&b)) })
		for _, item := range items {
			all = append(all, of(g.Name(s), item))
		}
	}
	return all, nil
}
