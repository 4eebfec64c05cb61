package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

func testCreate(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	in := store.Run{ID: "r1", Agent: "writer", Parent: "r0", Title: "Greet Ada", Summary: "new", InputHash: "h",
		Seq: 99, Epoch: 99, Owner: "forged"}
	r, err := s.Create(t.Context(), in, "w", ttl, event(store.RunStarted, 0))
	if err != nil {
		t.Fatal(err)
	}
	if r.Created.IsZero() || !r.Updated.Equal(r.Created) || !r.Expires.Equal(r.Created.Add(ttl)) {
		t.Errorf("Create: got times %v, %v, %v, want now, the same and now + %v", r.Created, r.Updated, r.Expires, ttl)
	}
	want := in
	want.State, want.Seq, want.Epoch, want.Owner, want.Root = store.Running, 1, 1, "w", "r1"
	want.Created, want.Updated, want.Expires = r.Created, r.Updated, r.Expires
	wantEqual(t, "Create", r, want)

	got, err := s.Run(t.Context(), "r1")
	wantErr(t, "Run", err, nil)
	wantEqual(t, "Run", got, want)
	events := replay(t, s, "r1")
	wantEqual(t, "Replay", events, []store.Event{{Run: "r1", Seq: 1, Epoch: 1, Time: r.Created, Type: store.RunStarted, Body: []byte(`{"n":0}`)}})

	_, err = s.Run(t.Context(), "other")
	wantErr(t, "Run of an unknown ID", err, store.ErrNotFound)
	_, err = s.Events(t.Context(), "other", 0, 0)
	wantErr(t, "Events of an unknown ID", err, store.ErrNotFound)
	create(t, s, "empty")
	if page, err := s.Events(t.Context(), "empty", 0, 0); err != nil || len(page) != 0 {
		t.Errorf("Events of a run without any: got %v, %v, want none", page, err)
	}
}

// testCreateImported: a run that was imported keeps for each event whether another store has recorded it, those that are
// written later too.
func testCreateImported(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	forged := event(store.ToolIntent, 3)
	forged.Imported = true
	r, err := s.Create(t.Context(), store.Run{ID: "r", Imported: 2}, "w", ttl, event(store.RunStarted, 1))
	if err != nil || r.Imported != 2 {
		t.Fatalf("Create: got %+v, %v, want two events to be imported", r, err)
	}
	appendTo(t, s, r, event(store.ToolIntent, 2), forged)
	if got, err := s.Run(t.Context(), "r"); err != nil || got.Imported != 2 {
		t.Errorf("Run: got %+v, %v, want two events to be imported", got, err)
	}
	for i, e := range replay(t, s, "r") {
		if e.Imported != (i < 2) {
			t.Errorf("event %d: got Imported %v, want it of the first two only", e.Seq, e.Imported)
		}
	}
	if last, err := s.Append(t.Context(), store.Append{Run: "r", Owner: r.Owner, Epoch: r.Epoch, After: 1, Events: []store.Event{event(store.ToolIntent, 2), forged}}); err != nil || last != 3 {
		t.Errorf("the same Append again: got %d, %v, want the end, 3", last, err)
	}
	_, err = s.Create(t.Context(), store.Run{ID: "n", Imported: -1}, "w", ttl)
	wantErr(t, "Create", err, store.ErrInvalid)
}

func testCreateExists(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	first := create(t, s, "r", event(store.RunStarted, 1))
	got, err := s.Create(t.Context(), store.Run{ID: "r", Agent: "other"}, "x", ttl, event(store.RunStarted, 2))
	wantErr(t, "second Create", err, store.ErrExists)
	wantEqual(t, "second Create", got, first)
	if n := len(replay(t, s, "r")); n != 1 {
		t.Errorf("after a second Create: got %d events, want 1", n)
	}
}

func testCreateRace(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			owner := fmt.Sprintf("w%d", i)
			r, err := s.Create(t.Context(), store.Run{ID: "r"}, owner, ttl, event(store.RunStarted, i))
			switch {
			case err == nil && r.Owner == owner:
				won.Add(1)
			case errors.Is(err, store.ErrExists) && r.Owner != "" && r.Owner != owner:
			default:
				t.Errorf("Create by %s: got %+v, %v", owner, r, err)
			}
		})
	}
	wg.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("16 creators of one run: got %d winners, want 1", n)
	}
	replay(t, s, "r")
}

func testAppendOrder(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r", event(store.RunStarted, 1))
	next := 2
	for batch := range 5 {
		var events []store.Event
		for range batch {
			events = append(events, store.Event{Type: store.ToolIntent, Key: fmt.Sprint("k", next), Body: event("", next).Body})
			next++
		}
		if last := appendTo(t, s, r, events...); last != int64(next-1) {
			t.Errorf("Append of %d: got last %d, want %d", batch, last, next-1)
		}
	}
	for i, e := range replay(t, s, "r") {
		if want := string(event("", i+1).Body); string(e.Body) != want {
			t.Errorf("event %d: got body %s, want %s", e.Seq, e.Body, want)
		}
		if want := fmt.Sprint("k", i+1); i > 0 && e.Key != want {
			t.Errorf("event %d: got key %q, want %q", e.Seq, e.Key, want)
		}
	}
}

func testAppendState(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	steps := []struct {
		state   store.RunState
		summary string
		want    store.RunState
		wantSum string
	}{
		{"", "", store.Running, ""},
		{store.Waiting, "asks for a name", store.Waiting, "asks for a name"},
		{"", "", store.Waiting, "asks for a name"},
		{store.Running, "", store.Running, "asks for a name"},
		{"", "writes", store.Running, "writes"},
		{store.Limited, "out of steps", store.Limited, "out of steps"},
	}
	for i, step := range steps {
		if _, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, State: step.state, Summary: step.summary,
			Events: []store.Event{event("step", i)}}); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		got, err := s.Run(t.Context(), "r")
		if err != nil || got.State != step.want || got.Summary != step.wantSum || got.Seq != int64(i+1) {
			t.Errorf("step %d: got %q, %q, %d, %v, want %q, %q, %d", i, got.State, got.Summary, got.Seq, err, step.want, step.wantSum, i+1)
		}
	}
	got, _ := s.Run(t.Context(), "r")
	if got.Owner != "" || !got.Expires.IsZero() {
		t.Errorf("after the end: got lease of %q until %v, want none", got.Owner, got.Expires)
	}
	_, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{event("late", 0)}})
	wantErr(t, "Append after the end", err, store.ErrFinished)
	_, err = s.Append(t.Context(), store.Append{Run: "other", Owner: "w", Epoch: 1, After: store.Unchecked})
	wantErr(t, "Append to an unknown run", err, store.ErrNotFound)
	if n := len(replay(t, s, "r")); n != len(steps) {
		t.Errorf("after all: got %d events, want %d", n, len(steps))
	}
}

func testAppendAllOrNothing(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r", event(store.RunStarted, 1))
	_, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, State: store.Finished, Events: []store.Event{
		event("good", 1), {Type: "bad", Body: []byte(`{"a":1,"a":2}`)}}})
	wantErr(t, "Append of a body with a duplicate name", err, store.ErrInvalid)
	got, err := s.Run(t.Context(), "r")
	wantErr(t, "Run", err, nil)
	wantEqual(t, "Run after a refused append", got, r)
	if last := appendTo(t, s, r); last != 1 {
		t.Errorf("empty Append: got last %d, want 1", last)
	}
}

// testAppendWriters has 16 writers with a run each, and fenced ones among them:
// what is refused must not harm what is committed with it.
func testAppendWriters(t *testing.T, open func(t *testing.T) store.Store) {
	const writers, appends = 16, 25
	s := open(t)
	var wg sync.WaitGroup
	for w := range writers {
		r := create(t, s, fmt.Sprint("r", w))
		wg.Go(func() {
			for i := range appends {
				last, err := s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{event("a", 2*i), event("b", 2*i+1)}})
				if err != nil || last != int64(2*i+2) {
					t.Errorf("Append %d to %s: got %d, %v, want %d", i, r.ID, last, err, 2*i+2)
					return
				}
			}
		})
		wg.Go(func() {
			for range appends {
				if _, err := s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch + 1, After: store.Unchecked, Events: []store.Event{event("x", 0)}}); !errors.Is(err, store.ErrFenced) {
					t.Errorf("Append with a wrong epoch: got %v, want %v", err, store.ErrFenced)
				}
			}
		})
	}
	wg.Wait()
	for w := range writers {
		for i, e := range replay(t, s, fmt.Sprint("r", w)) {
			if want := string(event("", i).Body); string(e.Body) != want {
				t.Errorf("run %d, event %d: got %s, want %s", w, e.Seq, e.Body, want)
			}
		}
	}
}

// testAppendOneRun has 16 writers share one run: each number is given out once.
func testAppendOneRun(t *testing.T, open func(t *testing.T) store.Store) {
	const writers, appends = 16, 20
	s := open(t)
	r := create(t, s, "r")
	var mu sync.Mutex
	var given []int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range appends {
				last, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{event("e", w*appends+i)}})
				if err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				mu.Lock()
				given = append(given, last)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(given)
	for i, seq := range given {
		if seq != int64(i+1) {
			t.Fatalf("number %d: got %d", i+1, seq)
		}
	}
	if n := len(replay(t, s, "r")); n != writers*appends {
		t.Errorf("got %d events, want %d", n, writers*appends)
	}
}

func testEventPages(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r")
	for n := 0; n < store.MaxPage+5; n += 201 {
		events := make([]store.Event, 201)
		for i := range events {
			events[i] = event("e", n+i)
		}
		appendTo(t, s, r, events...)
	}
	tests := []struct {
		after       int64
		limit       int
		first, size int
	}{
		{0, 1, 1, 1}, {0, 3, 1, 3}, {7, 3, 8, 3}, {1003, 10, 1004, 2}, {1005, 10, 0, 0}, {1 << 60, 1, 0, 0},
		{-5, 2, 1, 2}, {0, 0, 1, store.MaxPage}, {0, 1 << 30, 1, store.MaxPage}, {5, -1, 6, store.MaxPage},
	}
	for _, tt := range tests {
		page, err := s.Events(t.Context(), "r", tt.after, tt.limit)
		if err != nil || len(page) != tt.size || tt.size > 0 && page[0].Seq != int64(tt.first) {
			t.Errorf("Events(after %d, limit %d): got %d events, %v, want %d from %d", tt.after, tt.limit, len(page), err, tt.size, tt.first)
		}
	}
	if n := len(replay(t, s, "r")); n != 1005 {
		t.Errorf("Replay: got %d events, want 1005", n)
	}
}

func testRunPages(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		var want []string // oldest first
		for i := range 20 {
			if i%3 == 0 { // three have the same time: the ID decides
				time.Sleep(time.Second)
			}
			id := fmt.Sprintf("r%02d", i)
			create(t, s, id)
			want = append(want, id)
		}
		slices.Reverse(want)
		for _, limit := range []int{1, 7, 20, 0} {
			var got []string
			q := store.Query{Limit: limit}
			for {
				page, err := s.Runs(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				for _, r := range page {
					got = append(got, r.ID)
				}
				q.After = page[len(page)-1].Cursor()
			}
			wantEqual(t, fmt.Sprintf("Runs by %d", limit), got, want)
		}

		// A cursor stays right when its run is gone.
		page, err := s.Runs(t.Context(), store.Query{Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		gone := page[4]
		time.Sleep(2 * ttl)
		wantErr(t, "Delete", s.Delete(t.Context(), gone.ID), nil)
		page, err = s.Runs(t.Context(), store.Query{Limit: 1, After: gone.Cursor()})
		if err != nil || len(page) != 1 || page[0].ID != want[5] {
			t.Errorf("Runs after a deleted run: got %v, %v, want %s", page, err, want[5])
		}
	})
}

func testRunQueries(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		begun := make(map[string]time.Time)
		for i, in := range []store.Run{
			{ID: "leased", Agent: "a"}, {ID: "waiting", Agent: "b", State: store.Waiting}, {ID: "done", Agent: "a"},
			{ID: "expired", Agent: "a", Parent: "gone"}, {ID: "released", Agent: "b", Parent: "gone"}, {ID: "below", Agent: "c", Parent: "leased"},
		} {
			time.Sleep(time.Millisecond)
			lease := ttl
			if in.ID == "expired" {
				lease = time.Minute
			}
			in.Epoch = 1
			r, err := s.Create(t.Context(), in, "w", lease)
			if err != nil {
				t.Fatal(err)
			}
			begun[r.ID] = r.Created
			switch i {
			case 2:
				_, err = s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, State: store.Finished})
			case 4:
				err = s.Release(t.Context(), r.ID, "w", r.Epoch)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		tests := []struct {
			q    store.Query
			want []string
		}{
			{store.Query{}, []string{"below", "released", "expired", "done", "waiting", "leased"}},
			{store.Query{States: []store.RunState{store.Waiting}}, []string{"waiting"}},
			{store.Query{States: []store.RunState{store.Waiting, store.Finished}}, []string{"done", "waiting"}},
			{store.Query{Agent: "a"}, []string{"expired", "done", "leased"}},
			{store.Query{Parent: "gone"}, []string{"released", "expired"}},
			{store.Query{Beginning: "re"}, []string{"released"}},
			{store.Query{Beginning: "e", Agent: "b"}, nil},
			{store.Query{Beginning: "%"}, nil}, // SECA-55: not a pattern
			{store.Query{Parent: "gone", Agent: "a"}, []string{"expired"}},
			{store.Query{Free: true}, []string{"released", "expired"}},
			{store.Query{Free: true, Agent: "b"}, []string{"released"}},
			{store.Query{Agent: "unknown"}, nil},
			{store.Query{Agent: "%"}, nil}, // SECA-55: not a pattern
			{store.Query{Agent: "a' OR '1'='1"}, nil},
			{store.Query{Since: begun["done"]}, []string{"below", "released", "expired", "done"}},
			{store.Query{Since: begun["done"].Add(time.Microsecond)}, []string{"below", "released", "expired"}},
			{store.Query{Until: begun["done"]}, []string{"waiting", "leased"}},
			{store.Query{Since: begun["waiting"], Until: begun["expired"], Agent: "a"}, []string{"done"}},
			{store.Query{Since: begun["released"].Add(time.Hour)}, nil},
		}
		for _, tt := range tests {
			var got []string
			page, err := s.Runs(t.Context(), tt.q)
			for _, r := range page {
				got = append(got, r.ID)
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("Runs(%+v): got %v, %v, want %v", tt.q, got, err, tt.want)
			}
		}
	})
}

func testDelete(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	r := create(t, s, "r", event(store.RunStarted, 1))
	other := create(t, s, "other", event(store.RunStarted, 2))
	for id, run := range map[string]string{"mine": "r", "others": "other", "nobodys": ""} {
		if err := s.OpenAsk(t.Context(), store.Ask{ID: id, Run: run, Kind: "tool"}); err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, "Delete of a leased run", s.Delete(t.Context(), "r"), store.ErrLeased)
	wantErr(t, "Release", s.Release(t.Context(), "r", "w", r.Epoch), nil)
	wantErr(t, "Delete", s.Delete(t.Context(), "r"), nil)
	wantErr(t, "Delete again", s.Delete(t.Context(), "r"), store.ErrNotFound)
	_, err := s.Events(t.Context(), "r", 0, 0)
	wantErr(t, "Events of a deleted run", err, store.ErrNotFound)
	_, err = s.Ask(t.Context(), "mine")
	wantErr(t, "Ask of a deleted run", err, store.ErrNotFound)
	for _, id := range []string{"others", "nobodys"} {
		_, err = s.Ask(t.Context(), id)
		wantErr(t, "Ask "+id, err, nil)
	}
	wantEqual(t, "events of the other run", len(replay(t, s, "other")), 1)
	appendTo(t, s, other, event("e", 2))
	if got := create(t, s, "r"); got.Seq != 0 {
		t.Errorf("Create after Delete: got %d events, want 0", got.Seq)
	}
}
