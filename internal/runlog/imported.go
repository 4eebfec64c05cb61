// imported.go: what a run goes on with of the events that another store has recorded, see [store.Run].Imported. That is
// its conversation. A file can say anything, so no decision of which it tells counts: no approval, no answer, no raised
// limit. Nor do its limits and costs, the settings of its program, what is said to be safe to make twice, and what a server
// is said to wait for. Whatever is not named here is left out, a field too.

package runlog

import (
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// defaultResult is the [RunStarted].MaxResult of an imported run, up to the limits of today.
const defaultResult = 100_000

// Limits are those of a run, as in [RunStarted]. Zero is no limit.
type Limits struct {
	Steps      int       `json:"steps"`
	Tokens     int       `json:"tokens,omitzero"`
	ToolCalls  int       `json:"toolCalls"`
	Cost       llm.Money `json:"cost,omitzero"`
	ModelCalls int       `json:"modelCalls,omitzero"`
	Depth      int       `json:"depth,omitzero"`
	OnLimit    string    `json:"onLimit,omitempty"`
	WallMS     int64     `json:"wallMs"`
	MaxResult  int       `json:"maxResult"`
}

func (b *RunStarted) limits() Limits {
	return Limits{b.Steps, b.Tokens, b.ToolCalls, b.Cost, b.ModelCalls, b.Depth, b.OnLimit, b.WallMS, b.MaxResult}
}

func (b *RunStarted) limit(l *Limits) {
	b.Steps, b.Tokens, b.ToolCalls, b.Cost, b.ModelCalls = l.Steps, l.Tokens, l.ToolCalls, l.Cost, l.ModelCalls
	b.Depth, b.OnLimit, b.WallMS, b.MaxResult = l.Depth, l.OnLimit, l.WallMS, l.MaxResult
}

// LimitTo gives an imported run the limits of a user of this store; nil does nothing.
func (s *State) LimitTo(l *Limits) {
	if l == nil || s.Started == nil {
		return
	}
	began := *s.Started
	began.limit(l)
	s.Started, s.Limited = &began, true
	s.Wall = time.Duration(l.WallMS) * time.Millisecond
}

// addImported takes in an event that another store has recorded.
func (s *State) addImported(e *Entry) {
	s.Imported, s.Time = true, e.Time
	switch b := e.Body.(type) {
	case *RunStarted:
		s.started(&RunStarted{Agent: b.Agent, Parent: b.Parent, Path: b.Path, Hash: b.Hash, Model: b.Model, System: b.System, Input: withoutState(b.Input),
			Schema: b.Schema, Nonce: b.Nonce, MaxResult: defaultResult, V: b.V, Program: b.Program, Fork: b.Fork, Asks: b.Asks})
		s.Seen.Untrusted = true // the author of the file has written all of it
	case *ModelIntent:
		if s.follows(b.Turn) {
			s.begin(&ModelIntent{Turn: b.Turn})
		}
	case *ModelResult:
		if s.follows(b.Turn) {
			s.result(&ModelResult{Turn: b.Turn, Message: llm.Message{Role: b.Message.Role, Content: b.Message.Content}, Thinking: b.Thinking, Finish: b.Finish, Model: b.Model, Spoilt: b.Spoilt})
		}
	case *ModelFailed:
		if t := s.Turn; t != nil && t.N == b.Turn {
			t.Failed, t.Lost = true, b.Lost
			if b.Lost {
				s.Steps = b.Turn - 1
			}
		}
	case *Tainted:
		s.Seen = Taint{Untrusted: true, Private: s.Seen.Private || b.Seen.Private}
	case *RunForked:
		s.Forked = &RunForked{From: b.From, At: b.At, Program: b.Program, Results: b.Results, Prompt: b.Prompt, Said: b.Said}
	case *RunDrifted: // it asks about more
		s.drifted(b)
	case *RunEnding:
		if s.Ending == nil {
			s.Ending = b
		}
	case *RunFinished:
		s.finished(b)
	case *ToolsListed, *InputAdded, *HistoryCut, *AgentChanged:
		s.addBetween(e)
	case *GuardActed:
		if b.Action == GuardRefused {
			s.addBetween(e)
		}
	default:
		s.addImportedCall(e)
	}
}

// follows reports whether a turn is the last one, or the next. A forged number would make room under the limit of steps.
func (s *State) follows(turn int) bool { return turn > 0 && (turn == s.Steps || turn == s.Steps+1) }

// addImportedCall takes in an event of a call. One that was only decided on is decided on anew, unless a person
// is still asked about it.
func (s *State) addImportedCall(e *Entry) {
	switch b := e.Body.(type) {
	case *ToolIntent:
		if s.intents == nil {
			s.intents = make(map[string]*ToolIntent)
		}
		s.intents[e.Key] = &ToolIntent{Turn: b.Turn, CallID: b.CallID, Tool: b.Tool, Server: b.Server, Hash: b.Hash, Arguments: b.Arguments}
	case *ToolDispatched:
		if c := s.importedCall(e.Key, b.Turn, b.CallID); c.Open() {
			c.Sent, c.SentAt = true, e.Time
		}
	case *ToolResult:
		c := s.importedCall(e.Key, b.Turn, b.CallID)
		c.Tool, c.Server, c.Done, c.Made, c.Shown = b.Tool, b.Server, true, b.Made, s.shown(b.CallID, b.Result)
		toolresult.Warn(c.Shown, b.Repeated)
		s.count(c)
	case *ToolUnknown:
		c := s.importedCall(e.Key, b.Turn, b.CallID)
		c.Tool, c.Server, c.Made, c.Shown = b.Tool, b.Server, true, s.shown(b.CallID, b.Shown())
		s.count(c)
	case *AskOpened:
		s.askedElsewhere(e.Key, b)
	case *AskSettled:
		s.settledElsewhere(e.Key)
	}
}

// importedCall returns a call of which another store tells that it was sent, or what came of it.
func (s *State) importedCall(key string, turn int, id string) *CallState {
	c := s.call(key, turn, id)
	c.Imported = true
	s.unask(c)
	s.intend(c)
	return c
}

// intend completes a call that another store has decided on.
func (s *State) intend(c *CallState) {
	if i := s.intents[c.Key]; i != nil && c.Intent == nil {
		c.Intent, c.Tool, c.Server = i, i.Tool, i.Server
	}
}

// unask forgets the question whether a call may be made.
func (s *State) unask(c *CallState) {
	if c.Approval != nil {
		delete(s.asks, c.Approval.Ask.ID)
		s.Asks = slices.DeleteFunc(s.Asks, func(q *Question) bool { return q == c.Approval })
		c.Approval = nil
	}
}

// askedElsewhere takes in a question whether a call may be made that was not sent: it can be answered here.
func (s *State) askedElsewhere(id string, b *AskOpened) {
	q, ok := ImportedAsk(&b.Ask)
	key := callOf(id, func(key string) bool { return s.intents[key] != nil })
	if !ok || key == "" || q.ID != id {
		return
	}
	i := s.intents[key]
	c := s.call(key, i.Turn, i.CallID)
	if c.Sent || !c.Open() {
		return
	}
	s.unask(c)
	s.intend(c)
	s.asked(id, &AskOpened{Ask: q})
}

// settledElsewhere forgets a question that was decided elsewhere, and the call with it.
func (s *State) settledElsewhere(id string) {
	q := s.asks[id]
	i := slices.IndexFunc(s.Calls, func(c *CallState) bool { return q != nil && c.Approval == q })
	if i < 0 {
		return
	}
	c := s.Calls[i]
	s.unask(c)
	same := func(other *CallState) bool { return other == c }
	delete(s.calls, c.Key)
	s.Calls = slices.DeleteFunc(s.Calls, same)
	if s.Turn != nil {
		s.Turn.Calls = slices.DeleteFunc(s.Turn.Calls, same)
	}
}

// callOf returns the key of the call that a question is about, empty for none: it is the question's ID, or
// what stands before its last point.
func callOf(id string, known func(key string) bool) string {
	if known(id) {
		return id
	}
	if dot := strings.LastIndexByte(id, '.'); dot > 0 && known(id[:dot]) {
		return id[:dot]
	}
	return ""
}

// ImportedAsk returns a question of an imported run as a person here is asked it: with nothing that is shown but its exact
// subject. There is none of another kind than [AskKind]: what they would give is not of a file.
func ImportedAsk(a *store.Ask) (store.Ask, bool) {
	var p ApprovalPayload
	if a.Kind != AskKind || jsonx.Unmarshal(a.Payload, &p) != nil {
		return store.Ask{}, false
	}
	return store.Ask{ID: a.ID, Run: a.Run, Kind: AskKind, Tool: p.Tool, Server: p.Server, Path: a.Path, Trust: "untrusted",
		Payload: a.Payload, Hash: a.Hash, Expires: a.Expires}, true
}

// Imported returns how many of the entries, which a run begins with, another store has recorded.
func Imported(entries []Entry) (n int64) {
	for i := range entries {
		if entries[i].Imported {
			n = int64(i + 1)
		}
	}
	return n
}
