package runlog

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Entries reads all events of a run.
func Entries(ctx context.Context, j store.Journal, run string) (all []Entry, err error) {
	for ev, err := range store.Replay(ctx, j, run, 0) {
		var e Entry
		if err == nil {
			e, err = Decode(ev)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// Leased is the part of a store that records runs under a lease.
type Leased interface {
	store.Journal
	store.Leases
}

// Write records a run with its events, and opens the asks with the last of them. The run is leased
// to owner for ttl. A run that cannot be written whole is removed again.
func Write(ctx context.Context, j Leased, head store.Run, owner string, ttl time.Duration, entries []Entry, asks []store.Ask) (store.Run, error) {
	events, err := Encode(nil, entries)
	if err != nil {
		return store.Run{}, err
	}
	head, err = j.Create(ctx, head, owner, ttl, events[0])
	if err != nil {
		return store.Run{}, err
	}
	for rest := events[1:]; len(rest) > 0 && err == nil; {
		n, size := 0, 0
		for n < len(rest) && n < store.MaxEvents && (n == 0 || size+len(rest[n].Body) <= store.MaxPageBytes/2) {
			size += len(rest[n].Body)
			n++
		}
		a := store.Append{Run: head.ID, Owner: owner, Epoch: head.Epoch, After: head.Seq, Events: rest[:n]}
		if rest = rest[n:]; len(rest) == 0 {
			a.Asks = asks
		}
		head.Seq, err = j.Append(ctx, a)
	}
	if err != nil {
		end := context.WithoutCancel(ctx)
		return store.Run{}, errors.Join(err, j.Release(end, head.ID, owner, head.Epoch), j.Delete(end, head.ID))
	}
	return head, nil
}

// Program returns the main module of the program, with its version.
func Program() string { return program() }

var program = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return strings.TrimSpace(info.Main.Path + " " + info.Main.Version)
})
