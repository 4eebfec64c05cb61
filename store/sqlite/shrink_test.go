package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// fill adds runs that have ended, of 100 KiB each.
func fill(t *testing.T, s store.Store, runs int) {
	t.Helper()
	body := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 100<<10)...), '"')
	for i := range runs {
		r, err := s.Create(t.Context(), store.Run{ID: fmt.Sprint("filled", i)}, "w", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{{Type: "e", Body: body}}, State: store.Finished}); err != nil {
			t.Fatal(err)
		}
	}
}

// empty removes them.
func empty(t *testing.T, s store.Store, runs int) store.Pruned {
	t.Helper()
	done, err := store.PruneAll(t.Context(), s, store.Prune{Before: time.Now().Add(time.Hour)})
	if err != nil || done.Runs != runs {
		t.Errorf("PruneAll: got %+v, %v, want %d runs", done, err, runs)
	}
	return done
}

// sizeOf is the size of the store with its log.
func sizeOf(t *testing.T, s *sqlite.Store) int64 {
	t.Helper()
	size, _, err := s.Space()
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func wantMode(t *testing.T, s *sqlite.Store, want int) {
	t.Helper()
	if got, err := s.Int("SELECT auto_vacuum FROM pragma_auto_vacuum"); err != nil || got != want {
		t.Errorf("auto_vacuum: got %d, %v, want %d", got, err, want)
	}
}

// wantSound has SQLite and the store check the file.
func wantSound(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if faults, err := s.Check(t.Context()); err != nil || faults != nil {
		t.Errorf("Check: got %q, %v, want no fault", faults, err)
	}
}

// A new file gives back what is removed, and so does a backup; what is there stays.
func TestShrink(t *testing.T) {
	const runs, whole = 60, 60 * 100 << 10
	path := filepath.Join(t.TempDir(), "s.db")
	s := openAt(t, path, nil)
	wantMode(t, s, 2)
	newRun(t, s, "stays")
	fill(t, s, runs)
	if size := sizeOf(t, s); size < whole {
		t.Fatalf("the store has %d bytes, want %d at least", size, whole)
	}
	done := empty(t, s, runs)
	if done.Freed < whole || done.Unused != 0 {
		t.Errorf("got %+v, want %d bytes freed at least, and none unused", done, whole)
	}
	if size := sizeOf(t, s); size > whole/4 {
		t.Errorf("the store has %d bytes on disk still", size)
	}
	if freed, unused, err := s.Shrink(t.Context()); freed != 0 || unused != 0 || err != nil {
		t.Errorf("Shrink again: got %d, %d, %v", freed, unused, err)
	}
	if _, err := s.Run(t.Context(), "stays"); err != nil {
		t.Error(err)
	}
	wantSound(t, s)

	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := s.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	wantMode(t, openAt(t, copied, nil), 2)
}

// Other writes go on between the steps, and a caller that leaves ends them.
func TestShrinkGivesWay(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "s.db"), nil)
	fill(t, s, 60)
	if n, err := s.PruneRuns(t.Context(), store.Prune{Before: time.Now().Add(time.Hour)}); n != 60 || err != nil {
		t.Fatalf("PruneRuns: got %d, %v", n, err)
	}
	entered, release := s.Block()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, unused, err := s.Shrink(ctx)
		if unused == 0 {
			err = errors.Join(err, errors.New("all space was given back"))
		}
		done <- err
	}()
	waitQueued(t, s, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Shrink of a caller that leaves: got %v", err)
	}
	release()
	if _, unused, err := s.Shrink(t.Context()); unused != 0 || err != nil {
		t.Errorf("Shrink: got %d unused, %v", unused, err)
	}
	wantSound(t, s)
}

// A file of an older version keeps its unused space until it is vacuumed, and then gives it back as a new one does.
func TestVacuum(t *testing.T) {
	path := unpacked(t, "schema9.db.gz")
	s := openAt(t, path, nil)
	wantMode(t, s, 0)
	fill(t, s, 20)
	done, err := store.PruneAll(t.Context(), s, store.Prune{Before: time.Now().Add(time.Hour)})
	if err != nil || done.Freed != 0 || done.Unused < 20*100<<10 {
		t.Errorf("PruneAll: got %+v, %v, want nothing freed, and what is unused", done, err)
	}
	freed, err := s.Vacuum(t.Context())
	if err != nil || freed < 20*100<<10 {
		t.Errorf("Vacuum: got %d, %v, want 2 MB freed", freed, err)
	}
	wantMode(t, s, 2)
	if mode, err := s.Int("SELECT journal_mode = 'wal' FROM pragma_journal_mode"); mode != 1 || err != nil {
		t.Errorf("after Vacuum the file has no log: %v", err)
	}
	fill(t, s, 20)
	if done := empty(t, s, 20); done.Freed < 20*100<<10 || done.Unused != 0 {
		t.Errorf("after Vacuum: got %+v", done)
	}
	wantSound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Vacuum(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Vacuum of a store that is closed: got %v", err)
	}
}

// While another has the file open, or there is no room for it, nothing is changed.
func TestVacuumRefuses(t *testing.T) {
	path := unpacked(t, "schema9.db.gz")
	s := openAt(t, path, nil)
	other, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Vacuum(t.Context()); !errors.Is(err, store.ErrBusy) {
		t.Errorf("with the file open elsewhere: got %v, want ErrBusy", err)
	}
	newRun(t, s, "ours")
	newRun(t, other, "theirs")
	wantSound(t, s)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Vacuum(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: got %v", err)
	}
	wantMode(t, s, 0)
	if _, err := s.Vacuum(t.Context()); err != nil {
		t.Errorf("when the other has closed it: got %v", err)
	}
	if err := sqlite.SpaceFor(1000, 1999); !errors.Is(err, store.ErrFull) {
		t.Errorf("without room: got %v, want ErrFull", err)
	}
	if err := sqlite.SpaceFor(1000, 2000); err != nil {
		t.Errorf("with room: got %v", err)
	}
}

func vacuumFile(path string) error {
	s, err := sqlite.Open(path, nil)
	if err != nil {
		return err
	}
	_, err = s.Vacuum(context.Background())
	return errors.Join(err, s.Close())
}

// A process that is killed while it writes the file anew leaves all that was there.
func TestVacuumKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := openAt(t, path, nil)
	newRun(t, s, "stays")
	fill(t, s, 200)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		child := childCommand(t, "vacuum", path)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- child.Wait() }()
		for killed := false; !killed; {
			select {
			case err := <-ended: // it was faster than the kill
				ended <- err
				killed = true
			default:
				if info, err := os.Stat(path + "-journal"); err == nil && info.Size() > 64<<10 { // the file itself is written
					if err := child.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
						t.Error(err)
					}
					killed = true
				}
			}
		}
		t.Logf("the process: %v", <-ended)
		s, err := sqlite.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantSound(t, s)
		runs, err := s.Runs(t.Context(), store.Query{Limit: store.MaxPage})
		if err != nil || len(runs) != 201 {
			t.Errorf("got %d runs, %v, want 201", len(runs), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
