package runlog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// RunForked is the body of run.forked: the events before it are those of another run.
type RunForked struct {
	From    string `json:"from"`
	At      int64  `json:"at"` // number of the last event of that run
	Program string `json:"program,omitempty"`
	// Results are the keys of the calls whose results were replaced.
	Results []string `json:"results,omitempty"`
	Prompt  bool     `json:"prompt,omitzero"` // it was replaced
	Said    bool     `json:"said,omitzero"`   // a message was added
	// Carried is what that run has spent and the events before do not say; zero of a fork that goes on
	// from there by itself.
	Carried budget.Amount `json:"carried,omitzero"`
	// Limits are those of the fork of an imported run; nil of any other.
	Limits *Limits `json:"limits,omitzero"`
}

// Fork is a run that takes over the beginning of another one, and what is changed in it.
type Fork struct {
	From, Run string
	Nonce     string // the first part of the keys of its calls; empty keeps that of the other run, and counts all that it has spent
	Asks      string // ends the IDs of its questions, if it keeps the nonce
	At        int64  // number of the last event to take over; zero is all
	Program   string

	Prompt  string            // in place of the text of the prompt; empty keeps it
	Say     string            // to the model, at the end; empty is nothing
	Results map[string]string // what the model reads in place of the results of calls, by their keys
	Limits  func(*Limits)     // changes the limits; nil keeps them
	Today   Limits            // those of an imported run, before they are changed
}

// Events returns the events that the fork begins with, and the questions that are open in them.
// Entries are all events of the other run, in order; their bodies are changed.
//
// A call that was sent by event At is not made again: its result is taken over, also where it came
// later. Calls of which none was sent are decided again.
func (f *Fork) Events(entries []Entry) ([]Entry, []store.Ask, error) {
	if len(entries) == 0 {
		return nil, nil, fmt.Errorf("its journal has no events")
	}
	last := entries[len(entries)-1].Seq
	began, ok := entries[0].Body.(*RunStarted)
	if !ok || f.At < 0 || f.At > last {
		return nil, nil, fmt.Errorf("it has no event %d: want 1 to %d, or 0 for all", f.At, last)
	}
	var whole *State // for what it has spent, before its events are changed
	if began.Asks = ""; f.Nonce == "" {
		whole = StateOf(entries)
		f.Nonce, began.Asks = began.Nonce, f.Asks
	}
	kept, state := f.kept(entries, cmp.Or(f.At, last))
	if err := f.replace(kept, began); err != nil {
		return nil, nil, err
	}
	if f.Say != "" {
		if t := state.Turn; t != nil && !t.Over && len(t.wanted) > 0 && !t.answered() {
			return nil, nil, fmt.Errorf("after event %d the model waits for the results of its calls: a message can be added before them or after them", state.Seq)
		}
		kept = append(kept, Entry{Time: state.Time, Type: InputAddedType,
			Body: &InputAdded{Message: llm.Message{Role: llm.RoleUser, Content: mcp.Contents{mcp.Text(f.Say)}}, Why: AddedForked}})
	}
	forked := &RunForked{From: f.From, At: state.Seq, Program: f.Program,
		Results: slices.Sorted(maps.Keys(f.Results)), Prompt: f.Prompt != "", Said: f.Say != ""}
	if whole != nil {
		forked.Carried = whole.Spent.Plus(whole.Held()).Beyond(state.Spent)
		forked.Carried.Steps = 0 // a turn that is asked again is the same one
	}
	limits := began.limits()
	if kept[0].Imported {
		limits, forked.Limits = f.Today, &limits
	}
	if f.Limits != nil {
		f.Limits(&limits)
	}
	if forked.Limits == nil {
		began.limit(&limits)
	}
	kept = append(kept, Entry{Type: RunForkedType, Body: forked})
	return kept, f.rename(kept, began, state), nil
}

// answered reports whether all results of the turn are there.
func (t *TurnState) answered() bool {
	_, all := t.answers()
	return all
}

// StateOf folds events.
func StateOf(entries []Entry) *State {
	s := new(State)
	for i := range entries {
		s.Add(&entries[i])
	}
	return s
}

// kept returns the events that count in the fork, and their fold.
func (f *Fork) kept(entries []Entry, at int64) ([]Entry, *State) {
	n, _ := slices.BinarySearchFunc(entries, at+1, func(e Entry, seq int64) int { return cmp.Compare(e.Seq, seq) })
	s := StateOf(entries[:n])
	if t := s.Turn; t != nil && t.Result != nil && !t.Over && len(t.wanted) > 0 {
		if !slices.ContainsFunc(t.Calls, func(c *CallState) bool { return c.Sent }) {
			n = lastResult(entries[:n], t.N)
		}
		for s = StateOf(entries[:n]); len(s.Turn.Calls) > 0 && len(s.Turn.Calls) < len(s.Turn.wanted) && n < len(entries); n++ { // they were written together
			s.Add(&entries[n])
		}
	}
	dropped := f.dropped(entries[:n], s)
	kept := slices.DeleteFunc(slices.Concat(entries[:n], f.results(entries[n:], s)), func(e Entry) bool {
		switch e.Body.(type) {
		case *RunFinished, *RunEnding, *RunParked, *RunForked, *StopMet, *ToolRound: // what was sent is not sent again
			return true
		case *AskOpened, *AskSettled:
			q := s.asks[e.Key]
			return e.Imported || q == nil || q.Ask.Kind != AskKind && q.Settled == nil || dropped[e.Seq]
		}
		return dropped[e.Seq]
	})
	return kept, StateOf(kept)
}

// lastResult returns how many events there are up to the model's answer in a turn.
func lastResult(entries []Entry, turn int) int {
	for i, e := range slices.Backward(entries) {
		if b, ok := e.Body.(*ModelResult); ok && b.Turn == turn {
			return i + 1
		}
	}
	return len(entries)
}

// dropped returns the numbers of the events that the fork does without, since it comes to the same
// by itself: of a turn that has no result, and of a limit at which nothing has come of it.
func (f *Fork) dropped(entries []Entry, s *State) map[int64]bool {
	out, from := make(map[int64]bool), int64(0)
	var turn, limit int64 // where the last ones begin
	for _, e := range entries {
		switch b := e.Body.(type) {
		case *ModelIntent:
			turn = e.Seq
		case *LimitReached:
			if b == s.Limit {
				limit = e.Seq
			}
		}
	}
	t := s.Turn
	if t != nil && t.Result == nil {
		from = turn
	}
	if limit > 0 && (t == nil || t.Result == nil || !t.Intent.Last) {
		from = limit
	}
	for _, e := range entries {
		of := from > 0 && e.Seq >= from
		switch e.Body.(type) {
		case *ModelIntent, *ModelFailed, *LimitReached, *InputAdded:
			out[e.Seq] = of
		case *AskOpened, *AskSettled:
			q := s.asks[e.Key]
			out[e.Seq] = of && q != nil && q.Ask.Kind == AskLimit
		}
	}
	return out
}

// results returns the outcomes of the calls that were sent, from the events that came later, and
// what the run has seen by them.
func (f *Fork) results(later []Entry, s *State) (out []Entry) {
	done := make(map[string]bool)
	for _, c := range s.Calls {
		done[c.Key] = !c.Open()
	}
	for _, e := range later {
		_, tainted := e.Body.(*Tainted)
		result := e.Type == store.ToolResult || e.Type == store.ToolUnknown
		if c := s.calls[e.Key]; c == nil || !c.Sent || !tainted && (!result || done[e.Key]) {
			continue
		}
		e.Time = s.Time
		out = append(out, e)
		done[e.Key] = true
	}
	for _, c := range s.Calls {
		if c.Sent && !done[c.Key] {
			out = append(out, Entry{Seq: s.Seq, Time: s.Time, Type: store.ToolUnknown, Key: c.Key, Body: &ToolUnknown{Turn: c.Turn, CallID: c.CallID, Tool: c.Tool,
				Server: c.Server, Reason: "the run " + f.From + " has made the call, and this run is a fork of it"}})
		}
	}
	return out
}

// replace changes the prompt and the results.
func (f *Fork) replace(kept []Entry, began *RunStarted) error {
	began.Parent = ""
	if f.Prompt != "" {
		if len(began.Input) == 0 {
			return fmt.Errorf("it has no prompt that can be replaced")
		}
		began.Input = slices.Clone(began.Input)
		began.Input[len(began.Input)-1].Content = mcp.Contents{mcp.Text(f.Prompt)}
	}
	left := maps.Clone(f.Results)
	var keys []string
	for i := range kept {
		b, ok := kept[i].Body.(*ToolResult)
		if !ok {
			continue
		}
		keys = append(keys, kept[i].Key)
		if text, ok := f.Results[kept[i].Key]; ok {
			b.Result = &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(text)}}
			delete(left, kept[i].Key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		return fmt.Errorf("no call %q has a result by then; there are %s", key, cmp.Or(strings.Join(keys, ", "), "none"))
	}
	return nil
}

// rename gives calls and questions the keys of the fork, and returns the questions that are open.
func (f *Fork) rename(kept []Entry, began *RunStarted, s *State) (open []store.Ask) {
	own := func(key string) string {
		if rest, ok := strings.CutPrefix(key, began.Nonce+"-"); ok {
			return f.Nonce + "-" + rest
		}
		return key
	}
	for i := range kept {
		e := &kept[i]
		key := e.Key
		e.Seq, e.Key = int64(i+1), own(key)
		switch b := e.Body.(type) {
		case *AskOpened:
			b.Ask.ID, b.Ask.Run = own(b.Ask.ID), f.Run
			if q := s.asks[key]; began.Asks != "" && q != nil && q.Settled == nil { // that run has it, too
				if dot := strings.LastIndexByte(key, '.'); dot > 0 && s.calls[key] == nil {
					key = key[:dot]
				}
				b.Ask.ID = key + ".0-" + began.Asks
				e.Key = b.Ask.ID
				open = append(open, b.Ask)
			} else if q := s.asks[key]; q != nil && q.Settled == nil {
				open = append(open, b.Ask)
			}
		case *LimitRaised:
			if b.Account == Account(f.From) {
				b.Account = Account(f.Run)
			}
		case *RunResumed:
			for j := range b.Open {
				b.Open[j] = own(b.Open[j])
			}
		}
	}
	began.Nonce, began.Fork = f.Nonce, f.From
	return open
}
