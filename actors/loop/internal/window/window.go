// Package window keeps a conversation within the length that its model takes: results of tools are
// left out first, then whole turns, the oldest before others, and never a call without its
// result.
package window

import (
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
)

// maxSummary bounds what is said of messages that were left out, in bytes; a small
// model has an eighth of what it takes for it.
const maxSummary = 8 << 10

// Window has the parts that are left out of a conversation so that the model can take it. The
// journal has all of it.
type Window struct {
	left     *leftOut // nil before anything was
	estimate int      // of the turn that is asked for, in tokens
	scale    float64  // by how much the model counts more than is estimated; zero before it has
	squeezed int      // the turn that was asked for again because it was too much
}

// leftOut counts the parts that are missing of a conversation.
type leftOut struct {
	first   llm.Message // the first message as it came
	dropped int         // messages behind it that were left out
	summary string      // of them, and of results
}

// Restore returns the window of a conversation whose last cut was c; First is its first message
// as it came.
func Restore(first llm.Message, c *runlog.HistoryCut) Window {
	if c.Dropped == 0 && c.Summary == "" {
		return Window{}
	}
	return Window{left: &leftOut{first, c.Dropped, c.Summary}}
}

// Measure learns how the model counts, from a turn that it has counted.
func (w *Window) Measure(u llm.Usage) {
	if !u.Estimated && u.Input > 0 && w.estimate > 0 {
		w.scale = min(max(float64(u.Input)/float64(w.estimate), 1), 4)
	}
}

// Bounds are those of the model that is asked.
type Bounds struct {
	Context   int  // tokens that the model takes, input and output together; zero for unknown
	MaxTokens int  // of the output of one turn; zero for the provider's
	Summary   bool // a summary is made of the parts that are left out
}

// limit is how many tokens a request may be estimated at: what the model takes without
// room for an answer. Zero means that it is not known.
func (w *Window) limit(b Bounds) int {
	if b.Context <= 0 {
		return 0
	}
	room := min(b.MaxTokens, b.Context/2)
	if room <= 0 {
		room = min(4096, b.Context/4)
	}
	return w.scaled(b.Context - room)
}

// scaled is how much may be estimated where the model takes n.
func (w *Window) scaled(n int) int { return max(int(float64(n)/max(w.scale, 1)), 1) }

// NewModel forgets how the model counts: another one is asked from now on.
func (w *Window) NewModel() { w.scale = 0 }

// Squeeze notes that the model found a turn too long: the next one has half of it. It
// reports false for a turn that was made shorter for that already.
func (w *Window) Squeeze(turn int) bool {
	if w.squeezed != 0 && w.squeezed == turn-1 {
		return false
	}
	w.squeezed = turn
	return true
}

// Cut finds what the next turn, of about so many tokens, has to do without; nil if it fits as it
// is. It does not change the history: what models were given before is theirs.
func (w *Window) Cut(b Bounds, history []llm.Message, total, turn int) *Cut {
	limit, forced := w.limit(b), w.squeezed != 0 && w.squeezed == turn-1
	if limit == 0 && !forced {
		return nil
	}
	w.estimate = total
	target := limit / 4 * 3 // else something would be left out before each turn
	if forced {
		limit = total / 2
		target = limit
	}
	if total <= limit || len(history) == 0 {
		return nil
	}
	note := 32 // tokens of the note on missing parts
	if b.Summary {
		note += min(maxSummary/4, limit/8)
	}
	s := newShortening(history, w, total, max(limit-note, 1), max(target-note, 1))
	s.cut.room = 4 * (note - 32)
	s.shorten()
	s.cut.body.Turn, s.cut.body.Before, s.cut.body.Limit, s.cut.body.Forced = turn, total, limit, forced
	if len(s.cut.body.Results) == 0 && s.cut.body.Messages == 0 {
		return nil
	}
	return s.cut
}

// Take notes the parts that were left out, and returns the event of it.
func (w *Window) Take(c *Cut) runlog.Entry {
	w.left, w.estimate = &leftOut{c.first, c.body.Dropped, c.body.Summary}, c.body.After
	return runlog.Entry{Type: runlog.HistoryCutType, Body: &c.body}
}
