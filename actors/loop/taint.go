package loop

import (
	"sync"

	"github.com/troupe-dev/troupe/internal/runlog"
)

// TaintState is what a tree of runs has seen so far. Its zero value has seen nothing.
// Its methods may be called from any goroutine.
type TaintState struct {
	mu   sync.Mutex
	seen runlog.Taint
}

// Seen returns what was seen. Outbound is never set.
func (s *TaintState) Seen() runlog.Taint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Lethal reports whether both halves were seen: then nothing may go out unasked.
func (s *TaintState) Lethal() bool {
	seen := s.Seen()
	return seen.Untrusted && seen.Private
}

// add notes the result of a tool, and returns all that was seen.
func (s *TaintState) add(t runlog.Taint) runlog.Taint {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Untrusted = s.seen.Untrusted || t.Untrusted
	s.seen.Private = s.seen.Private || t.Private
	return s.seen
}

// taint notes what a call that was made has brought, and returns the event of it if
// that is news to the run: its own journal says what it knows, also if another run of
// the tree has seen it.
func (r *run) taint(cl *call) []runlog.Entry {
	seen := r.cfg.Taint.add(cl.tool.Taint)
	if seen == r.seen {
		return nil
	}
	r.seen = seen
	return []runlog.Entry{{Type: runlog.TaintedType, Key: cl.key, Body: &runlog.Tainted{Seen: seen, Tool: cl.name, Server: cl.tool.Server}}}
}

// outbound reports whether a call of the tool may carry out what must not get out.
func (r *run) outbound(t *Tool) bool { return t.Taint.Outbound && r.cfg.Taint.Lethal() }

// allowedForRun reports whether a human has allowed the call's tool for the rest of the
// run.
func (r *run) allowedForRun(cl *call) bool {
	if cl.again {
		return r.allowedAgain[cl.tool.Hash]
	}
	return r.allowed[cl.tool.Hash]
}
