package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// TestTornTail damages the end of the log, as a power loss may: what is before
// the damage is there, what is behind it is not, and nothing is half there.
func TestTornTail(t *testing.T) {
	file, log, sizes := writeLog(t, 12)
	type damage struct {
		name string
		at   int64
		do   func([]byte, int64) []byte
	}
	truncate := func(b []byte, at int64) []byte { return b[:at] }
	flip := func(b []byte, at int64) []byte { b[at] ^= 0x40; return b }
	zero := func(b []byte, at int64) []byte { clear(b[at:]); return b }
	var tests []damage
	end := sizes[len(sizes)-1]
	for back := int64(1); back < end-sizes[3]; back += 1997 { // prime: all parts of a frame
		at := end - back
		tests = append(tests, damage{"truncate", at, truncate}, damage{"flip", at, flip}, damage{"zero", at, zero})
	}
	dir := t.TempDir()
	for i, tt := range tests {
		path := filepath.Join(dir, fmt.Sprint(i, ".db"))
		write(t, path, file)
		write(t, path+"-wal", tt.do(append([]byte(nil), log...), tt.at))
		want := 0
		for _, size := range sizes {
			if size <= tt.at {
				want++
			}
		}
		checkIntegrity(t, path)
		s := openAt(t, path, nil)
		r, err := s.Run(t.Context(), "r")
		if err != nil {
			t.Fatalf("%s at %d: %v", tt.name, tt.at, err)
		}
		got := 0
		for e, err := range store.Replay(t.Context(), s, "r", 0) {
			if got++; err != nil || e.Seq != int64(got) {
				t.Fatalf("%s at %d: event %d is %d, %v", tt.name, tt.at, got, e.Seq, err)
			}
		}
		if got != want || r.Seq != int64(want) {
			t.Errorf("%s at %d of %d: got %d events and head %d, want %d", tt.name, tt.at, end, got, r.Seq, want)
		}
		if _, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: 1, After: store.Unchecked, Events: []store.Event{{Type: "e"}}}); err != nil {
			t.Errorf("%s at %d: Append afterwards: %v", tt.name, tt.at, err)
		}
	}
}

// writeLog makes a store with events of a commit each, and returns its files as
// they are while it is open, and the size of the log after each event.
func writeLog(t *testing.T, events int) (file, log []byte, sizes []int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "troupe.db")
	s := openAt(t, path, sqlite.WithIdle(sqlite.Options{}, time.Hour))
	r, err := s.Create(t.Context(), store.Run{ID: "r"}, "w", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for range events {
		if _, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{{Type: "e"}}}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	if file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if log, err = os.ReadFile(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	return file, log, sizes
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
