package loop

import (
	"encoding/json"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Outcome is how a run has ended.
type Outcome struct {
	State store.RunState
	// Stop is the reason: the model's finish reason, or "limit", "cancelled", "failed".
	Stop       string
	Text       string
	Structured json.RawMessage // what [Config.Check] made of the text
	Incomplete string          // what the answer lacks, as in [runlog.RunFinished]
	Usage      runlog.Usage
	Steps      int // turns begun
	ToolCalls  int
	// Spent is the cost of the run with all that it has started.
	Spent budget.Amount
	// Err is nil exactly if the run has finished with an answer; the text of a run that
	// has wrapped up comes with the limit. It wraps a
	// [*budget.LimitError], a [*CancelledError], a [*JournalError], or what failed.
	Err error
}

// take adds a bill to the outcome, and returns the entries of it that are still to be written.
func (o *Outcome) take(b spend.Bill) []runlog.Entry {
	o.Usage, o.Steps, o.ToolCalls, o.Spent = b.Usage, b.Steps, b.ToolCalls, b.Spent
	return b.Notes
}

// finished is the last event.
func finished(out *Outcome) runlog.Entry {
	return runlog.Entry{Time: store.Clock(time.Now()), Type: store.RunFinished, Body: out.Finished()}
}

// Finished returns the body of the run's last event.
func (o *Outcome) Finished() *runlog.RunFinished {
	body := &runlog.RunFinished{State: o.State, Stop: o.Stop, Text: o.Text, Structured: o.Structured, Incomplete: o.Incomplete,
		Usage: o.Usage, Steps: o.Steps, ToolCalls: o.ToolCalls, Spent: o.Spent}
	if o.Err != nil {
		body.Error = clip.Short(o.Err.Error())
	}
	return body
}

// summary is one line about how a run ended.
func summary(out *Outcome) string {
	if out.Err != nil {
		return line(out.Err.Error())
	}
	return line(out.Text)
}

// title is one line for lists of runs.
func title(input []llm.Message) string {
	if len(input) == 0 {
		return ""
	}
	return line(input[len(input)-1].Content.Text())
}

// The line is cut at lineBytes, and taken from the beginning of a text alone.
const (
	lineBytes  = 200
	lineSource = 4 << 10
)

// line returns the beginning of a text on one line, without control characters.
func line(s string) string {
	out := make([]byte, 0, lineBytes+len("…"))
	space := ""
	for rest := clip.Head(s, lineSource); rest != ""; {
		if n := word(rest); n > 0 {
			room := max(0, lineBytes-len(out)-len(space))
			if n > room {
				if room > 0 {
					out = append(append(out, space...), rest[:room]...)
				}
				return string(append(out, "…"...))
			}
			out, space, rest = append(append(out, space...), rest[:n]...), "", rest[n:]
			continue
		}
		c, n := utf8.DecodeRuneInString(rest)
		rest = rest[n:]
		switch {
		case unicode.IsSpace(c):
			if len(out) > 0 {
				space = " "
			}
		case c < ' ' || c == 0x7f:
		case len(out)+len(space)+utf8.RuneLen(c) > lineBytes:
			return string(append(out, "…"...))
		default:
			out, space = utf8.AppendRune(append(out, space...), c), ""
		}
	}
	return string(out)
}

// word returns how many bytes at the beginning of a text are visible ASCII.
func word(s string) (n int) {
	for n < len(s) && ' ' < s[n] && s[n] < 0x7f {
		n++
	}
	return n
}
