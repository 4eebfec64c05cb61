package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// ttl is a lease that outlasts every test with a real clock.
const ttl = time.Hour

// create makes a run that owner "w" holds.
func create(t *testing.T, s store.Store, id string, first ...store.Event) store.Run {
	t.Helper()
	r, err := s.Create(t.Context(), store.Run{ID: id, Agent: "a"}, "w", ttl, first...)
	if err != nil {
		t.Fatalf("Create(%q): %v", id, err)
	}
	return r
}

// appendTo appends events to a run under its lease.
func appendTo(t *testing.T, s store.Store, r store.Run, events ...store.Event) int64 {
	t.Helper()
	last, err := s.Append(t.Context(), store.Append{Run: r.ID, Owner: r.Owner, Epoch: r.Epoch, After: store.Unchecked, Events: events})
	if err != nil {
		t.Fatalf("Append(%q): %v", r.ID, err)
	}
	return last
}

// event is one with a body that can be told from others.
func event(typ string, n int) store.Event {
	return store.Event{Type: typ, Body: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

// replay reads all events of a run and checks their numbers.
func replay(t *testing.T, s store.Store, run string) []store.Event {
	t.Helper()
	var all []store.Event
	for e, err := range store.Replay(t.Context(), s, run, 0) {
		if err != nil {
			t.Fatalf("Replay(%q): %v", run, err)
		}
		all = append(all, e)
		if e.Seq != int64(len(all)) {
			t.Fatalf("Replay(%q): event %d has number %d", run, len(all), e.Seq)
		}
	}
	return all
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}
