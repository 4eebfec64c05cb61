package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// A backup has what the store has, while others write to it; a file that exists is left alone.
func TestBackup(t *testing.T) {
	folder := t.TempDir()
	s, err := sqlite.Open(filepath.Join(folder, "s.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Create(t.Context(), store.Run{ID: "r", Agent: "a"}, "w", 1e12, store.Event{Type: "first", Body: []byte(`{"n":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	writing := make(chan error, 1)
	go func() {
		for range 50 {
			if _, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{{Type: "e"}}}); err != nil {
				writing <- err
				return
			}
		}
		writing <- nil
	}()
	copied := filepath.Join(folder, "copy.db")
	if err := s.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	if err := <-writing; err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(copied); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: got %v, %v, want mode 0600", info, err)
	}
	if err := s.Backup(t.Context(), copied); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second backup to the same file: got %v, want ErrExist", err)
	}
	b, err := sqlite.Open(copied, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if events, err := b.Events(t.Context(), "r", 0, 0); err != nil || len(events) == 0 || events[0].Type != "first" {
		t.Errorf("the backup has %d events, %v", len(events), err)
	}
	for _, one := range []*sqlite.Store{s, b} {
		if faults, err := one.Check(t.Context()); err != nil || faults != nil {
			t.Errorf("Check: got %q, %v, want no fault", faults, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	none := filepath.Join(folder, "none.db")
	if err := s.Backup(ended, none); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled backup: got %v", err)
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a cancelled backup has left a file: %v", err)
	}
}

// Check finds what the tables contradict, and a damaged page.
func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, id := range []string{"r1", "r2"} {
		if _, err := s.Create(t.Context(), store.Run{ID: id, Agent: "a"}, "w", 1e12, store.Event{Type: "first"}, store.Event{Type: "second", Body: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.OpenAsk(t.Context(), store.Ask{ID: "q", Run: "r2", Kind: "tool"}); err != nil {
		t.Fatal(err)
	}
	for _, damage := range []string{
		"DELETE FROM events WHERE seq = 1 AND run = (SELECT n FROM runs WHERE id = 'r1')",
		"UPDATE events SET body = '{' WHERE seq = 2 AND run = (SELECT n FROM runs WHERE id = 'r2')",
		"UPDATE asks SET run = 'gone'",
		"INSERT INTO events SELECT 99, seq, epoch, time, type, key, body FROM events LIMIT 1",
	} {
		if err := s.Exec(damage); err != nil {
			t.Fatal(err)
		}
	}
	faults, err := s.Check(t.Context())
	if err != nil || len(faults) != 4 {
		t.Fatalf("Check: got %d faults %q, %v, want 4", len(faults), faults, err)
	}
	for _, want := range []string{"run r1 counts 2 events, and has 1", "ask q belongs to run gone", "a row of events refers to a missing row of runs", "event 2 of run"} {
		if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("Check: got %q, want %q among them", faults, want)
		}
	}
}
