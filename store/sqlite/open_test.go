package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	s := openAt(t, path, nil)
	r := newRun(t, s, "r")
	if _, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small}); err != nil {
		t.Fatal(err)
	}
	if err := s.OpenAsk(t.Context(), store.Ask{ID: "q", Run: "r", Kind: "form", Path: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Approve(t.Context(), store.Approval{File: "f", Server: "s", Hash: "h"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openAt(t, path, nil)
	head, err := s.Run(t.Context(), "r")
	if err != nil || head.Seq != 1 || head.Owner != "w" || head.Epoch != r.Epoch || !head.Expires.Equal(r.Expires) {
		t.Errorf("Run: got %+v, %v, want what was written", head, err)
	}
	ask, err := s.Ask(t.Context(), "q")
	if err != nil || ask.Status != store.AskPending || len(ask.Path) != 1 {
		t.Errorf("Ask: got %+v, %v, want it pending", ask, err)
	}
	if _, ok, err := s.Approved(t.Context(), "f", "s", "h"); err != nil || !ok {
		t.Errorf("Approved: got %v, %v, want true", ok, err)
	}
	if last, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small}); err != nil || last != 2 {
		t.Errorf("Append: got %d, %v, want 2", last, err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	write(t, text, []byte("hello"))
	long := filepath.Join(dir, "long.txt")
	write(t, long, bytes.Repeat([]byte("no database "), 1000))
	foreign := filepath.Join(dir, "foreign.db")
	execAt(t, foreign, "CREATE TABLE runs (id)")
	newer := filepath.Join(dir, "newer.db")
	if err := openAt(t, newer, nil).Close(); err != nil {
		t.Fatal(err)
	}
	execAt(t, newer, "PRAGMA user_version = 99")
	cut := filepath.Join(dir, "cut.db")
	if err := openAt(t, cut, nil).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(cut, 5000); err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		path string
		want error  // nil for any
		says string // in the message
	}{
		{"", store.ErrInvalid, "empty"},
		{":memory:", store.ErrInvalid, "memstore"},
		{"file:x.db?mode=memory", store.ErrInvalid, "URI"},
		{"a\x00b", store.ErrInvalid, "NUL"},
		{dir, nil, "is a directory"},
		{filepath.Join(text, "troupe.db"), nil, "not a directory"},
		{text, store.ErrCorrupt, "not a store"},
		{long, store.ErrCorrupt, "not a store"},
		{foreign, store.ErrCorrupt, "another program"},
		{newer, store.ErrTooNew, "schema is 99"},
		{cut, store.ErrCorrupt, "damaged"},
	}
	for _, tt := range tests {
		before, _ := os.ReadFile(tt.path) // nil where there is no file
		s, err := sqlite.Open(tt.path, nil)
		if err == nil {
			s.Close()
			t.Errorf("Open(%q): got no error", tt.path)
			continue
		}
		if tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Open(%q): got %v, want %v that says %q", tt.path, err, tt.want, tt.says)
		}
		if after, _ := os.ReadFile(tt.path); !bytes.Equal(before, after) {
			t.Errorf("Open(%q) changed what is not its own", tt.path)
		}
	}
}

// TestHostilePaths: no character of a path is a setting (SECA-55).
func TestHostilePaths(t *testing.T) {
	for _, name := range []string{
		"a?mode=memory", "a#b", "a%00b", "a%2Fb", "a&_journal_mode=OFF", "a b", "a;b", "'; DROP TABLE runs; --", "名", "-x", "a\nb", "\xff",
	} {
		dir := t.TempDir()
		s := openAt(t, filepath.Join(dir, name), nil)
		newRun(t, s, "r")
		if err := s.Close(); err != nil {
			t.Errorf("Close of %q: %v", name, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 || entries[0].Name() != name {
			t.Errorf("Open(%q): got files %q, %v, want it alone", name, entries, err)
		}
	}
}

// TestTwoStores has two of them at work on one file, as two processes would.
func TestTwoStores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	stores := make([]*sqlite.Store, 4)
	var wg sync.WaitGroup
	for i := range stores { // the file is made by all at once
		wg.Go(func() {
			s, err := sqlite.Open(path, nil)
			if err != nil {
				t.Errorf("Open beside others: %v", err)
				return
			}
			stores[i] = s
			t.Cleanup(func() { s.Close() })
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	r := newRun(t, stores[0], "r")
	for i, s := range stores {
		wg.Go(func() {
			for range 20 {
				if _, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small}); err != nil {
					t.Errorf("Append by store %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	n := int64(0)
	for e, err := range store.Replay(t.Context(), stores[3], "r", 0) {
		if n++; err != nil || e.Seq != n {
			t.Fatalf("event %d: got %d, %v", n, e.Seq, err)
		}
	}
	if n != 80 {
		t.Errorf("got %d events, want 80", n)
	}
	if err := stores[0].Release(t.Context(), "r", "w", r.Epoch); err != nil {
		t.Fatal(err)
	}
	if _, err := stores[1].Claim(t.Context(), "r", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := stores[0].Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("Append after another store's claim: got %v, want %v", err, store.ErrFenced)
	}
}

func execAt(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open(sqlite.DriverName(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
}

// TestUpgrade: a store of the first version keeps what is in it, and gets what is new.
func TestUpgrade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	first, err := os.ReadFile(filepath.Join("migrations", "0001.sql"))
	if err != nil {
		t.Fatal(err)
	}
	execAt(t, path, string(first)+`;
		INSERT INTO approvals (file, server, hash, shown, by, trusted, at) VALUES ('f', 's', 'h', 'npx s', 'ada', 1, 0);
		PRAGMA application_id = 0x54525045; PRAGMA user_version = 1`)
	s := openAt(t, path, nil)
	if a, ok, err := s.Approved(t.Context(), "f", "s", "h"); err != nil || !ok || a.By != "ada" {
		t.Errorf("Approved: got %+v, %v, %v, want what was there", a, ok, err)
	}
	if err := s.SetPin(t.Context(), store.Pin{Source: "f", Server: "s", Tool: "t", Hash: "h"}); err != nil {
		t.Errorf("SetPin: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, nil)
	if p, ok, err := s.Pin(t.Context(), "f", "s", "t"); err != nil || !ok || p.Hash != "h" {
		t.Errorf("Pin after it was opened again: got %+v, %v, %v", p, ok, err)
	}
}

// TestUpgradeJobs: a queue of the schema before losses were counted keeps its jobs, and
// counts from then on.
func TestUpgradeJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	for v := 1; v <= 4; v++ {
		script, err := os.ReadFile(filepath.Join("migrations", fmt.Sprintf("%04d.sql", v)))
		if err != nil {
			t.Fatal(err)
		}
		execAt(t, path, string(script))
	}
	execAt(t, path, `
		INSERT INTO jobs (id, agent, key, batch, prompt, input, max_attempts, not_before, expires, timeout, hook, schedule, state, attempts,
			failures, run, result, error, cancelling, untold, created, updated, owner, epoch, lease, due)
		VALUES ('j', 'a', '', '', 'p', '', 0, -62135596800000000, -62135596800000000, 0, '', '', 'running', 3,
			2, 'j.3', '', '', 0, 0, 1, 1, 'dead', 7, 2, 1);
		PRAGMA application_id = 0x54525045; PRAGMA user_version = 4`)
	s := openAt(t, path, nil)
	list, err := s.ClaimJobs(t.Context(), "w", 5, time.Minute, []string{"a"})
	if err != nil || len(list) != 1 || !list[0].Lost || list[0].Failures != 2 || list[0].Losses != 0 || list[0].Epoch != 8 {
		t.Fatalf("ClaimJobs: got %+v, %v, want the job as it was", list, err)
	}
	u := store.JobUpdate{JobLease: store.JobLease{ID: "j", Epoch: 8}, Owner: "w", State: store.JobQueued, Lost: true}
	if _, err := s.UpdateJob(t.Context(), u); err != nil {
		t.Errorf("UpdateJob: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, nil)
	if j, err := s.Job(t.Context(), "j"); err != nil || j.Losses != 1 || j.Failures != 2 || j.Prompt != "p" {
		t.Errorf("Job after it was opened again: got %+v, %v, want one loss and two failures", j, err)
	}
}
