package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

func TestEnded(t *testing.T) {
	tests := map[store.RunState]bool{
		store.Running: false, store.Waiting: false, store.Finished: true, store.Failed: true,
		store.Cancelled: true, store.Limited: true, "": false, "other": false,
	}
	for state, want := range tests {
		if got := state.Ended(); got != want {
			t.Errorf("%q.Ended(): got %v, want %v", state, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	err := store.CheckID("run", "secret\n")
	if e, ok := errors.AsType[*store.InvalidError](err); !ok || e.Field != "run" || strings.Contains(err.Error(), "secret") {
		t.Errorf("CheckID of a line break: got %v, want an InvalidError that does not repeat it", err)
	}
	err = store.Event{Type: "e", Body: make([]byte, store.MaxBody+1)}.Check()
	if e, ok := errors.AsType[*store.LimitError](err); !ok || e.Size != store.MaxBody+1 || e.Max != store.MaxBody {
		t.Errorf("Check of a large body: got %v, want a LimitError with its size", err)
	}
}

// TestReplay stops when its reader has enough, goes on behind a number, and ends
// with an error once.
func TestReplay(t *testing.T) {
	s := memstore.New(nil)
	_, err := s.Create(t.Context(), store.Run{ID: "r"}, "w", time.Minute, store.Event{Type: "a"}, store.Event{Type: "b"}, store.Event{Type: "c"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range store.Replay(t.Context(), s, "r", 1) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.Type); e.Type == "b" {
			break
		}
	}
	if strings.Join(got, "") != "b" {
		t.Errorf("Replay after 1, stopped at b: got %q", got)
	}
	n := 0
	for _, err := range store.Replay(t.Context(), s, "other", 0) {
		if n++; !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Replay of an unknown run: got %v, want %v", err, store.ErrNotFound)
		}
	}
	if n != 1 {
		t.Errorf("Replay of an unknown run: got %d turns, want 1", n)
	}
}

// FuzzParseCursor: a cursor comes from a command line. What is taken has one
// meaning, and is what a store would give out (SECA-55).
func FuzzParseCursor(f *testing.F) {
	for _, seed := range []string{"", ".", "1.", ".a", "1.a", "-1.a.b", "zzzzzzzzzzzzzzzzzz.a", "1.\x00", "1.' OR 1=1 --", "+1.a", "01.a",
		store.Run{ID: "r.1", Created: time.Unix(1, 2000)}.Cursor(), store.Ask{ID: "界"}.Cursor()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, ok, err := store.ParseCursor(text)
		if err != nil {
			if !errors.Is(err, store.ErrInvalid) && !errors.Is(err, store.ErrTooLarge) {
				t.Fatalf("ParseCursor(%q): got %v", text, err)
			}
			return
		}
		if ok == (text == "") {
			t.Fatalf("ParseCursor(%q): got ok=%v", text, ok)
		}
		if !ok {
			return
		}
		again, _, err := store.ParseCursor(c.String())
		if err != nil || again != c {
			t.Fatalf("ParseCursor(%q) is %+v, and its text gives %+v, %v", text, c, again, err)
		}
		if c.Before(c.Created, c.ID) {
			t.Fatalf("%+v is before itself", c)
		}
	})
}

// FuzzCheck: whatever passes the rules is kept and found by a store as it is.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"r", "", "a\x00", "\xff", "' OR 1=1 --", "\u202e", "é", strings.Repeat("x", 200)} {
		f.Add(seed, seed, []byte(`{"a":1}`))
	}
	f.Fuzz(func(t *testing.T, id, text string, body []byte) {
		s := memstore.New(nil)
		_, err := s.Create(t.Context(), store.Run{ID: id, Agent: text}, id, time.Minute, store.Event{Type: id, Key: text, Body: body})
		if err != nil {
			if !errors.Is(err, store.ErrInvalid) && !errors.Is(err, store.ErrTooLarge) {
				t.Fatalf("Create(%q): %v", id, err)
			}
			return
		}
		events, err := s.Events(t.Context(), id, 0, 0)
		if err != nil || len(events) != 1 || events[0].Type != id || events[0].Key != text || string(events[0].Body) != string(body) {
			t.Fatalf("Events(%q): got %+v, %v", id, events, err)
		}
	})
}
