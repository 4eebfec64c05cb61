package memstore

import (
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/eventhook"
	"github.com/troupe-dev/troupe/store"
)

// runs are all runs by their ids.
type runs map[string]*run

// run is a run with its events; the event with number n is at index n-1.
type run struct {
	head   store.Run
	events []store.Event
	bytes  int64 // its share of memory.used
}

// writable returns a run that has not ended.
func (s runs) writable(id string) (*run, error) {
	r, ok := s[id]
	switch {
	case !ok:
		return nil, store.ErrNotFound
	case r.head.State.Ended():
		return r, store.ErrFinished
	}
	return r, nil
}

var handedOver = eventhook.Get[store.Event]().HandedOver

// add numbers events and keeps copies of them, but of the bodies that were handed over.
func (r *run) add(events []store.Event, now time.Time) {
	for i := range events {
		e := store.Event{Time: events[i].Time, Type: events[i].Type, Key: events[i].Key, Body: events[i].Body}
		if !handedOver(&events[i]) {
			e.Body = body(e.Body)
		}
		r.head.Seq++
		e.Run, e.Seq, e.Epoch = r.head.ID, r.head.Seq, r.head.Epoch
		if e.Time.IsZero() {
			e.Time = now
		}
		e.Time = store.Clock(e.Time)
		r.events = append(r.events, e)
	}
}

// change applies what an append says of the head.
func (r *run) change(a store.Append, now time.Time) {
	if a.State == "" && a.Summary == "" && len(a.Events) == 0 {
		return
	}
	r.head.Updated = now
	if a.Summary != "" {
		r.head.Summary = a.Summary
	}
	if a.State != "" {
		r.head.State = a.State
	}
	if a.State.Ended() {
		r.head.Owner, r.head.Expires = "", time.Time{}
	}
}

func matches(r store.Run, q store.Query, now time.Time) bool {
	return (len(q.States) == 0 || slices.Contains(q.States, r.State)) &&
		(q.Agent == "" || q.Agent == r.Agent) &&
		(q.Since.IsZero() || !r.Created.Before(store.Clock(q.Since))) && (q.Until.IsZero() || r.Created.Before(store.Clock(q.Until))) &&
		(q.Parent == "" || q.Parent == r.Parent) && strings.HasPrefix(r.ID, q.Beginning) &&
		(!q.Free || !r.State.Ended() && !r.Leased(now))
}

// sizeOfRun does not count the owner, which changes but is bounded.
func sizeOfRun(r store.Run) int64 {
	return int64(entryBytes + len(r.ID) + len(r.Agent) + len(r.Parent) + len(r.Title) + len(r.Summary) + len(r.InputHash))
}

func sizeOf(events []store.Event) (n int64) {
	for _, e := range events {
		n += int64(entryBytes + len(e.Type) + len(e.Key) + len(e.Body))
	}
	return n
}
