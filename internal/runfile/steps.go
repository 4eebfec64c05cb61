package runfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
)

// System is the beginning of the step that has the instructions of an agent.
const System = "system: "

// Steps says what has happened in a run, a step a line, as two runs can be compared: without times,
// costs and keys, and the results of the calls of one turn in the order of the calls.
func Steps(entries []runlog.Entry) []string {
	s := new(steps)
	for i := range entries {
		s.add(&entries[i])
	}
	s.flush()
	return s.lines
}

type steps struct {
	lines   []string
	results []outcome // of the last turn
	asked   map[string]string
}

// outcome is the result of a call.
type outcome struct {
	key, text string
}

func (s *steps) say(format string, args ...any) {
	s.flush()
	s.lines = append(s.lines, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", `\n`))
}

// flush adds the results of the calls of a turn.
func (s *steps) flush() {
	slices.SortStableFunc(s.results, func(a, b outcome) int { // the last part of a key is the number of the call
		return cmp.Or(cmp.Compare(len(a.key), len(b.key)), cmp.Compare(a.key, b.key))
	})
	for _, r := range s.results {
		s.lines = append(s.lines, r.text)
	}
	s.results = nil
}

func (s *steps) result(key, format string, args ...any) {
	s.results = append(s.results, outcome{key, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", `\n`)})
}

func (s *steps) add(e *runlog.Entry) {
	switch b := e.Body.(type) {
	case *runlog.RunStarted:
		s.say("agent %s, model %s", b.Agent, b.Model)
		if b.System != "" {
			s.say(System+"%s", b.System)
		}
		for _, m := range b.Input {
			s.say("%s: %s", m.Role, m.Content.Text())
		}
	case *runlog.ModelResult:
		if text := b.Message.Content.Text(); text != "" {
			s.say("turn %d says: %s", b.Turn, text)
		}
		for _, c := range b.Message.Content {
			if use, ok := c.(*mcp.ToolUseContent); ok {
				s.say("turn %d calls %s %s", b.Turn, use.Name, canonical(use.Input))
			}
		}
	case *runlog.ModelFailed:
		s.say("turn %d fails: %s", b.Turn, b.Error)
	case *runlog.ToolResult:
		what := "result"
		if b.Result != nil && b.Result.IsError {
			what = "error"
		}
		text := ""
		if b.Result != nil {
			text = b.Result.Content.Text()
		}
		s.result(e.Key, "%s of %s: %s", what, b.Tool, text)
	case *runlog.ToolUnknown:
		s.result(e.Key, "unknown outcome of %s", b.Tool)
	case *runlog.AskOpened:
		if s.asked == nil {
			s.asked = make(map[string]string)
		}
		s.asked[e.Key] = strings.TrimSpace(b.Ask.Kind + " " + cmp.Or(b.Ask.Tool, b.Ask.Server))
	case *runlog.AskSettled:
		s.result(e.Key, "question %s: %s", s.asked[e.Key], strings.TrimSpace(string(b.Status)+" "+b.Reason))
	case *runlog.RunFinished:
		s.say("%s (%s): %s", b.State, cmp.Or(b.Incomplete, b.Stop), cmp.Or(b.Error, b.Text))
	default:
		s.between(e)
	}
}

// between adds what is neither of the model nor of a call.
func (s *steps) between(e *runlog.Entry) {
	switch b := e.Body.(type) {
	case *runlog.InputAdded:
		s.say("%s: %s", b.Message.Role, b.Message.Content.Text())
	case *runlog.AgentChanged:
		s.say("agent %s goes on in place of %s", b.To, b.From)
	case *runlog.LimitReached:
		s.say("limit of %s reached: %s", b.Limit, b.Then)
	case *runlog.LimitRaised:
		s.say("limit of %s raised by %s", b.Limit, b.By)
	case *runlog.GuardActed:
		s.result(e.Key, "guard %s, %s: %s %s", b.Guard, b.Point, b.Action, b.Text)
	case *runlog.HistoryCut:
		s.say("before turn %d %d results and %d messages are cut", b.Turn, len(b.Results), b.Messages)
	case *runlog.StopMet:
		s.say("stop after turn %d: %s", b.Turn, b.Condition)
	}
}

// canonical is JSON with its members in order, as it is if it is none.
func canonical(raw []byte) string {
	if c, err := jsonx.Exact(raw); err == nil {
		return string(c)
	}
	return string(raw)
}
