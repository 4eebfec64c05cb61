//go:build unix

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
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

func init() {
	children["fill"] = fillDisk
	children["open"] = openUnprivileged
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
	more := store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{{Type: "e", Body: body}}}
	var before int64
	for range 1000 {
		last, e := s.Append(ctx, more)
		if err = e; err != nil {
			break
		}
		before = last
	}
	// The library in Go does not say why the system refused.
	if !errors.Is(err, store.ErrFull) && (err == nil || sqlite.DriverName() != sqlite.Pure) {
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

// TestUnwritable: a folder in which nothing can be created is named as the cause,
// for a store that is there and for a new one.
func TestUnwritable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sealed")
	old := filepath.Join(dir, "old.db")
	if err := openAt(t, old, nil).Close(); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{old: 0o666, dir: 0o555, filepath.Dir(dir): 0o755, filepath.Dir(filepath.Dir(dir)): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(dir, 0o700) // so that it can be removed
	for path, says := range map[string]string{
		old:                          "its folder have to be writable",
		filepath.Join(dir, "new.db"): "permission denied",
	} {
		out, err := childCommand(t, "open", path).Output()
		if err != nil || !strings.Contains(string(out), says) {
			t.Errorf("Open(%q): got %q, %v, want an error that says %q", path, out, err, says)
		}
	}
}

// openUnprivileged prints why a store cannot be opened by who may not write everywhere.
func openUnprivileged(path string) error {
	if os.Geteuid() == 0 {
		if err := syscall.Setuid(65534); err != nil {
			return err
		}
	}
	_, err := sqlite.Open(path, nil)
	fmt.Println(err)
	return nil
}

// TestPermissions: what may hold secrets is for its owner only.
func TestPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "troupe.db")
	s := openAt(t, path, nil)
	newRun(t, s, "r")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: got %v, %v, want mode 0700", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("got files %v, %v, want the store, -wal and -shm", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v, want mode 0600", e.Name(), info.Mode(), err)
		}
	}
}
