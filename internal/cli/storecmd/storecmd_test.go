package storecmd_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/storecmd"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// A file of an older version is vacuumed once, as pruning it says, when no process has it open; then it gives space back by itself.
func TestVacuumOfAnOlderFile(t *testing.T) {
	path := olderStore(t)
	run := func(args ...string) (out, said string, err error) {
		var stdout, stderr bytes.Buffer
		cmd := storecmd.Command(&env.Env{Stdout: &stdout, Stderr: &stderr, StorePath: path, LogLevel: "warn", LogFormat: "text"})
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err = cmd.ExecuteContext(t.Context())
		return stdout.String(), stderr.String(), err
	}
	addLarge(t, path)
	out, said, err := run("prune", "--older", "1ns")
	if err != nil || strings.Contains(out, "less") || !strings.Contains(said, "unused, and stay until you run once: troupe store vacuum --store") {
		t.Errorf("prune: got %q, %q, %v, want that it says to vacuum", out, said, err)
	}
	other, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := run("vacuum"); err == nil || !strings.Contains(err.Error(), "stop the workers") {
		t.Errorf("vacuum while another has the file open: got %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if out, _, err := run("vacuum"); err != nil || !strings.Contains(out, "MiB less") {
		t.Errorf("vacuum: got %q, %v", out, err)
	}
	addLarge(t, path)
	if out, said, err := run("prune", "--older", "1ns"); err != nil || said != "" || !strings.Contains(out, "removed 1 run and 0 jobs; the file has 1.") {
		t.Errorf("prune after vacuum: got %q, %q, %v", out, said, err)
	}
}

// addLarge adds a run that has ended, of 1 MiB.
func addLarge(t *testing.T, path string) {
	t.Helper()
	s, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Create(t.Context(), store.Run{ID: "large"}, "w", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	e := store.Event{Type: "e", Body: []byte(`"` + strings.Repeat("x", 512<<10) + `"`)}
	if _, err := s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{e, e}, State: store.Finished}); err != nil {
		t.Fatal(err)
	}
}

// olderStore is the path of a store that an older version has made.
func olderStore(t *testing.T) string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "store", "sqlite", "testdata", "schema9.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "troupe.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
