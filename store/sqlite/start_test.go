package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// started is the outcome of an append that was only started.
type started struct {
	i    int
	last int64
	err  error
}

// start starts one append to a run, and sends its outcome.
func start(s *sqlite.Store, i int, r store.Run, events []store.Event, out chan<- started) {
	s.StartAppend(store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: events},
		func(last int64, err error) { out <- started{i, last, err} })
}

// TestStartBound: appends that are started do not wait; too many of them are refused, and may be tried again.
func TestStartBound(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), &sqlite.Options{Queue: 1})
	r := newRun(t, s, "r")
	entered, release := s.Block()
	<-entered
	const room = 64
	out := make(chan started, room+1)
	for i := range room {
		start(s, i, r, small, out)
	}
	start(s, room, r, small, out)
	if got := <-out; got.i != room || !store.Passing(got.err) {
		t.Errorf("StartAppend to a full queue: got %+v, want an error that passes", got)
	}
	release()
	for i := range room {
		if got := <-out; got != (started{i, int64(i + 1), nil}) {
			t.Errorf("append %d: got %+v", i, got)
		}
	}
	start(s, room, r, small, out)
	if got := <-out; got != (started{room, room + 1, nil}) {
		t.Errorf("StartAppend with room again: got %+v", got)
	}
}

// TestCloseEndsChain: Close ends a chain of writes, each of which is started as the one before it ends.
func TestCloseEndsChain(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), nil)
	r := newRun(t, s, "r")
	running, ended := make(chan struct{}), make(chan error, 1)
	var next func(last int64, err error)
	next = func(last int64, err error) {
		if last == 10 {
			close(running)
		}
		if err != nil {
			ended <- err
			return
		}
		s.StartAppend(store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: small}, next)
	}
	next(0, nil)
	<-running
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		t.Errorf("the last append: got %v, want ErrClosed", err)
	}
}

// TestStartedCloseCommits: Close lets what was started finish, and waits for it.
func TestStartedCloseCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	s := openAt(t, path, nil)
	r := newRun(t, s, "r")
	entered, release := s.Block()
	<-entered
	const n = 1000 // more than a commit takes
	out := make(chan started, n)
	for i := range n {
		start(s, i, r, small, out)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	release()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if len(out) != n {
		t.Errorf("%d of %d appends have ended when Close returns", len(out), n)
	}
	for i := range n {
		if got := <-out; got != (started{i, int64(i + 1), nil}) {
			t.Errorf("append %d: got %+v", i, got)
		}
	}
	if r, err := openAt(t, path, nil).Run(t.Context(), "r"); err != nil || r.Seq != n {
		t.Errorf("got %d events, %v, want %d", r.Seq, err, n)
	}
}

// TestStartedFull: of the appends of one commit only those fail that have no room, or are refused.
func TestStartedFull(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), nil)
	var runs []store.Run
	for i := range 9 {
		runs = append(runs, newRun(t, s, fmt.Sprint("r", i)))
	}
	pages, err := s.Int("PRAGMA page_count")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Int(fmt.Sprintf("PRAGMA max_page_count = %d", pages+20)); err != nil {
		t.Fatal(err)
	}
	entered, release := s.Block()
	<-entered
	out := make(chan started, len(runs))
	wants := make([]error, len(runs))
	for i, r := range runs {
		events := small
		switch i % 3 {
		case 1:
			events, wants[i] = big, store.ErrFull
		case 2:
			r.Epoch++
			wants[i] = store.ErrFenced
		}
		start(s, i, r, events, out)
	}
	release()
	for range runs {
		got := <-out
		if want := wants[got.i]; !errors.Is(got.err, want) || got.last != map[bool]int64{true: 1}[want == nil] {
			t.Errorf("append %d: got %d, %v, want error %v", got.i, got.last, got.err, want)
		}
	}
}

// TestStartedLocked: while another process holds the lock an append that was started waits as long
// as others do; those that were started behind it come behind it.
func TestStartedLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	s := openAt(t, path, &sqlite.Options{BusyTimeout: 10 * time.Millisecond})
	r := newRun(t, s, "r")
	unlock := lock(t, path)
	const n = 5
	out := make(chan started, n)
	for i := range n {
		start(s, i, r, small, out)
	}
	for i := range n {
		if got := <-out; got.i != i || got.last != 0 || !errors.Is(got.err, store.ErrBusy) || !store.Passing(got.err) {
			t.Errorf("append %d to a locked store: got %+v, want %v", i, got, store.ErrBusy)
		}
	}
	unlock()
	for i := range n {
		start(s, i, r, small, out)
	}
	for i := range n {
		if got := <-out; got != (started{i, int64(i + 1), nil}) {
			t.Errorf("append %d after the lock: got %+v", i, got)
		}
	}
}

// TestStartedLostConnection: the appends of a commit whose connection is lost are made one by one.
func TestStartedLostConnection(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), nil)
	r := newRun(t, s, "r")
	entered, release := s.Block()
	<-entered
	out := make(chan started, 3)
	start(s, 0, r, small, out)
	broken := make(chan error, 1)
	go func() { broken <- s.Break() }()
	waitQueued(t, s, 2)
	start(s, 1, r, small, out)
	start(s, 2, r, small, out)
	release()
	if err := <-broken; err == nil {
		t.Error("a commit on a closed connection: got no error")
	}
	for i := range 3 {
		if got := <-out; got != (started{i, int64(i + 1), nil}) {
			t.Errorf("append %d: got %+v", i, got)
		}
	}
}

// TestStartedClaimIsLast: a claim is made behind the other writes of its commit, also where each gets a commit of its
// own in the end.
func TestStartedClaimIsLast(t *testing.T) {
	for _, spoilt := range []bool{false, true} {
		s := openAt(t, filepath.Join(t.TempDir(), "troupe.db"), sqlite.WithGather(time.Hour))
		r := newRun(t, s, "r")
		entered, release := s.Block()
		<-entered
		added := make(chan error, 1)
		places := 0
		claimed := make(chan []store.Job, 1)
		s.StartClaim(store.Claim{Owner: "w", TTL: time.Minute, Agents: []string{"a"}, Places: func() int { return places }},
			func(jobs []store.Job, err error) {
				if err != nil {
					t.Errorf("StartClaim: %v", err)
				}
				claimed <- jobs
			})
		broken := make(chan error, 1)
		if spoilt {
			go func() { broken <- s.Break() }()
			waitQueued(t, s, 2)
		}
		s.StartAdd(store.Job{ID: "j", Agent: "a", Prompt: "go"}, func(_ store.Job, err error) { added <- err })
		out := make(chan started, 1)
		start(s, 0, r, small, out)
		places = 2
		release()
		if jobs := <-claimed; len(jobs) != 1 || jobs[0].ID != "j" {
			t.Errorf("spoilt %v: claimed %v, want the job that was added behind", spoilt, jobs)
		}
		if err := <-added; err != nil {
			t.Errorf("StartAdd: %v", err)
		}
		if got := <-out; got != (started{0, 1, nil}) {
			t.Errorf("append: got %+v", got)
		}
		if spoilt {
			<-broken
		}
	}
}
