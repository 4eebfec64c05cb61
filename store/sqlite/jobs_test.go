package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
	"github.com/troupe-dev/troupe/store/storetest"
)

func BenchmarkJobs(b *testing.B) {
	storetest.BenchmarkJobs(b, func(b *testing.B) store.Store {
		return openAt(b, filepath.Join(b.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: sqlite.Normal})
	})
}

// TestClaimOfChangedJobs: between the look for jobs and their claim some are cancelled, claimed by
// another worker, or deleted and added again.
func TestClaimOfChangedJobs(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), nil)
	ctx := t.Context()
	large := strings.Repeat("x", store.MaxInput)
	ids := []string{"same", "cancelled", "again", "taken"}
	want := []string{"same"}
	for i := range store.MaxPageBytes/store.MaxInput + 2 { // more than a page has room for
		ids, want = append(ids, fmt.Sprint("large", i)), append(want, fmt.Sprint("large", i))
	}
	want = append(want, "again") // it was added last
	for _, id := range ids {
		j := store.Job{ID: id, Agent: "a", Prompt: "old"}
		if strings.HasPrefix(id, "large") {
			j.Prompt = large
		}
		if id == "taken" {
			j.Agent = "b"
		}
		if _, err := s.AddJob(ctx, j); err != nil {
			t.Fatal(err)
		}
	}
	entered, release := s.Block()
	<-entered
	waiting := 0
	done := make(chan error, 8)
	during := func(f func() error) {
		go func() { done <- f() }()
		waiting++
		waitQueued(t, s, waiting)
	}
	during(func() error { _, err := s.CancelJob(ctx, "cancelled"); return err })
	during(func() error { _, err := s.ClaimJobs(ctx, "other", 1, time.Minute, []string{"b"}); return err })
	during(func() error { return s.DeleteJob(ctx, "again") })
	during(func() error { _, err := s.AddJob(ctx, store.Job{ID: "again", Agent: "a", Prompt: "new"}); return err })
	var list []store.Job
	during(func() (err error) {
		list, err = s.ClaimJobs(ctx, "w", 100, time.Minute, []string{"a", "b"})
		return err
	})
	release()
	for range waiting {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	var got []string
	for _, j := range list {
		got = append(got, j.ID)
		kept, err := s.Job(ctx, j.ID)
		if err != nil || kept.Prompt != j.Prompt || kept.Owner != "w" || kept.Epoch != j.Epoch || !kept.Lease.Equal(j.Lease) || j.Lost || j.Attempts != 1 {
			t.Errorf("%s: got owner %q, epoch %d, attempt %d, a prompt of %d bytes, lost %v, %v; the store has owner %q, epoch %d, %d bytes",
				j.ID, j.Owner, j.Epoch, j.Attempts, len(j.Prompt), j.Lost, err, kept.Owner, kept.Epoch, len(kept.Prompt))
		}
		if j.ID == "again" && j.Prompt != "new" {
			t.Errorf("the job that was added again: got %q", j.Prompt)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("claimed: got %v, want %v", got, want)
	}
}

// TestClaimOfNothing: a worker without work does not write, and does not wait for the writer. Its queue
// ends with one look in a transaction.
func TestClaimOfNothing(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), nil)
	ctx := t.Context()
	claim := func(want int) {
		t.Helper()
		jobs, err := s.ClaimJobs(ctx, "w", 10, time.Minute, []string{"a", "b", "a"})
		if err != nil || len(jobs) != want {
			t.Errorf("got %d jobs, %v, want %d", len(jobs), err, want)
		}
	}
	idle := func() {
		t.Helper()
		entered, release := s.Block()
		<-entered
		claim(0)
		release()
	}
	for _, j := range []store.Job{{ID: "of another", Agent: "c"}, {ID: "later", Agent: "a", NotBefore: time.Now().Add(time.Hour)}} {
		if _, err := s.AddJob(ctx, j); err != nil {
			t.Fatal(err)
		}
	}
	if jobs, err := s.ClaimJobs(ctx, "lost", 1, time.Millisecond, []string{"c"}); err != nil || len(jobs) != 1 {
		t.Fatalf("got %d jobs, %v", len(jobs), err)
	}
	claim(0)
	idle()
	for i := range 12 {
		if _, err := s.AddJob(ctx, store.Job{ID: fmt.Sprint("j", i), Agent: string("ab"[i%2])}); err != nil {
			t.Fatal(err)
		}
	}
	claim(10)
	claim(2)
	claim(0)
	idle()
}
