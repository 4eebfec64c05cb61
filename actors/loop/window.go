package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// maxSummary bounds what is said of messages that were left out, in bytes; a small
// model has an eighth of what it takes for it.
const maxSummary = 8 << 10

// window is what a run has left out of its conversation so that the model can take it.
// The journal has all of it.
type window struct {
	left     *leftOut // nil before anything was
	estimate int      // of the turn that is asked for, in tokens
	scale    float64  // by how much the model counts more than is estimated; zero before it has
	squeezed int      // the turn that was asked for again because it was too much
}

// leftOut is what is missing of a conversation.
type leftOut struct {
	first   llm.Message // the first message as it came
	dropped int         // messages behind it that were left out
	summary string      // of them, and of results
}

// measure learns how the model counts, from a turn that it has counted.
func (w *window) measure(u llm.Usage) {
	if !u.Estimated && u.Input > 0 && w.estimate > 0 {
		w.scale = min(max(float64(u.Input)/float64(w.estimate), 1), 4)
	}
}

// limit is how many tokens a request may be estimated at: what the model takes without
// room for an answer. Zero means that it is not known.
func (w *window) limit(cfg *config) int {
	if cfg.Context <= 0 {
		return 0
	}
	room := min(cfg.MaxTokens, cfg.Context/2)
	if room <= 0 {
		room = min(4096, cfg.Context/4)
	}
	return w.scaled(cfg.Context - room)
}

// scaled is how much may be estimated where the model takes n.
func (w *window) scaled(n int) int { return max(int(float64(n)/max(w.scale, 1)), 1) }

// prepared is a message to itself: the next turn's request is ready.
type prepared struct {
	cut    *cut // nil where all of the conversation fits
	req    *llm.Request
	guards guard.Outcome
	before []runlog.Entry
	err    error
}

// prepare makes the next turn fit the model, and shows it to the guards.
func (r *run) prepare(c *actors.Context, before ...runlog.Entry) {
	turn := 1
	if r.turn != nil {
		turn = r.turn.n + 1
	}
	req := r.request()
	cut := r.cut(req, turn)
	if cut == nil && !guard.BeforeModel.Guarded(r.cfg.Guards) {
		r.think(c, before...)
		return
	}
	r.prepareCut(c, turn, req, cut, before)
}

// prepareCut does so in a task.
func (r *run) prepareCut(c *actors.Context, turn int, req *llm.Request, cut *cut, before []runlog.Entry) {
	r.state = (*run).preparing
	cfg, payer := r.cfg, purse{r.spend, c.Self()}
	actors.Await(c, func(ctx context.Context) (prepared, error) {
		if cut != nil {
			cut.summarise(context.WithValue(ctx, spendingKey{}, payer), cfg)
			req.Messages = cut.messages
			cut.body.After = llm.EstimateTokens(req)
		}
		v, g := guard.BeforeModel.Pass(ctx, cfg.Guards, cfg.guardTurn(turn, req), validTurn)
		return prepared{cut: cut, req: v.Request, guards: g, before: before}, nil
	}, func(m prepared, err error) any { m.err = err; return m })
}

// guardTurn is a request as guards see it.
func (c *config) guardTurn(turn int, req *llm.Request) guard.Turn {
	return guard.Turn{Run: c.ID, Agent: c.Agent, Turn: turn, Request: req}
}

// validTurn refuses a changed request that no model would take.
func validTurn(v *guard.Turn) error {
	if v.Request == nil {
		return errors.New("there is no request")
	}
	return v.Request.Validate()
}

func (r *run) preparing(c *actors.Context, msg any) {
	m, ok := msg.(prepared)
	switch {
	case !ok:
		return
	case m.err != nil:
		r.failed(c, fmt.Errorf("preparing the next turn: %w", m.err))
		return
	}
	entries := m.before
	if m.cut != nil {
		entries = append(entries, r.window.take(m.cut))
		r.history = slices.Clip(m.cut.messages)
	}
	entries = append(entries, m.guards.Entries("")...)
	switch {
	case m.guards.Stop != nil:
		r.write(c, nil, entries...)
		r.failed(c, m.guards.Stop)
	case m.guards.Refused != "" && r.cfg.Check != nil:
		r.write(c, nil, entries...)
		r.failed(c, m.guards.Last(m.guards.Acted[len(m.guards.Acted)-1].Text))
	case m.guards.Refused != "":
		r.write(c, nil, entries...)
		r.end(c, Outcome{State: store.Finished, Stop: runlog.StopGuard, Text: m.guards.Refused})
	default:
		r.prepared = m.req
		r.think(c, entries...)
	}
}

// squeeze asks for a turn again that the model found too long, with half of it. It
// reports whether that makes sense: once for each turn, and if there is something to
// leave out.
func (r *run) squeeze(c *actors.Context) bool {
	w := &r.window
	if w.squeezed != 0 && w.squeezed == r.turn.n-1 {
		return false
	}
	w.squeezed = r.turn.n
	req := r.request()
	cut := r.cut(req, r.turn.n+1)
	if cut == nil {
		return false
	}
	r.prepareCut(c, r.turn.n+1, req, cut, nil)
	return true
}

// cut is what a conversation loses.
type cut struct {
	body     runlog.HistoryCut
	first    llm.Message   // as it came
	messages []llm.Message // what is left
	lost     []llm.Message // messages that were left out, or lost results, as they were
	room     int           // bytes of a summary
}

// take notes what was left out, and returns the event of it.
func (w *window) take(c *cut) runlog.Entry {
	w.left, w.estimate = &leftOut{c.first, c.body.Dropped, c.body.Summary}, c.body.After
	return runlog.Entry{Type: runlog.HistoryCutType, Body: &c.body}
}

// cut finds what the next turn has to do without; nil if it fits as it is. It does not
// change the history: what models were given before is theirs.
func (r *run) cut(req *llm.Request, turn int) *cut {
	w := &r.window
	limit, forced := w.limit(r.cfg), w.squeezed != 0 && w.squeezed == turn-1
	if limit == 0 && !forced {
		return nil
	}
	total := llm.EstimateTokens(req)
	w.estimate = total
	target := limit / 4 * 3 // else something would be left out before each turn
	if forced {
		limit = total / 2
		target = limit
	}
	if total <= limit || len(r.history) == 0 {
		return nil
	}
	note := 32 // tokens of what will be said of what is missing
	if r.cfg.Summarise != nil {
		note += min(maxSummary/4, limit/8)
	}
	s := newShortening(r.history, w, total, max(limit-note, 1), max(target-note, 1))
	s.cut.room = 4 * (note - 32)
	s.shorten()
	s.cut.body.Turn, s.cut.body.Before, s.cut.body.Limit, s.cut.body.Forced = turn, total, limit, forced
	if len(s.cut.body.Results) == 0 && s.cut.body.Messages == 0 {
		return nil
	}
	return s.cut
}

// shortening is a conversation that is made shorter. Its first message stays, and so
// does the newest turn: the last message of the model and what follows it.
type shortening struct {
	cut                  *cut
	history, messages    []llm.Message // before and after
	starts               []int         // where turns begin
	total, limit, target int           // tokens
}

func newShortening(history []llm.Message, w *window, total, limit, target int) *shortening {
	s := &shortening{history: history, messages: slices.Clone(history), total: total, limit: limit, target: target, cut: new(cut)}
	s.cut.first = s.messages[0]
	if l := w.left; l != nil {
		s.cut.first, s.cut.body.Dropped, s.cut.body.Summary = l.first, l.dropped, l.summary
	}
	for i := 1; i < len(s.messages); i++ {
		if i == 1 || s.messages[i].Role == llm.RoleAssistant {
			s.starts = append(s.starts, i)
		}
	}
	return s
}

// newest is where the turn begins that stays.
func (s *shortening) newest() int {
	if len(s.starts) == 0 {
		return len(s.messages)
	}
	return s.starts[len(s.starts)-1]
}

// shorten takes out the results of tools first, then whole turns, each the oldest
// first, and at last the larger part of the newest results.
func (s *shortening) shorten() {
	for i := 1; i < s.newest() && s.total > s.target; i++ {
		s.replaceResults(i, 0)
	}
	s.dropTurns()
	if s.total > s.limit {
		s.clipNewest()
	}
	s.cut.messages = s.messages
	s.cut.mark()
}

// size is how many tokens messages are estimated at.
func size(m ...llm.Message) int {
	return llm.EstimateTokens(&llm.Request{Messages: m}) - llm.EstimateTokens(&llm.Request{})
}

// replaceResults cuts the results of a message to so many bytes of text, or puts marks in
// their place where that is zero.
func (s *shortening) replaceResults(i, kept int) {
	old := s.messages[i]
	var fresh mcp.Contents
	for j, b := range old.Content {
		res, ok := b.(*mcp.ToolResultContent)
		if !ok {
			continue
		}
		tool := s.toolOf(i, res.ToolUseID)
		short := mark(tool, res)
		if kept > 0 {
			short = clipped(res, kept)
		}
		if short == nil || size(llm.Message{Content: mcp.Contents{short}}) >= size(llm.Message{Content: mcp.Contents{res}}) {
			continue
		}
		if fresh == nil {
			fresh = slices.Clone(old.Content)
		}
		fresh[j] = short
		s.cut.body.Results = append(s.cut.body.Results, runlog.CutResult{CallID: res.ToolUseID, Tool: tool, Bytes: resultSize(res), Kept: kept})
	}
	if fresh == nil {
		return
	}
	s.messages[i] = llm.Message{Role: old.Role, Content: fresh}
	s.total += size(s.messages[i]) - size(old)
	s.cut.lost = append(s.cut.lost, old)
}

// toolOf finds the name of the tool that a result is of.
func (s *shortening) toolOf(i int, id string) string {
	for _, b := range s.messages[i-1].Content {
		if use, ok := b.(*mcp.ToolUseContent); ok && use.ID == id {
			return use.Name
		}
	}
	return ""
}

func resultSize(r *mcp.ToolResultContent) int {
	n := len(r.StructuredContent)
	for _, c := range r.Content {
		n += clip.Size(c)
	}
	return n
}

// minMarked is how many bytes a result has that a mark is worth while for. A mark has
// less.
const minMarked = 256

// mark is one line in place of a result, nil if that gains nothing.
func mark(tool string, r *mcp.ToolResultContent) *mcp.ToolResultContent {
	if resultSize(r) < minMarked {
		return nil
	}
	return &mcp.ToolResultContent{ToolUseID: r.ToolUseID, IsError: r.IsError, Content: mcp.Contents{mcp.Text(fmt.Sprintf(
		"[the result of %s, %d bytes, was dropped to save room]", clip.Text(tool, 100), resultSize(r)))}}
}

// dropTurns leaves out whole turns, so that no call is ever without its result.
func (s *shortening) dropTurns() {
	if s.total <= s.limit {
		return
	}
	n := 0 // turns
	for n < len(s.starts)-1 && s.total > s.target {
		s.total -= size(s.messages[s.starts[n]:s.starts[n+1]]...)
		n++
	}
	if n == 0 {
		return
	}
	first, end := 1, s.starts[n]
	s.cut.lost = slices.Concat(s.history[first:end], s.lostBehind(end))
	s.cut.body.Messages = end - first
	s.cut.body.Dropped += end - first
	s.messages = slices.Delete(slices.Clone(s.messages), first, end)
	s.starts = s.starts[n:]
	for i := range s.starts {
		s.starts[i] -= end - first
	}
}

// lostBehind are the messages behind a place that have lost results.
func (s *shortening) lostBehind(end int) []llm.Message {
	kept := make(map[string]bool)
	for _, m := range s.messages[end:] {
		for _, b := range m.Content {
			if res, ok := b.(*mcp.ToolResultContent); ok {
				kept[res.ToolUseID] = true
			}
		}
	}
	var out []llm.Message
	for _, m := range s.cut.lost {
		if res, ok := m.Content[0].(*mcp.ToolResultContent); ok && kept[res.ToolUseID] {
			out = append(out, m)
		}
	}
	return out
}

// clipNewest cuts the results of the newest turn to the room that is left, an equal
// part each: a model that takes only the beginning of a file is better than none.
func (s *shortening) clipNewest() {
	for i := s.newest(); i < len(s.messages); i++ {
		n := len(s.messages[i].Content)
		rest := s.total - size(s.messages[i])
		share := max(s.limit-rest, 0) * 3 / max(n, 1) // bytes: a token has about four
		if share < 200 {
			share = 100 // for marks
		}
		s.replaceResults(i, share-100) // without the room of a note
	}
}

// minImageRoom is how many bytes of text a result has to have room for to keep its images.
const minImageRoom = 4000

// clipped is a result cut to so many bytes of text.
func clipped(r *mcp.ToolResultContent, kept int) *mcp.ToolResultContent {
	short := clip.ForModel(r.ToolUseID, &mcp.CallToolResult{Content: r.Content, StructuredContent: r.StructuredContent, IsError: r.IsError}, kept)
	short.Content = slices.DeleteFunc(short.Content, func(c mcp.Content) bool {
		_, image := c.(*mcp.ImageContent)
		return image && kept < minImageRoom
	})
	return short
}

// mark says in the first message that others behind it are missing.
func (c *cut) mark() {
	first := c.first
	if c.body.Dropped > 0 || c.body.Summary != "" {
		note := fmt.Sprintf("[%d earlier messages of this conversation, which stood here, were dropped to save room.]", c.body.Dropped)
		if c.body.Summary != "" {
			note += "\nWhat was dropped, in short: " + c.body.Summary
		}
		first.Content = append(slices.Clone(first.Content), mcp.Text(note))
	}
	c.messages[0] = first
}

// summarise asks the hook for what is to be said of what was dropped.
func (c *cut) summarise(ctx context.Context, cfg *config) {
	if cfg.Summarise == nil {
		return
	}
	before := c.body.Summary
	said, err := actors.Guard(func() (string, error) { return cfg.Summarise(ctx, before, c.lost) })
	if err != nil {
		c.body.NoSummary = clip.Short(err.Error())
		return
	}
	c.body.Summary = strings.TrimSpace(clip.Text(said, c.room))
	c.mark()
}
