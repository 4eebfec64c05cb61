package agent

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

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
	rt.stalls.mu.Lock()
	defer rt.stalls.mu.Unlock()
	_, ok := rt.stalls.runs[id]
	return ok
}

// stalls are the stalled runs of a runtime.
type stalls struct {
	mu   sync.Mutex
	runs map[string]StalledRun // by ID; nil before the first
}

func (s *stalls) add(r StalledRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = make(map[string]StalledRun)
	}
	s.runs[r.ID] = r
}

func (s *stalls) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, id)
}

func (s *stalls) list() []StalledRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]StalledRun, 0, len(s.runs))
	for _, r := range s.runs {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b StalledRun) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Stalled implements [loop.StallSink].
func (r *record) Stalled(err error) {
	r.stalls.add(StalledRun{ID: r.runID, Since: time.Now(), Err: err})
	r.pass(func(h Header) Event { return StoreStalled{h, err.Error()} })
}

// Resumed implements [loop.StallSink].
func (r *record) Resumed() {
	r.stalls.remove(r.runID)
	r.pass(func(h Header) Event { return StoreResumed{h} })
}
