package agent

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Standing is the state of a run, for programs that look after many: see [Run.Observe].
type Standing struct {
	// Waiting is true if a question of the run, or of one that it has started, waits for
	// a human; or if a call waits for something that others have, see For.
	Waiting bool
	// For is the reason of a wait where no question is open, such as: an instance of server
	// "files" (4 of 4 in use).
	For string
	// Instance is the server of which a call waits for an instance, beside open questions, too; empty for
	// none. Such a call was not sent: see [Run.SuspendIdle].
	Instance string
	// Ended is true if the run has its outcome, or if no process works on it any more:
	// [Run.Wait] returns at once, or very soon.
	Ended bool
}

// standing counts the questions that are open in a tree of runs; it is that of the root.
type standing struct {
	mu   sync.Mutex         // guards all of it, and is held while f is called: the actors of all runs of the tree report, and f gets their reports in order without a goroutine
	open map[string]*record // the questions, and whose they are
	held map[string]heldUp  // the calls that wait before they are sent, by their keys; nil at first
	last Standing
	f    func(Standing) // nil for none
	log  *slog.Logger
}

// heldUp is a call that waits for an instance: its run, the server, and the reason in words.
type heldUp struct {
	of           *record
	server, what string
}

func (s *standing) observe(f func(Standing)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f = f
	s.tell()
}

// tell calls f, and never again after a panic. It is called under the lock.
func (s *standing) tell() {
	if s.f == nil {
		return
	}
	if _, err := actors.Guard(func() (struct{}, error) { s.f(s.last); return struct{}{}, nil }); err != nil {
		s.log.Error("the observer of a run panicked", "error", err)
		s.f = nil
	}
}

// update changes the standing, and reports the change.
func (s *standing) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Ended {
		return
	}
	before := s.last
	change()
	s.last.Waiting, s.last.For, s.last.Instance = len(s.open) > 0 || len(s.held) > 0, "", ""
	if len(s.held) > 0 {
		first := s.held[slices.Min(slices.Collect(maps.Keys(s.held)))]
		if s.last.Instance = first.server; len(s.open) == 0 {
			s.last.For = first.what
		}
	}
	if s.last != before {
		s.tell()
	}
}

// StalledRun is a run that waits for the store, which does not take its events at the
// moment: it is locked by another process, full, or out of reach. The run goes on by
// itself once the store takes them.
type StalledRun struct {
	ID    string
	Since time.Time
	Err   error // the store's
}

// stalls are the stalled runs of a runtime.
type stalls struct{ runs sync.Map } // of StalledRun by ID

func (s *stalls) add(r StalledRun) { s.runs.Store(r.ID, r) }

func (s *stalls) remove(id string) { s.runs.Delete(id) }

func (s *stalls) list() []StalledRun {
	out := []StalledRun{}
	for _, r := range s.runs.Range {
		out = append(out, r.(StalledRun))
	}
	slices.SortFunc(out, func(a, b StalledRun) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return out
}
