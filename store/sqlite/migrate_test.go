package sqlite_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// TestMigrateToTrees: a store from before a job and its runs had one lease. testdata/schema8.db.gz was written by the
// program of 5ab16bb1 with a store whose clock stood in January 2025, by a runtime and a worker whose process was ended, and by
// calls of the store for what had been left by others. It was compressed with gzip -9.
//
// In it are the runs run-plain, which has finished; run-ask, which was suspended while it asked; run-hang and user.1, which were in
// a call; run-team, whose sub-agent asks; sub-orphan, whose parent has gone; and the jobs job-done and job-failed; job-parked, whose
// sub-agent asks, and whose run others had claimed since; job-hang and job-team, which were running, and job-ask, which waited, by a
// worker that was lost; job-lost, whose run was never begun, and has another in its place; job-late, which has
// failed once; and job-queued.
func TestMigrateToTrees(t *testing.T) {
	s := openAt(t, unpacked(t, "schema8.db.gz"), nil)
	if problems, err := s.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("Check: got %q, %v", problems, err)
	}
	ctx, old := t.Context(), "agent-d92dd19d-95a0-4f8c-9462-f22843f1eeb5"
	runs, err := s.Runs(ctx, store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	subs := make(map[string]string) // by their parents
	for _, r := range runs {
		if r.Parent != "" {
			subs[r.Parent] = r.ID
		}
	}
	const expired = "2025-01-15T12:01"
	for id, want := range map[string]struct {
		root, job, owner string
		epoch            int64
		expires          string
	}{
		"run-plain":          {"run-plain", "", "", 1, ""},
		"run-ask":            {"run-ask", "", "", 1, ""},
		"run-hang":           {"run-hang", "", old, 1, expired},
		"user.1":             {"user.1", "", old, 1, expired},
		"run-team":           {"run-team", "", old, 1, expired},
		subs["run-team"]:     {"run-team", "", old, 1, expired},
		"sub-orphan":         {"sub-orphan", "", "agent-dead", 1, expired},
		"job-done.1":         {"job-done.1", "job-done", "", 1, ""},
		"job-failed.1":       {"job-failed.1", "job-failed", "", 1, ""},
		"job-late.1":         {"job-late.1", "job-late", "", 1, ""},
		"job-parked.1":       {"job-parked.1", "job-parked", "", 3, ""},
		subs["job-parked.1"]: {"job-parked.1", "job-parked", "", 3, ""},
		"job-hang.1":         {"job-hang.1", "job-hang", "host-1-eb87ee1b", 2, expired},
		"job-team.1":         {"job-team.1", "job-team", "host-1-eb87ee1b", 2, expired},
		subs["job-team.1"]:   {"job-team.1", "job-team", "host-1-eb87ee1b", 2, expired},
		"job-ask.1":          {"job-ask.1", "job-ask", "host-1-eb87ee1b", 2, expired},
	} {
		i := slices.IndexFunc(runs, func(r store.Run) bool { return r.ID == id })
		if i < 0 {
			t.Errorf("%s is not there", id)
			continue
		}
		r := runs[i]
		expires := ""
		if !r.Expires.IsZero() {
			expires = r.Expires.Format("2006-01-02T15:04")
		}
		if r.Root != want.root || r.Job != want.job || r.Owner != want.owner || r.Epoch != want.epoch || expires != want.expires {
			t.Errorf("%s: got %+v, want %+v", id, r, want)
		}
	}
	if len(runs) != 16 {
		t.Errorf("got %d runs, want 16: the one in the place of another goes", len(runs))
	}
	for id, want := range map[string]struct {
		state store.JobState
		epoch int64
	}{"job-parked": {store.JobWaiting, 3}, "job-ask": {store.JobWaiting, 2}, "job-hang": {store.JobRunning, 2}, "job-lost": {store.JobRunning, 2},
		"job-late": {store.JobQueued, 2}, "job-queued": {store.JobQueued, 1}, "job-done": {store.JobDone, 2}} {
		if j, err := s.Job(ctx, id); err != nil || j.State != want.state || j.Epoch != want.epoch || j.From != "" || j.Progress != 0 {
			t.Errorf("%s: got %+v, %v, want %+v", id, j, err, want)
		}
	}
	goOn(t, s, subs)
}

// goOn has the trees of a migrated store go on.
func goOn(t *testing.T, s *sqlite.Store, subs map[string]string) {
	ctx := t.Context()
	write := func(run, owner string, epoch int64) error {
		_, err := s.Append(ctx, store.Append{Run: run, Owner: owner, Epoch: epoch, After: store.Unchecked, Events: small})
		return err
	}
	r, err := s.Claim(ctx, "run-team", "new", time.Minute)
	if err != nil || r.Epoch != 2 || write(subs["run-team"], "new", 2) != nil || write("run-team", "new", 2) != nil {
		t.Errorf("Claim: got %+v, %v", r, err)
	}
	asks, err := s.Asks(ctx, store.AskQuery{Run: subs["job-parked.1"], Status: store.AskPending})
	if err != nil || len(asks) != 1 {
		t.Fatalf("Asks: got %+v, %v", asks, err)
	}
	agents := []string{"a", "c", "d"}
	claim := func() (ids []string) {
		t.Helper()
		list, err := s.ClaimJobs(ctx, "new", 10, time.Minute, agents)
		for _, j := range list {
			ids = append(ids, j.ID)
			if j.ID == "job-lost" {
				_, e := s.Create(ctx, store.Run{ID: j.Run, Agent: "c", Job: j.ID, Epoch: j.Epoch}, "new", time.Minute)
				err = e
			} else if j.ID != "job-late" && write(j.Run, "new", j.Epoch) != nil {
				t.Errorf("%s cannot be written to", j.Run)
			}
			if sub := subs[j.Run]; sub != "" && write(sub, "new", j.Epoch) != nil {
				t.Errorf("%s cannot be written to", sub)
			}
		}
		if err != nil {
			t.Error(err)
		}
		slices.Sort(ids)
		return ids
	}
	if got := claim(); !slices.Equal(got, []string{"job-ask", "job-hang", "job-late", "job-lost", "job-team"}) {
		t.Errorf("ClaimJobs: got %q", got)
	}
	if _, err := s.SettleAsk(ctx, asks[0].ID, store.Decision{Status: store.AskAccepted}); err != nil {
		t.Error(err)
	}
	if got := claim(); !slices.Equal(got, []string{"job-parked"}) {
		t.Errorf("ClaimJobs after the answer: got %q", got)
	}
}

// TestMigrateImported: runs that were imported before stores marked them are found, with their forks. testdata/schema9.db.gz was
// written by the program of 6b334bed: mine was begun there and first, open and evil were imported, the last forged; f1, f2, minefork
// and gonefork are forks of first, f1, mine, and a run that was deleted. Open was imported two hours after it was begun, and was resumed once,
// so that it waits for an answer; first was imported within a minute.
func TestMigrateImported(t *testing.T) {
	s := openAt(t, unpacked(t, "schema9.db.gz"), nil)
	if problems, err := s.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("Check: got %q, %v", problems, err)
	}
	runs, err := s.Runs(t.Context(), store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"mine": 0, "minefork": 0, "first": 20, "open": 7, "evil": 9, "f1": 20, "f2": 24, "gonefork": 20}
	for _, r := range runs {
		if r.Imported != want[r.ID] {
			t.Errorf("%s: %d of %d events were imported, want %d", r.ID, r.Imported, r.Seq, want[r.ID])
		}
		delete(want, r.ID)
		for ev, err := range store.Replay(t.Context(), s, r.ID, 0) {
			if err != nil || ev.Imported != (ev.Seq <= r.Imported) {
				t.Fatalf("event %d of %s: got Imported %v, %v", ev.Seq, r.ID, ev.Imported, err)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("the runs %v are not there", want)
	}
	// The question of open is asked anew when it goes on.
	if asks, err := s.Asks(t.Context(), store.AskQuery{}); err != nil || len(asks) != 1 || asks[0].Run != "mine" {
		t.Errorf("the questions: got %+v, %v, want that of mine", asks, err)
	}
}

// unpacked returns the path of a copy of a compressed store in testdata.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
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
	write(t, path, raw)
	return path
}
