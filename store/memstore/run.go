package memstore

import (
	"encoding/json"
	"iter"
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
	head   store.Run // its lease is that of its tree if it is the root, and no job's: see [journal.seen]
	events []event
	bytes  int64 // its share of memory.used
}

// event is a [store.Event] without what its run and its place say.
type event struct {
	epoch     int64
	time      int64 // in microseconds since 1970
	kind, key string
	body      json.RawMessage
}

// firstEvents is the room for events that a run begins with: about as many as its first turns write.
const firstEvents = 10

// page returns the events from an index up to another one. Their bodies are the store's.
func (r *run) page(from, to int64) iter.Seq[store.Event] {
	return func(yield func(store.Event) bool) {
		for i, e := range r.events[from:to] {
			n := from + int64(i) + 1
			if !yield(store.Event{Run: r.head.ID, Seq: n, Epoch: e.epoch, Time: time.UnixMicro(e.time).UTC(), Type: e.kind, Key: e.key, Body: e.body, Imported: n <= r.head.Imported}) {
				return
			}
		}
	}
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
func (r *run) add(events []store.Event, epoch int64, now time.Time) {
	if r.events == nil {
		r.events = make([]event, 0, max(firstEvents, len(events)))
	}
	for i := range events {
		e := &events[i]
		at, raw := e.Time, e.Body
		if at.IsZero() {
			at = now
		}
		if !handedOver(e) {
			raw = body(raw)
		}
		r.head.Seq++
		r.events = append(r.events, event{epoch, store.Clock(at).UnixMicro(), e.Type, e.Key, raw})
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
		r.head.Owner, r.head.Epoch, r.head.Expires = "", a.Epoch, time.Time{}
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
