package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

const (
	crashRuns  = 4
	crashKills = 10
)

// batch is the body of the events of one append: it tells whether all are there.
type batch struct{ First, I, Of int64 }

// appendForever appends to several runs at once, and prints what was
// acknowledged, until it is killed.
func appendForever(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(path, nil)
	if err != nil {
		return err
	}
	errs := make(chan error, crashRuns)
	var wg sync.WaitGroup
	for w := range crashRuns {
		wg.Go(func() { errs <- appendTo(ctx, s, fmt.Sprint("r", w)) })
	}
	return <-errs
}

func appendTo(ctx context.Context, s store.Store, id string) error {
	r, err := s.Create(ctx, store.Run{ID: id}, "w", time.Hour)
	if errors.Is(err, store.ErrExists) {
		r, err = s.Claim(ctx, id, "w", time.Hour)
	}
	for last := r.Seq; err == nil; {
		events := make([]store.Event, 1+rand.IntN(5))
		for i := range events {
			body, err := jsonx.Marshal(batch{last + 1, int64(i), int64(len(events))})
			if err != nil {
				return err
			}
			events[i] = store.Event{Type: store.ToolIntent, Body: body}
		}
		last, err = s.Append(ctx, store.Append{Run: id, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: events})
		if err == nil {
			fmt.Println(id, last)
		}
	}
	return err
}

// TestKill kills a writing process at random moments: nothing acknowledged is
// missing, no number is skipped, no append is there by half.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	acknowledged := map[string]int64{}
	for kill := range crashKills {
		killOnce(t, childCommand(t, "append", path), 1+rand.IntN(300), acknowledged)
		checkIntegrity(t, path)
		s, err := sqlite.Open(path, nil)
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		for id, last := range acknowledged {
			checkBatches(t, s, id, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("acknowledged over %d kills: %v", crashKills, acknowledged)
}

// killOnce lets a child run until it has printed some lines, and kills it. What
// it had printed until then counts too.
func killOnce(t *testing.T, cmd *exec.Cmd, lines int, acknowledged map[string]int64) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for in := bufio.NewScanner(out); in.Scan(); n++ {
		var id string
		var last int64
		if _, err := fmt.Sscan(in.Text(), &id, &last); err != nil {
			t.Errorf("line %q: %v", in.Text(), err)
		}
		acknowledged[id] = last
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || n < lines {
		t.Fatalf("the child ended by itself after %d lines: %v", n, err)
	}
}

func checkBatches(t *testing.T, s store.Store, id string, acknowledged int64) {
	t.Helper()
	var last, open int64
	for e, err := range store.Replay(t.Context(), s, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var b batch
		if err := json.Unmarshal(e.Body, &b); err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 || e.Seq != b.First+b.I {
			t.Fatalf("%s: event %d after %d says %+v", id, e.Seq, last, b)
		}
		last, open = e.Seq, b.Of-b.I-1
	}
	if open != 0 {
		t.Errorf("%s: the last append lacks %d events", id, open)
	}
	if last < acknowledged {
		t.Errorf("%s: got %d events, %d were acknowledged", id, last, acknowledged)
	}
	if r, err := s.Run(t.Context(), id); err != nil || r.Seq != last {
		t.Errorf("Run(%s): got last %d, %v, want %d", id, r.Seq, err, last)
	}
}

// checkIntegrity asks SQLite itself, before the store has seen the file again.
func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open(sqlite.DriverName(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity_check: got %q, %v, want ok", verdict, err)
	}
}
