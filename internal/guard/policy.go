package guard

import (
	"encoding/json"
	"iter"
	"sync/atomic"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
)

// Verdict is the decision of a policy on a call.
type Verdict uint8

// The verdicts. The zero value asks.
const (
	Ask Verdict = iota
	Allow
	Deny
	// AskAgain asks also where a human has allowed the tool for the rest of the run,
	// unless the answer was to such a question.
	AskAgain
)

// TurnInfo is a turn that is over: the model has spoken, and its calls have returned.
type TurnInfo struct {
	Run, Agent string
	Turn       int    // from one
	Text       string // what the model has said beside its calls
	Calls      iter.Seq[TurnCall]
}

// TurnCall is one call of a turn.
type TurnCall struct {
	Server, Tool string
	Arguments    json.RawMessage
	Made         bool                   // it was neither refused nor declined
	Result       *mcp.ToolResultContent // as the model sees it; not to be changed
}

// TaintState is what a tree of runs has seen so far. Its zero value has seen nothing.
// Its methods may be called from any goroutine.
type TaintState struct{ seen atomic.Uint32 }

const (
	seenUntrusted = 1 << iota
	seenPrivate
)

// Seen returns what was seen. Outbound is never set.
func (s *TaintState) Seen() runlog.Taint {
	seen := s.seen.Load()
	return runlog.Taint{Untrusted: seen&seenUntrusted != 0, Private: seen&seenPrivate != 0}
}

// Lethal reports whether both halves were seen: then nothing may go out unasked.
func (s *TaintState) Lethal() bool { return s.seen.Load() == seenUntrusted|seenPrivate }

// Add notes the result of a tool, and returns all that was seen.
func (s *TaintState) Add(t runlog.Taint) runlog.Taint {
	if t.Untrusted {
		s.seen.Or(seenUntrusted)
	}
	if t.Private {
		s.seen.Or(seenPrivate)
	}
	return s.Seen()
}
