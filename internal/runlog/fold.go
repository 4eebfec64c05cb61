package runlog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// State is the state of a run as its events tell it: the fold of them by [State.Add]. The
// zero value is that of a run without events. An event of an unknown type changes nothing. Of
// those that another store has recorded only the conversation counts: see imported.go.
type State struct {
	Seq      int64           // of the last event
	Time     time.Time       // likewise
	Started  *RunStarted     // nil before the first event
	Finished *RunFinished    // nil while the run has not ended
	Ending   *RunEnding      // how it ends, once that is decided and the end has to wait; nil else
	Forked   *RunForked      // nil of a run that is no fork, and of one that is not copied whole
	Agent    AgentChanged    // the agent that works: To, Path, Hash, Model and System of it
	HandOffs []string        // the tools that handed the conversation over, in order
	Listed   ToolsListed     // what the model may call
	Drifted  []string        // tools that are asked about, since they differ from what was recorded
	With     json.RawMessage // what the program that works, or has worked, on it has started it with
	Imported bool            // another store has recorded its first events
	Limited  bool            // it is imported, and has the limits of a user of this store

	// History is the conversation as the next turn shows it to the model, without the last
	// turn while that is open: see [State.Messages].
	History []llm.Message
	First   llm.Message // the first message as it came, without the note of a cut
	Cut     HistoryCut  // the last one, maybe of an earlier run; of it Dropped and Summary count
	Turn    *TurnState  // the last one; nil before the first
	Calls   []*CallState
	Asks    []*Question

	Outage   *Outage    // since when the model cannot be asked; nil unless the run was left for that, and no answer has come since
	Parked   *RunParked // how it was left; nil while a process works on it, or has died
	Progress int64      // number of the last answer of the model, result of a call that was made, or decision on a question

	Steps     int // turns begun
	ToolCalls int
	Usage     Usage         // of the run's own turns
	Spent     budget.Amount // with the costs beside them, without the runs that were started
	Raised    []LimitRaised
	Limit     *LimitReached // the last one; nil if it was raised, or the run went on
	StopMet   *StopMet

	NoMoreTools bool // the model has called tools in its last turn, and was told that it cannot

	Seen     Taint
	Repeats  Repeats
	Redos    int           // answers that were not of the form that was asked for
	Empties  int           // empty answers after which the model was asked again
	Cuts     int           // turns in a row, up to the last that was decided, that ended in the middle of a call
	Refusals int           // how often guards had the model answer again
	Wall     time.Duration // that is left of the run's time; exact where a turn begins, and else about

	calls map[string]*CallState
	asks  map[string]*Question
	holds int // of the wall clock

	intents map[string]*ToolIntent // of calls, that another store has recorded

	resumed     int64         // number of the last run.resumed
	resumedWall time.Duration // the wall time then

	refused *GuardActed // the answer that comes next
}

// Outage is a time in which the provider of the model cannot be asked.
type Outage struct {
	Since time.Time
	Class string // see [llm.Outage]
}

// TurnState is one turn of the model.
type TurnState struct {
	N       int
	Intent  ModelIntent
	Result  *ModelResult // nil while it is open, and of one that failed
	Failed  bool
	Lost    bool         // and it is asked again
	Refused *GuardActed  // by a guard; nil for an answer that was not refused
	Calls   []*CallState // that are decided
	Counted bool         // all of them have results, and [State].Repeats has seen them
	Over    bool         // what follows the turn has begun

	wanted []*mcp.ToolUseContent // the calls that its message asks for
}

// Open reports whether the model was asked and the journal does not know its answer.
func (t *TurnState) Open() bool { return t != nil && t.Result == nil && !t.Failed }

// Wanted returns the calls that the model has asked for in the turn.
func (t *TurnState) Wanted() []*mcp.ToolUseContent { return t.wanted }

// answers returns the results of the calls in the model's order, and whether all are there.
func (t *TurnState) answers() (mcp.Contents, bool) {
	out := make(mcp.Contents, 0, len(t.wanted))
	for _, use := range t.wanted {
		c := t.call(use.ID)
		if c == nil || c.Shown == nil {
			return nil, false
		}
		out = append(out, c.Shown)
	}
	return out, true
}

// call returns the call with an ID of the model's, nil for one that is not decided.
func (t *TurnState) call(id string) *CallState {
	i := slices.IndexFunc(t.Calls, func(c *CallState) bool { return c.CallID == id })
	if i < 0 {
		return nil
	}
	return t.Calls[i]
}

// CallState is one tool call.
type CallState struct {
	Key                  string
	Turn                 int
	CallID, Tool, Server string
	Intent               *ToolIntent // nil for a call that was refused
	Approval             *Question   // the last one; nil for none
	Outcome              *Question   // what came of it, since it was last sent; nil for none
	Anew                 bool        // Approval is of that time, too
	Asked                int         // questions about it or of it, besides the first approval
	Waits                string      // the reason of its wait before it is sent
	Sent                 bool        // it may have had its effect
	SentAt               time.Time   // for the last time
	Run                  string      // that it starts
	Task                 string      // that its server has made of it
	Round                *RoundState // the input that its server waits for; nil once the next round was sent
	Done                 bool        // it has a result
	Made                 bool        // and was neither refused nor declined
	Imported             bool        // another store has recorded all that is known of it
	NoRoom               bool        // and was refused for a limit
	Shown                *mcp.ToolResultContent
}

// RoundState is what a server wants to know before it carries out a call.
type RoundState struct {
	ToolRound
	Asks []*Question // of the round
}

// Open reports whether the call has neither a result nor an unknown outcome.
func (c *CallState) Open() bool { return c.Shown == nil }

// Traits are those of the call's tool; none before it was decided to make it.
func (c *CallState) Traits() Traits {
	if c.Intent == nil {
		return Traits{}
	}
	return c.Intent.Traits
}

// Starts reports whether the call may have started a run.
func (c *CallState) Starts() bool { return c.Sent && (c.Made || !c.Done) && c.Run != "" }

// Effect reports whether the call may have had an effect that it would have again: it was sent, was
// not declared safe to make twice, and starts no run, whose own calls count.
func (c *CallState) Effect() bool {
	return c.Sent && (c.Made || !c.Done) && c.Run == "" && (c.Intent == nil || !c.Intent.Safe)
}

// WaitsFor reports whether a question is one of a round that the server of a call waits for.
func (s *State) WaitsFor(q *Question) bool {
	return slices.ContainsFunc(s.Calls, func(c *CallState) bool { return c.Open() && c.Round != nil && slices.Contains(c.Round.Asks, q) })
}

// Question is an ask of a run.
type Question struct {
	Ask     store.Ask
	Settled *AskSettled // nil while it is open, as far as the journal knows
}

// Fold reads the whole journal of a run.
func Fold(ctx context.Context, j store.Journal, run string) (*State, error) {
	entries, err := Entries(ctx, j, run)
	if err != nil {
		return nil, err
	}
	return StateOf(entries), nil
}

// Add takes the next event in.
func (s *State) Add(e *Entry) {
	s.Seq = max(s.Seq, e.Seq)
	if e.Imported {
		s.addImported(e)
		return
	}
	s.pass(e)
	switch b := e.Body.(type) {
	case *RunStarted:
		s.started(b)
	case *ModelIntent:
		s.begin(b)
	case *ModelResult:
		s.result(b)
		s.charge(b.Usage, max(b.Attempts, 1), 1)
		s.Progress, s.Outage = e.Seq, nil
	case *ModelFailed:
		s.failed(b)
	case *Spent:
		s.Spent = s.Spent.Plus(budget.Amount{Tokens: b.Usage.Total(), Cost: b.Usage.Cost, ModelCalls: 1})
	case *AskOpened:
		s.asked(e.Key, b)
	case *AskSettled:
		if q := s.asks[e.Key]; q != nil {
			q.Settled = b
			if q.Ask.Kind == AskJob { // it goes on: an outage is as long as it lasts from here
				s.Outage = nil
			}
		}
		if b.Status != store.AskCancelled { // a question that was withdrawn may be asked again
			s.Progress = e.Seq
		}
	case *Tainted:
		s.Seen = b.Seen
	case *StopMet:
		s.StopMet = b
	case *RunFinished:
		s.Parked = nil
		s.finished(b)
	case *RunParked:
		s.Parked = b
		s.parked(e, b)
	case *RunResumed:
		s.LimitTo(b.Limits)
		s.Parked = nil
		s.resumed, s.resumedWall = e.Seq, s.Wall
		if len(b.With) > 0 {
			s.With = b.With
		}
	case *RunEnding:
		if s.Ending == nil { // the first reason counts
			s.Ending = b
		}
	case *RunForked:
		s.Forked, s.Spent = b, s.Spent.Plus(b.Carried)
		s.LimitTo(b.Limits)
	case *RunDrifted:
		s.drifted(b)
	default:
		s.addCall(e)
	}
}

// addCall takes in an event of a call, and what lies between two turns.
func (s *State) addCall(e *Entry) {
	switch b := e.Body.(type) {
	case *ToolIntent:
		c := s.call(e.Key, b.Turn, b.CallID)
		c.Intent, c.Tool, c.Server = b, b.Tool, b.Server
	case *ToolWaiting:
		if c := s.calls[e.Key]; c != nil {
			c.Waits = b.For
		}
	case *ToolDispatched:
		c := s.call(e.Key, b.Turn, b.CallID)
		if s.intend(c); !c.Sent {
			s.countCall(1)
		}
		c.Imported = false
		c.Sent, c.SentAt, c.Run, c.Waits, c.Outcome = true, e.Time, b.Run, "", nil
		c.Anew, c.Task, c.Round = false, "", nil
	case *ToolTask:
		if c := s.calls[e.Key]; c != nil {
			c.Task = b.Task
		}
	case *ToolRound:
		if c := s.calls[e.Key]; c != nil {
			c.Round = &RoundState{ToolRound: *b}
		}
	case *ToolResult:
		c := s.call(e.Key, b.Turn, b.CallID)
		if c.Sent && !b.Made { // it was not sent after all
			s.countCall(-1)
		}
		c.Tool, c.Server, c.Done, c.Made, c.NoRoom = b.Tool, b.Server, true, b.Made, b.NoRoom
		if b.Made {
			s.Progress = e.Seq
		}
		c.Shown = s.shown(b.CallID, b.Result)
		toolresult.Warn(c.Shown, b.Repeated)
		s.count(c)
	case *ToolUnknown:
		c := s.call(e.Key, b.Turn, b.CallID)
		c.Tool, c.Server, c.Made = b.Tool, b.Server, true
		c.Shown = s.shown(b.CallID, b.Shown())
		s.count(c)
	default:
		s.addBetween(e)
	}
}

// addBetween takes in an event between two turns.
func (s *State) addBetween(e *Entry) {
	switch b := e.Body.(type) {
	case *ToolsListed:
		s.Listed = *b
		s.close()
	case *GuardActed:
		if b.Action == GuardRefused && e.Key == "" {
			s.refused = b
		}
	case *InputAdded:
		s.added(b)
	case *HistoryCut:
		s.close()
		s.cut(b)
	case *AgentChanged:
		s.close()
		tool := ""
		if c := s.calls[e.Key]; c != nil {
			tool = c.Tool
		}
		s.Agent, s.HandOffs = *b, append(s.HandOffs, tool)
	case *LimitReached:
		s.Limit = b
		s.close()
	case *LimitRaised:
		s.Raised, s.Limit = append(s.Raised, *b), nil
	}
}

// pass counts the time that has passed since the event before. The clock of a run stands still
// while a person is waited for, and while no process works on it (TIME-05).
func (s *State) pass(e *Entry) {
	_, resumed := e.Body.(*RunResumed)
	_, forked := e.Body.(*RunForked)
	if s.holds <= 0 && !resumed && !forked && !s.Time.IsZero() {
		s.Wall -= max(e.Time.Sub(s.Time), 0)
	}
	s.Time = e.Time
	switch b := e.Body.(type) {
	case *AskOpened:
		if s.asks[e.Key] == nil {
			s.holds++
		}
	case *AskSettled:
		if q := s.asks[e.Key]; q != nil && q.Settled == nil {
			s.holds--
		}
	case *ToolWaiting:
		if c := s.calls[e.Key]; c != nil && c.Waits == "" && b.For != "" {
			s.holds++
		}
	case *ToolDispatched, *ToolResult, *ToolUnknown:
		if c := s.calls[e.Key]; c != nil && c.Waits != "" {
			s.holds--
			c.Waits = ""
		}
	case *ModelIntent:
		if b.WallLeftMS != 0 {
			s.Wall = time.Duration(b.WallLeftMS) * time.Millisecond
		}
	}
}

func (s *State) started(b *RunStarted) {
	s.Started, s.History, s.With = b, slices.Clip(b.Input), b.With
	s.Wall = time.Duration(b.WallMS) * time.Millisecond
	s.Agent = AgentChanged{To: b.Agent, Path: b.Path, Hash: b.Hash, Model: b.Model, System: b.System}
	if len(b.Input) > 0 {
		s.First, s.Cut = Uncut(b.Input[0])
	}
}

func (s *State) begin(b *ModelIntent) {
	if s.Turn.Open() { // an earlier version wrote nothing of a turn that failed
		s.Spent = s.Spent.Plus(s.Held())
	}
	s.close()
	if s.Turn, s.Steps, s.refused = (&TurnState{N: b.Turn, Intent: *b}), b.Turn, nil; !b.Last {
		s.Limit, s.NoMoreTools = nil, false
	}
}

// Held returns what is held for a turn that is open: it may have been spent.
func (s *State) Held() budget.Amount {
	if !s.Turn.Open() {
		return budget.Amount{}
	}
	held := s.Turn.Intent.Held
	if held == (budget.Amount{}) { // of an earlier version
		held = budget.Amount{Tokens: s.Turn.Intent.Reserved + s.Turn.Intent.MaxTokens}
	}
	held.ModelCalls, held.Steps = max(held.ModelCalls, 1), max(held.Steps, 1)
	return held
}

func (s *State) result(b *ModelResult) {
	if s.Turn == nil || s.Turn.N != b.Turn {
		s.begin(&ModelIntent{Turn: b.Turn})
	}
	t := s.Turn
	t.Result, t.Refused, s.refused = b, s.refused, nil
	for _, c := range b.Message.Content {
		if use, ok := c.(*mcp.ToolUseContent); ok {
			t.wanted = append(t.wanted, use)
		}
	}
}

func (s *State) failed(b *ModelFailed) {
	steps, calls := 1, max(b.Attempts, 1)
	if b.Unbilled {
		calls = 0
	}
	if t := s.Turn; t != nil {
		t.Failed, t.Lost = true, b.Lost
		if b.Class != "" && t.Intent.WallLeftMS != 0 { // the wait for the provider counts against no limit
			s.Wall = time.Duration(t.Intent.WallLeftMS) * time.Millisecond
		}
	}
	if b.Lost { // it is asked again, as the same turn
		steps, s.Steps = 0, b.Turn-1
	}
	s.charge(b.Usage, calls, steps)
}

// parked takes in that no process works on the run any more. Where nothing came of the time since it was resumed, but that
// there is an outage still, that time counts against no limit.
func (s *State) parked(e *Entry, b *RunParked) {
	if b.Class == "" {
		return
	}
	since := b.Since
	switch {
	case !since.IsZero():
	case s.Outage != nil:
		since = s.Outage.Since
	default:
		since = e.Time
	}
	s.Outage = &Outage{Since: since, Class: b.Class}
	if s.resumed > s.Progress {
		s.Wall = s.resumedWall
	}
}

func (s *State) charge(u Usage, calls, steps int) {
	s.Usage = s.Usage.Plus(u)
	s.Spent = s.Spent.Plus(budget.Amount{Tokens: u.Total(), Cost: u.Cost, ModelCalls: calls, Steps: steps})
}

func (s *State) countCall(n int) {
	s.ToolCalls += n
	s.Spent.ToolCalls += n
}

// call returns the call of a key. The first of a turn means that the turn was decided.
func (s *State) call(key string, turn int, id string) *CallState {
	c := s.calls[key]
	if c != nil {
		return c
	}
	c = &CallState{Key: key, Turn: turn, CallID: id}
	if s.calls == nil {
		s.calls = make(map[string]*CallState)
	}
	s.calls[key], s.Calls = c, append(s.Calls, c)
	t := s.Turn
	if t == nil || t.N != turn {
		return c
	}
	if t.Intent.Last {
		s.NoMoreTools = true
	} else if len(t.Calls) == 0 {
		if t.Refused != nil {
			s.Refusals++
		}
		if s.Cuts++; t.Result == nil || !CutCall(t.Result.Finish, t.Result.Spoilt) {
			s.Cuts = 0
		}
	}
	t.Calls = append(t.Calls, c)
	return c
}

// count has the turn of a call counted by [Repeats], once all its calls have results.
func (s *State) count(c *CallState) {
	t := s.Turn
	if t == nil || t.N != c.Turn || t.Counted || t.Intent.Last || len(t.Calls) < len(t.wanted) || slices.ContainsFunc(t.Calls, (*CallState).Open) {
		return
	}
	if results, all := t.answers(); all {
		t.Counted = true
		s.Repeats.See(t.wanted, results, func(i int) Traits { return t.call(t.wanted[i].ID).Traits() })
	}
}

func (s *State) shown(id string, r *mcp.CallToolResult) *mcp.ToolResultContent {
	limit := 0
	if s.Started != nil {
		limit = s.Started.MaxResult
	}
	if r == nil {
		r = new(mcp.CallToolResult)
	}
	return toolresult.ForModel(id, r, limit)
}

// asked takes in a question. One about a call has the call's key, or a beginning of its own
// that ends with a point.
func (s *State) asked(id string, b *AskOpened) {
	q := &Question{Ask: b.Ask}
	if s.asks == nil {
		s.asks = make(map[string]*Question)
	}
	s.asks[id], s.Asks = q, append(s.Asks, q)
	c := s.calls[id]
	if dot := strings.LastIndexByte(id, '.'); c == nil && dot > 0 {
		if c = s.calls[id[:dot]]; c != nil {
			c.Asked++
		}
	}
	switch {
	case c == nil:
	case b.Ask.Kind == AskKind:
		c.Approval, c.Anew = q, c.Sent
	case b.Ask.Kind == AskOutcome:
		c.Outcome = q
	case c.Round != nil && b.Ask.Kind != AskLogin:
		c.Round.Asks = append(c.Round.Asks, q)
	}
}

func (s *State) added(b *InputAdded) {
	if t := s.Turn; t != nil && t.Result != nil && !t.Over && len(t.wanted) == 0 &&
		(b.Why != AddedLast || len(t.Result.Message.Content) > 0) {
		s.say(t.Result.Message)
		t.Over = true
	}
	s.close()
	s.History = append(s.History, b.Message)
	switch b.Why {
	case AddedRedo:
		s.Redos++
	case AddedEmpty:
		s.Empties++
	case AddedRefused:
		s.Refusals++
	}
}

// close ends the last turn if it has calls and all results are there: what follows it has begun.
func (s *State) close() {
	t := s.Turn
	if t == nil || t.Over || t.Result == nil || len(t.wanted) == 0 {
		return
	}
	if answers, all := t.answers(); all {
		t.Over = true
		s.say(t.Result.Message, llm.Message{Role: llm.RoleUser, Content: answers})
	}
}

// say adds messages to the history. Models do not take an empty one.
func (s *State) say(messages ...llm.Message) {
	for _, m := range messages {
		if len(m.Content) == 0 {
			m.Content = mcp.Contents{mcp.Text("(no answer)")}
		}
		s.History = append(s.History, m)
	}
}

func (s *State) finished(b *RunFinished) {
	t := s.Turn
	answered := t != nil && t.Result != nil && !t.Over && len(t.wanted) == 0
	s.close()
	switch {
	case b.State == store.Finished && (t == nil || len(t.wanted) == 0): // it may be a guard's
		s.say(llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text(b.Text)}})
	case answered:
		s.say(t.Result.Message)
	}
	s.Finished = b
}

// Messages returns the conversation so far. What the last turn has left open is not in it.
func (s *State) Messages() []llm.Message {
	if answers, ok := s.Answered(); ok {
		return append(slices.Clip(s.History), s.Turn.Result.Message, answers)
	}
	return s.History
}

// Answered returns the results of the calls of the last turn, which the next one shows to the model, if all are there
// and no such turn has begun.
func (s *State) Answered() (results llm.Message, ok bool) {
	t := s.Turn
	if t == nil || t.Result == nil || t.Over || len(t.wanted) == 0 {
		return llm.Message{}, false
	}
	answers, all := t.answers()
	return llm.Message{Role: llm.RoleUser, Content: answers}, all
}

// cut leaves out what a cut has left out.
func (s *State) cut(b *HistoryCut) {
	if len(s.History) == 0 || b.Messages < 0 || 1+b.Messages > len(s.History) { // of another's making
		return
	}
	s.Cut = *b
	history := slices.Clone(s.History)
	for _, cut := range b.Results {
		for i := range history {
			history[i] = shortened(history[i], cut)
		}
	}
	history[0] = s.First
	if note := b.Note(); note != "" {
		history[0].Content = append(slices.Clip(history[0].Content), mcp.Text(note))
	}
	s.History = slices.Delete(history, 1, 1+b.Messages)
}

// shortened is a message whose result of one call was cut.
func shortened(m llm.Message, cut CutResult) llm.Message {
	for j, c := range m.Content {
		r, ok := c.(*mcp.ToolResultContent)
		if !ok || r.ToolUseID != cut.CallID {
			continue
		}
		m.Content = slices.Clone(m.Content)
		if m.Content[j] = toolresult.Mark(cut.Tool, cut.Bytes, r); cut.Kept > 0 {
			m.Content[j] = toolresult.Shorten(r, cut.Kept)
		}
	}
	return m
}

// Note is the note to the model on what stood behind the first message; empty for nothing.
func (b *HistoryCut) Note() string {
	if b.Dropped == 0 && b.Summary == "" {
		return ""
	}
	note := fmt.Sprintf(noteDropped, b.Dropped)
	if b.Summary != "" {
		note += noteSummary + b.Summary
	}
	return note
}

// The parts of a note.
const (
	noteDropped = "[%d earlier messages of this conversation, which stood here, were dropped to save room.]"
	noteSummary = "\nWhat was dropped, in short: "
)

// Uncut takes the note of a cut off the first message of a conversation, and returns the cut that it tells of. A run whose
// history was cut by an earlier run goes on with that cut: the next one replaces its note. A message without a note is
// returned as it is, with the zero cut. The note is always a block of its own, behind what was said.
func Uncut(first llm.Message) (llm.Message, HistoryCut) {
	last := len(first.Content) - 1
	if last < 1 {
		return first, HistoryCut{}
	}
	note, ok := first.Content[last].(*mcp.TextContent)
	if !ok {
		return first, HistoryCut{}
	}
	var c HistoryCut
	dropped, summary, _ := strings.Cut(note.Text, noteSummary)
	if _, err := fmt.Sscanf(dropped, noteDropped, &c.Dropped); err != nil {
		return first, HistoryCut{}
	}
	if c.Summary = summary; c.Note() != note.Text || c.Dropped < 0 {
		return first, HistoryCut{}
	}
	first.Content = slices.Clip(first.Content[:last])
	return first, c
}

// Decision returns the decision of a question that is settled.
func (q *Question) Decision() store.Decision {
	d := store.Decision{Status: q.Settled.Status, By: q.Settled.By, Scope: q.Settled.Scope, Answer: q.Settled.Answer}
	if len(d.Answer) == 0 {
		d.Answer = DeclineAnswer(q.Settled.Reason)
	}
	return d
}

// Shown is what the model reads of a call of unknown outcome.
func (b *ToolUnknown) Shown() *mcp.CallToolResult {
	return mcp.ErrorResult("The outcome of this call is unknown, it may have taken effect: %s", b.Reason)
}

// Approval returns the subject of a question about a call.
func (q *Question) Approval() (p ApprovalPayload) {
	if jsonx.Unmarshal(q.Ask.Payload, &p) != nil {
		return ApprovalPayload{}
	}
	return p
}
