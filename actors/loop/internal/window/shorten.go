package window

import (
	"context"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Cut is the part that a conversation loses.
type Cut struct {
	body     runlog.HistoryCut
	first    llm.Message   // as it came
	messages []llm.Message // the rest
	lost     []llm.Message // messages that were left out, or lost results, as they were
	room     int           // bytes of a summary
}

// shortening is a conversation that is made shorter. Its first message stays, and so
// does the newest turn: the last message of the model and what follows it.
type shortening struct {
	cut                  *Cut
	history, messages    []llm.Message // before and after
	starts               []int         // where turns begin
	total, limit, target int           // tokens
}

func newShortening(history []llm.Message, w *Window, total, limit, target int) *shortening {
	s := &shortening{history: history, messages: slices.Clone(history), total: total, limit: limit, target: target, cut: new(Cut)}
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
		short := toolresult.Marked(tool, res)
		if kept > 0 {
			short = toolresult.Shorten(res, kept)
		}
		if short == nil || size(llm.Message{Content: mcp.Contents{short}}) >= size(llm.Message{Content: mcp.Contents{res}}) {
			continue
		}
		if fresh == nil {
			fresh = slices.Clone(old.Content)
		}
		fresh[j] = short
		s.cut.body.Results = append(s.cut.body.Results, runlog.CutResult{CallID: res.ToolUseID, Tool: tool, Bytes: toolresult.Bytes(res), Kept: kept})
	}
	if fresh == nil {
		return
	}
	s.messages[i] = llm.Message{Role: old.Role, Content: fresh, State: old.State}
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

// mark notes in the first message that others behind it are missing.
func (c *Cut) mark() {
	first := c.first
	if note := c.body.Note(); note != "" {
		first.Content = append(slices.Clone(first.Content), mcp.Text(note))
	}
	c.messages[0] = first
}

// Messages are the rest of the conversation.
func (c *Cut) Messages() []llm.Message { return c.messages }

// Summarise asks say for a few words on what was dropped, in place of what it has said
// before, and puts the rest into the request. Nil and an error leave a mark only.
func (c *Cut) Summarise(ctx context.Context, req *llm.Request, say func(ctx context.Context, before string, dropped []llm.Message) (string, error)) {
	if say != nil {
		before := c.body.Summary
		said, err := actors.Guard(func() (string, error) { return say(ctx, before, c.lost) })
		if err != nil {
			c.body.NoSummary = clip.Short(err.Error())
		} else {
			c.body.Summary = strings.TrimSpace(clip.Text(said, c.room))
			c.mark()
		}
	}
	req.Messages = c.messages
	c.body.After = llm.EstimateTokens(req)
}
