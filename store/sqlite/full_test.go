package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
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
				if _, err := s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: epoch, After: store.Unchecked, Events: events}); !errors.Is(err, want) {
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
		if last, err := s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: big}); err != nil || last != want {
			t.Errorf("with room again, Append to %s: got %d, %v, want %d", r.ID, last, err, want)
		}
	}
}
