package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// TestPure runs all other tests of the package with the library in Go, in a process of
// its own. Without cgo they all ran with it anyway.
func TestPure(t *testing.T) {
	if sqlite.DriverName() == sqlite.Pure {
		return
	}
	if raceEnabled {
		t.Skip("the race detector makes SQLite in Go 20 times as slow: 160 s of CPU. The plain run has these tests, and this one TestBoth*")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.skip", "^(TestPure|TestBoth.*)$"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), pureEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the tests with the library in Go: %v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("--- PASS: TestStore")) {
		t.Errorf("the tests of the store did not run:\n%s", out)
	}
}

// TestBothOpenTheSameFile: a store that one library wrote opens in the other, forth and
// back. Each has closed it before the other opens it.
func TestBothOpenTheSameFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	libraries := []*sqlite.Options{nil, sqlite.WithPure(), nil, sqlite.WithPure()}
	var epoch int64
	for i, opts := range libraries {
		s, err := sqlite.Open(path, opts)
		if err != nil {
			t.Fatalf("opening it for the %d. time: %v", i, err)
		}
		if i == 0 {
			epoch = newRun(t, s, "r").Epoch
		}
		if last, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: epoch, After: store.Unchecked, Events: big}); err != nil || last != int64(i+1) {
			t.Errorf("Append: got %d, %v, want %d", last, err, i+1)
		}
		n := 0
		for e, err := range store.Replay(t.Context(), s, "r", 0) {
			if n++; err != nil || e.Type != "big" || !bytes.Equal(e.Body, big[0].Body) {
				t.Errorf("event %d: got a %s of %d bytes, %v", n, e.Type, len(e.Body), err)
			}
		}
		if n != i+1 {
			t.Errorf("got %d events, want %d", n, i+1)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		checkIntegrity(t, path)
	}
}

// TestBothAtTheSameTime: processes with one and with the other library write to one
// file: each keeps the other's locks, and reads what the other wrote.
func TestBothAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	s := openAt(t, path, nil)
	newRun(t, s, "shared")
	child := pureChild(t, "share", path)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := share(t.Context(), s); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("the process with the other library: %v", err)
	}
	n := int64(0)
	for e, err := range store.Replay(t.Context(), s, "shared", 0) {
		if n++; err != nil || e.Seq != n {
			t.Fatalf("event %d: got %d, %v", n, e.Seq, err)
		}
	}
	if n != 2*shared {
		t.Errorf("got %d events, want %d", n, 2*shared)
	}
}

// shared is the number of events that each process appends.
const shared = 100

// share appends to the run that both processes have.
func share(ctx context.Context, s store.Store) error {
	for i := range shared {
		if _, err := s.Append(ctx, store.Append{Run: "shared", Owner: "w", Epoch: 1, After: store.Unchecked, Events: small}); err != nil {
			return fmt.Errorf("append %d: %w", i, err)
		}
	}
	return nil
}

// shareFile is share in a process of its own.
func shareFile(path string) error {
	s, err := sqlite.Open(path, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	return share(context.Background(), s)
}

// TestBothRecover: what a killed process with one library left in the log, the other
// finds.
func TestBothRecover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	acknowledged := map[string]int64{}
	for kill := range 4 {
		cmd := childCommand(t, "append", path)
		opts := sqlite.WithPure()
		if kill%2 == 1 {
			cmd = pureChild(t, "append", path)
			opts = nil
		}
		killOnce(t, cmd, 50, acknowledged)
		s, err := sqlite.Open(path, opts)
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		for id, last := range acknowledged {
			checkBatches(t, s, id, last)
		}
		for id := range acknowledged { // the next process takes the runs over
			if r, err := s.Claim(t.Context(), id, "w", time.Hour); err != nil {
				t.Errorf("Claim: %v", err)
			} else if err := s.Release(t.Context(), id, "w", r.Epoch); err != nil {
				t.Errorf("Release: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkIntegrity(t, path)
	}
}

// pureChild is childCommand with the library in Go.
func pureChild(t *testing.T, name, path string) *exec.Cmd {
	cmd := childCommand(t, name, path)
	cmd.Env = append(cmd.Env, pureEnv+"=1")
	return cmd
}
