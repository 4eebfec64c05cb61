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

// Write records a run with its events, and opens the asks with the last of them. A run without Job is leased
// to owner for ttl, and removed again if it cannot be written whole, unless it is a part of another's tree. One that has a
// job, whose lease owner has, stays, and the same Write goes on with it.
func Write(ctx context.Context, j Leased, head store.Run, owner string, ttl time.Duration, entries []Entry, asks []store.Ask) (store.Run, error) {
	events, err := Encode(nil, entries)
	if err != nil {
		return store.Run{}, err
	}
	n := together(events)
	if n == len(events) && len(asks) > 0 && n > 1 { // the asks are opened by an append
		n--
	}
	in := head
	head, err = j.Create(ctx, head, owner, ttl, events[:n]...)
	if in.Job != "" && errors.Is(err, store.ErrExists) && head.Job == in.Job && head.InputHash == in.InputHash && head.HeldBy(owner, in.Epoch) {
		err = nil
	}
	if err != nil {
		return store.Run{}, err
	}
	for int(head.Seq) < len(events) && err == nil {
		rest := events[head.Seq:]
		rest = rest[:together(rest)]
		a := store.Append{Run: head.ID, Owner: owner, Epoch: head.Epoch, After: head.Seq, Events: rest}
		if int(head.Seq)+len(rest) == len(events) {
			a.Asks = asks
		}
		head.Seq, err = j.Append(ctx, a)
	}
	if err != nil && in.Job == "" && head.Root == head.ID {
		end := context.WithoutCancel(ctx)
		err = errors.Join(err, j.Release(end, head.ID, owner, head.Epoch), j.Delete(end, head.ID))
	}
	if err != nil {
		return store.Run{}, err
	}
	return head, nil
}

// together returns how many of the events may be written at once.
func together(events []store.Event) (n int) {
	for size := 0; n < len(events) && n < store.MaxEvents && (n == 0 || size+len(events[n].Body) <= store.MaxPageBytes/2); n++ {
		size += len(events[n].Body)
	}
	return n
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
