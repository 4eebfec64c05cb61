package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

var (
	small = []store.Event{{Type: "small"}}
	big   = []store.Event{{Type: "big", Body: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}}
)

// TestFull: in a store without room only what has no room fails, in the very
// commit that is shared with what has.
func TestFull(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), nil)
	var runs []store.Run
	for i := range 9 {
		r, err := s.Create(t.Context(), store.Run{ID: fmt.Sprint("r", i)}, "w", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	pages, err := s.Int("PRAGMA page_count")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Int(fmt.Sprintf("PRAGMA max_page_count = %d", pages+20)); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		entered, release := s.Block()
		<-entered
		var wg sync.WaitGroup
		for i, r := range runs {
			events, want := small, error(nil)
			if i%3 == 1 {
				events, want = big, store.ErrFull
			}
			epoch := r.Epoch
			if i%3 == 2 {
				epoch, want = epoch+1, store.ErrFenced
			}
			wg.Go(func() {
				if _, err := s.Append(t.Context(), store.Append{Run: r.ID, Epoch: epoch, After: store.Unchecked, Events: events}); !errors.Is(err, want) {
					t.Errorf("round %d, Append to %s: got %v, want %v", round, r.ID, err, want)
				}
			})
		}
		waitQueued(t, s, len(runs))
		release()
		wg.Wait()
	}
	if _, err := s.Int("PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		want := int64(1)
		if i%3 == 0 {
			want = 4
		}
		if last, err := s.Append(t.Context(), store.Append{Run: r.ID, Epoch: r.Epoch, After: store.Unchecked, Events: big}); err != nil || last != want {
			t.Errorf("with room again, Append to %s: got %d, %v, want %d", r.ID, last, err, want)
		}
	}
}

// TestDiskFull has the operating system refuse to let the files grow.
func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	out, err := childCommand(t, "fill", path).Output()
	if err != nil {
		t.Fatalf("the child: %v", err)
	}
	var before, after int64
	if _, err := fmt.Sscan(string(out), &before, &after); err != nil {
		t.Fatalf("the child said %q: %v", out, err)
	}
	if before == 0 || after != before+1 {
		t.Errorf("got event %d before the disk was full and %d after, want the next", before, after)
	}
	checkIntegrity(t, path)
	s := openAt(t, path, nil)
	n := int64(0)
	for e, err := range store.Replay(t.Context(), s, "r", 0) {
		if n++; err != nil || e.Seq != n {
			t.Fatalf("event %d: got %d, %v", n, e.Seq, err)
		}
	}
	if n != after {
		t.Errorf("got %d events, want %d", n, after)
	}
}

// fillDisk appends until there is no room, makes room and appends once more.
func fillDisk(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(path, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := s.Create(ctx, store.Run{ID: "r"}, "w", time.Hour)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: limit.Max}); err != nil {
		return err
	}
	body := json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)
	more := store.Append{Run: "r", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{{Type: "e", Body: body}}}
	var before int64
	for range 1000 {
		last, e := s.Append(ctx, more)
		if err = e; err != nil {
			break
		}
		before = last
	}
	if !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("at the limit: got %w, want %w", err, store.ErrFull)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	after, err := s.Append(ctx, more)
	if err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	_, err = fmt.Fprintln(os.Stdout, before, after)
	return err
}
