package agent

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Standing is how a run stands, for those who look after many: see [Run.Observe].
type Standing struct {
	// Waiting says that a question of the run, or of one that it has started, waits for
	// a human; or that a call waits for what others have, see For.
	Waiting bool
	// For is what is waited for where no question is open, such as: an instance of server
	// "files" (4 of 4 in use).
	For string
	// Ended says that the run has its outcome, or that no process works on it any more:
	// [Run.Wait] returns at once, or very soon.
	Ended bool
}

// Observe calls f with how the run stands: once now, and at each change until it has
// ended. It takes no goroutine, so that any number of runs can wait. f is called from
// any goroutine, but not from two at once; it must not block, nor call methods of the
// run. Observe reports whether there will be a call: a run of another process, or of
// the past, cannot be observed. A later Observe takes the place of the one before. An f
// that panics is not called again.
func (r *Run) Observe(f func(Standing)) bool {
	if r.record == nil {
		return false
	}
	r.record.standing.observe(f)
	return true
}

// standing counts the questions that are open in a tree of runs; it is that of the root.
type standing struct {
	// mu guards all of it, and is held while f is called: runs of the whole tree report
	// from their own actors, and f gets their reports in order.
	mu   sync.Mutex
	open map[string]*record // the questions, and whose they are
	held map[string]heldUp  // the calls that wait before they are sent, by their keys; nil at first
	last Standing
	f    func(Standing) // nil for none
	log  *slog.Logger
}

// heldUp is what a call waits for, and whose it is.
type heldUp struct {
	of   *record
	what string
}

func (s *standing) observe(f func(Standing)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f = f
	s.tell()
}

// tell calls f, which hears no more if it panics. It is called under the lock.
func (s *standing) tell() {
	if s.f == nil {
		return
	}
	if _, err := actors.Guard(func() (struct{}, error) { s.f(s.last); return struct{}{}, nil }); err != nil {
		s.log.Error("who observes a run has panicked", "error", err)
		s.f = nil
	}
}

// update changes what is known, and tells of it.
func (s *standing) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Ended {
		return
	}
	before := s.last
	change()
	s.last.Waiting, s.last.For = len(s.open) > 0 || len(s.held) > 0, ""
	if len(s.held) > 0 && len(s.open) == 0 {
		s.last.For = s.held[slices.Min(slices.Collect(maps.Keys(s.held)))].what
	}
	if s.last != before {
		s.tell()
	}
}

// root returns the record of the run at the root of r's tree.
func (r *record) root() *record {
	for r.from != nil {
		r = r.from.by.run.record
	}
	return r
}

// noteAsks takes note of questions that were opened or settled, and of calls that wait.
func (r *record) noteAsks(entries []runlog.Entry) {
	s := &r.root().standing
	for i := range entries {
		switch e := &entries[i]; e.Type {
		case store.AskOpened:
			s.update(func() {
				if s.open == nil {
					s.open = make(map[string]*record)
				}
				s.open[e.Key] = r
			})
		case store.AskSettled:
			s.update(func() { delete(s.open, e.Key) })
		case runlog.ToolWaitingType:
			s.update(func() {
				if s.held == nil {
					s.held = make(map[string]heldUp)
				}
				s.held[e.Key] = heldUp{r, e.Body.(*runlog.ToolWaiting).For}
			})
		case store.ToolDispatched, store.ToolResult, store.ToolUnknown:
			s.update(func() { delete(s.held, e.Key) })
		}
	}
}

// noteEnd takes note of the end of a run; its questions are closed.
func (r *record) noteEnd() {
	s := &r.root().standing
	s.update(func() {
		maps.DeleteFunc(s.open, func(_ string, of *record) bool { return of == r })
		maps.DeleteFunc(s.held, func(_ string, h heldUp) bool { return h.of == r })
		if r.from == nil {
			s.last.Ended = true
		}
	})
}

// StalledRun is a run that waits for the store, which does not take its events at the
// moment: it is locked by another process, full, or out of reach. The run goes on by
// itself once the store takes them.
type StalledRun struct {
	ID    string
	Since time.Time
	Err   error // the store's
}

// Stalled returns the runs that wait for the store, the longest first.
func (rt *Runtime) Stalled() []StalledRun { return rt.stalls.list() }

// IsStalled reports whether the run with that ID waits for the store.
func (rt *Runtime) IsStalled(id string) bool {
	_, ok := rt.stalls.runs.Load(id)
	return ok
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

// Stalled implements [loop.Sink].
func (r *record) Stalled(err error) {
	r.stalls.add(StalledRun{ID: r.runID, Since: time.Now(), Err: err})
	r.pass(func(h Header) Event { return StoreStalled{h, err.Error()} })
}

// Resumed implements [loop.Sink].
func (r *record) Resumed() {
	r.stalls.remove(r.runID)
	r.pass(func(h Header) Event { return StoreResumed{h} })
}
