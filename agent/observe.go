package agent

import (
	"log/slog"
	"maps"
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/store"
)

// Standing is how a run stands, for those who look after many: see [Run.Observe].
type Standing struct {
	// Waiting says that a question of the run, or of one that it has started, waits for
	// a human.
	Waiting bool
	// Ended says that the run has its outcome, or that nobody works on it any more:
	// [Run.Wait] returns at once, or very soon.
	Ended bool
}

// Observe calls f with how the run stands: once now, and at each change until it has
// ended. It takes no goroutine, so that any number of runs can wait. f is called from
// any goroutine, but not from two at once; it must not block, nor call methods of the
// run. Observe reports whether there will be a call: a run of another process, or of
// the past, can not be observed. A later Observe takes the place of the one before. An f
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
	mu   sync.Mutex         // held while f is called
	open map[string]*record // the questions, and whose they are
	last Standing
	f    func(Standing) // nil for nobody
	log  *slog.Logger
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
	s.last.Waiting = len(s.open) > 0
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

// noteAsks takes note of questions that were opened or settled.
func (r *record) noteAsks(entries []loop.Entry) {
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
		}
	}
}

// noteEnd takes note of the end of a run; its questions are nobody's any more.
func (r *record) noteEnd() {
	s := &r.root().standing
	s.update(func() {
		maps.DeleteFunc(s.open, func(_ string, of *record) bool { return of == r })
		if r.from == nil {
			s.last.Ended = true
		}
	})
}
