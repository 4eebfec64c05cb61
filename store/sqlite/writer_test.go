package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

var (
	small = []store.Event{{Type: "small"}}
	big   = []store.Event{{Type: "big", Body: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}}
)

// waitQueued waits until that many writes wait for the writer.
func waitQueued(t *testing.T, s *sqlite.Store, n int) {
	t.Helper()
	for s.Queued() < n {
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
		runtime.Gosched()
	}
}

func newRun(t *testing.T, s store.Store, id string) store.Run {
	t.Helper()
	r, err := s.Create(t.Context(), store.Run{ID: id}, "w", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lock has another connection hold the lock of a store's file, as another process may, until unlock is called.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open(sqlite.DriverName(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := db.Exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWithdraw: what waits is taken back when its context ends, what has begun is not.
func TestWithdraw(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), nil)
	r := newRun(t, s, "r")
	entered, release := s.Block()
	<-entered
	cause := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := s.Append(ctx, store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small})
		got <- err
	}()
	waitQueued(t, s, 1)
	cancel(cause)
	if err := <-got; !errors.Is(err, cause) { // the writer is still blocked
		t.Errorf("Append withdrawn: got %v, want %v", err, cause)
	}
	release()
	if last, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small}); last != 1 || err != nil {
		t.Errorf("Append after one was withdrawn: got %d, %v, want 1", last, err)
	}
}

// TestQueueBound: a full queue makes callers wait, as long as they like.
func TestQueueBound(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), &sqlite.Options{Queue: 1})
	r := newRun(t, s, "r")
	entered, release := s.Block()
	<-entered
	got := make(chan error, 1)
	go func() {
		_, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small})
		got <- err
	}()
	waitQueued(t, s, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Append(ctx, store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Append to a full queue: got %v, want %v", err, context.DeadlineExceeded)
	}
	release()
	if err := <-got; err != nil {
		t.Errorf("the Append that waited: %v", err)
	}
	if r, err := s.Run(t.Context(), "r"); err != nil || r.Seq != 1 {
		t.Errorf("got %d events, %v, want 1", r.Seq, err)
	}
}

// TestCloseCommits: Close lets what was accepted finish.
func TestCloseCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	s := openAt(t, path, nil)
	const n = 20
	got := make(chan error, n)
	for i := range n {
		newRun(t, s, fmt.Sprint("r", i))
	}
	entered, release := s.Block()
	<-entered
	for i := range n {
		go func() {
			_, err := s.Append(context.Background(), store.Append{Run: fmt.Sprint("r", i), Owner: "w", Epoch: 1, After: store.Unchecked, Events: small})
			got <- err
		}()
	}
	waitQueued(t, s, n)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	release()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-got; err != nil {
			t.Errorf("Append queued before Close: %v", err)
		}
	}
	again := openAt(t, path, nil)
	for i := range n {
		if r, err := again.Run(t.Context(), fmt.Sprint("r", i)); err != nil || r.Seq != 1 {
			t.Errorf("run %d: got %d events, %v, want 1", i, r.Seq, err)
		}
	}
}

// TestLostConnection: the writer opens another one.
func TestLostConnection(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), nil)
	r := newRun(t, s, "r")
	for round := range 3 {
		if err := s.Break(); err == nil {
			t.Error("a commit on a closed connection: got no error")
		}
		last, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small})
		if err != nil || last != int64(round+1) {
			t.Errorf("Append after the connection was lost: got %d, %v, want %d", last, err, round+1)
		}
	}
}

// TestLocked: another process that holds the lock delays a write by a bounded
// time, and not its caller's context.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	impatient := openAt(t, path, &sqlite.Options{BusyTimeout: 10 * time.Millisecond})
	patient := openAt(t, path, &sqlite.Options{BusyTimeout: time.Minute})
	r := newRun(t, impatient, "r")
	more := store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small}

	unlock := lock(t, path)
	if _, err := impatient.Append(t.Context(), more); !errors.Is(err, store.ErrBusy) {
		t.Errorf("Append to a locked store: got %v, want %v", err, store.ErrBusy)
	}
	if got, err := impatient.Run(t.Context(), "r"); err != nil || got.Seq != 0 {
		t.Errorf("Run of a locked store: got %+v, %v, want no events", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := patient.Append(ctx, more); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Append that waits for the lock: got %v, want %v", err, context.DeadlineExceeded)
	}
	unlock()
	for i, s := range []store.Store{patient, impatient} { // in turn: the patient one may still be taking the lock
		if last, err := s.Append(t.Context(), more); err != nil || last != int64(i+1) {
			t.Errorf("Append after the lock: got %d, %v, want %d", last, err, i+1)
		}
	}
}

// TestLockedWritesWait: while another process holds the lock each write waits for it as
// long as it may, whatever became of those before it.
func TestLockedWritesWait(t *testing.T) {
	const busy = 200 * time.Millisecond
	path := filepath.Join(t.TempDir(), "troupe.db")
	s := openAt(t, path, &sqlite.Options{BusyTimeout: busy})
	r := newRun(t, s, "r")
	unlock := lock(t, path)
	var wg sync.WaitGroup
	failed := make(chan struct{}, 1)
	for refused := false; !refused; { // a new write every now and then, until the first is refused
		wg.Go(func() {
			began := time.Now()
			_, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small})
			if err == nil {
				return
			}
			if took := time.Since(began); !errors.Is(err, store.ErrBusy) || took < busy {
				t.Errorf("Append: got %v after %v, want it to wait for %v", err, took, busy)
			}
			select {
			case failed <- struct{}{}:
			default:
			}
		})
		select {
		case <-failed:
			refused = true
		case <-time.After(busy / 20):
		}
	}
	unlock()
	wg.Wait()
}

// TestIdleCheckpoint: a resting store has an empty log.
func TestIdleCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	s := openAt(t, path, sqlite.WithIdle(sqlite.Options{}, time.Millisecond))
	newRun(t, s, "r")
	for {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() == 0 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
		runtime.Gosched()
	}
	if r, err := s.Run(t.Context(), "r"); err != nil || r.ID != "r" {
		t.Errorf("Run after the checkpoint: got %+v, %v", r, err)
	}
}

// TestAnotherProcessChanges: what a store knows of a run it wrote does not outlast what another process
// does to it, even where another run gets the place of a deleted one.
func TestAnotherProcessChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	s, other := openAt(t, path, nil), openAt(t, path, nil)
	r := newRun(t, s, "r")
	add := func(epoch, after, want int64, wantErr error) {
		t.Helper()
		last, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: epoch, After: after, Events: small})
		if last != want || !errors.Is(err, wantErr) {
			t.Errorf("Append: got %d, %v, want %d, %v", last, err, want, wantErr)
		}
	}
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add(r.Epoch, 0, 1, nil)
	_, err := other.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 1, Events: small})
	try(err)
	add(r.Epoch, 1, 2, nil) // the same events
	_, err = other.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 2, Events: big})
	try(err)
	add(r.Epoch, 2, 0, store.ErrConflict)
	try(other.Release(t.Context(), "r", "w", r.Epoch))
	add(r.Epoch, 3, 0, store.ErrFenced)
	taken, err := other.Claim(t.Context(), "r", "w", time.Hour)
	try(err)
	add(r.Epoch, 3, 0, store.ErrFenced)
	add(taken.Epoch, 3, 4, nil)
	_, err = other.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: taken.Epoch, After: 4, State: store.Finished})
	try(err)
	add(taken.Epoch, 4, 0, store.ErrFinished)
	try(other.Delete(t.Context(), "r"))
	add(taken.Epoch, 4, 0, store.ErrNotFound)
	newRun(t, other, "in its place")
	add(taken.Epoch, 0, 0, store.ErrNotFound)
	again := newRun(t, other, "r")
	add(taken.Epoch, 0, 0, store.ErrFenced)
	add(again.Epoch, 0, 1, nil)
	if got, err := s.Run(t.Context(), "in its place"); err != nil || got.Seq != 0 {
		t.Errorf("the run in its place: got %d events, %v, want 0", got.Seq, err)
	}
	if found, err := s.Create(t.Context(), store.Run{ID: "r", Agent: "a"}, "w", time.Hour, small...); !errors.Is(err, store.ErrExists) || found.Epoch != again.Epoch || found.Seq != 1 {
		t.Errorf("Create of a run of the other process: got epoch %d, %d events, %v", found.Epoch, found.Seq, err)
	}
	_, err = other.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: again.Epoch, After: 1, State: store.Finished})
	try(err)
	try(other.Delete(t.Context(), "r"))
	if above := newRun(t, s, "r"); above.Epoch != again.Epoch+1 {
		t.Errorf("a run after that of the other process: got epoch %d, want %d", above.Epoch, again.Epoch+1)
	}
	if faults, err := s.Check(t.Context()); err != nil || faults != nil {
		t.Errorf("Check: got %q, %v", faults, err)
	}
}

// TestAnotherProcessDeletes: a job that is added where another process has deleted one has a higher epoch.
func TestAnotherProcessDeletes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	s, other := openAt(t, path, nil), openAt(t, path, nil)
	add := func(id, key string, want error) store.Job {
		t.Helper()
		j, err := s.AddJob(t.Context(), store.Job{ID: id, Key: key, Agent: "a", Prompt: id})
		if !errors.Is(err, want) {
			t.Errorf("adding %s: got %v, want %v", id, err, want)
		}
		return j
	}
	first := add("j", "key", nil)
	if _, err := other.ClaimJobs(t.Context(), "w", 1, time.Hour, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	held, err := other.Job(t.Context(), "j")
	if err != nil || held.Epoch != first.Epoch+1 {
		t.Fatalf("the claimed job: got epoch %d, %v", held.Epoch, err)
	}
	if got := add("j", "", store.ErrRepeated); got.Epoch != held.Epoch {
		t.Errorf("the job that is there: got epoch %d, want %d", got.Epoch, held.Epoch)
	}
	add("of the same key", "key", store.ErrExists)
	if _, err := other.UpdateJob(t.Context(), store.JobUpdate{JobLease: store.JobLease{ID: "j", Epoch: held.Epoch}, Owner: "w", State: store.JobDone}); err != nil {
		t.Fatal(err)
	}
	if err := other.DeleteJob(t.Context(), "j"); err != nil {
		t.Fatal(err)
	}
	if again := add("j", "key", nil); again.Epoch != held.Epoch+1 {
		t.Errorf("the job that was added again: got epoch %d, want %d", again.Epoch, held.Epoch+1)
	}
}

// TestManyEvents: the events of an append are in order however many there are, with what each carries.
func TestManyEvents(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), nil)
	r := newRun(t, s, "r")
	var all []store.Event
	for n := range 20 {
		var events []store.Event
		for i := range n {
			e := store.Event{Type: fmt.Sprint("t", i), Key: fmt.Sprint(n), Time: store.Clock(time.Unix(int64(n), int64(i)*1000))}
			if i%3 > 0 {
				e.Body = json.RawMessage(fmt.Sprintf(`{"n": %d, "é": %q}`, i, strings.Repeat("ü", i*i*30)))
			}
			events = append(events, e)
		}
		last, err := s.Append(t.Context(), store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: int64(len(all)), Events: events})
		if all = append(all, events...); err != nil || last != int64(len(all)) {
			t.Fatalf("Append of %d events: got %d, %v, want %d", n, last, err, len(all))
		}
	}
	i := 0
	for e, err := range store.Replay(t.Context(), s, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		want := all[i]
		i++
		want.Run, want.Seq, want.Epoch = "r", int64(i), r.Epoch
		if !reflect.DeepEqual(e, want) {
			t.Fatalf("event %d: got %+v, want %+v", i, e, want)
		}
	}
	if i != len(all) {
		t.Errorf("got %d events, want %d", i, len(all))
	}
}

func TestSettings(t *testing.T) {
	for mode, want := range map[sqlite.Synchronous]int{sqlite.Full: 2, sqlite.Normal: 1} {
		s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: mode})
		for query, want := range map[string]int{"PRAGMA synchronous": want, "PRAGMA busy_timeout": 5000} {
			if got, err := s.Int(query); err != nil || got != want {
				t.Errorf("%s: got %d, %v, want %d", query, got, err, want)
			}
		}
	}
}
