package agenttest

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
)

// Calls waits for the end of a run and returns the tool calls that were made, those of
// sub-agents among them, in the order in which they began: the name that the model knows
// and the arguments, as in `files__remove {"path":"notes.txt"}`. Calls that were declined or
// did not fit a limit are not among them.
func Calls(t testing.TB, run *agent.Run) []string {
	t.Helper()
	var calls []string
	each(t, run, func(ev agent.Event) {
		if s, ok := agent.Unnest(ev).(agent.ToolStarted); ok {
			calls = append(calls, fmt.Sprintf("%s %s", s.Tool, s.Arguments))
		}
	})
	return calls
}

// Transcript waits for the end of a run and returns its events, in lines that are the same
// each time: without ids and times, and with each text in one piece. The lines of
// sub-agents are indented.
func Transcript(t testing.TB, run *agent.Run) string {
	t.Helper()
	w := &writer{text: make(map[string]string)}
	each(t, run, w.event)
	return w.out.String()
}

func each(t testing.TB, run *agent.Run, f func(agent.Event)) {
	t.Helper()
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatalf("reading the events of run %s: %v", run.ID(), err)
		}
		f(ev)
	}
}

// writer writes a transcript.
type writer struct {
	out  strings.Builder
	text map[string]string // of the turn under way, by run
}

func (w *writer) event(ev agent.Event) {
	indent := ""
	for n, ok := ev.(agent.Nested); ok; n, ok = ev.(agent.Nested) {
		ev, indent = n.Event, indent+"  "
	}
	switch ev := ev.(type) {
	case agent.Text:
		w.text[ev.RunID] += ev.Delta
	case agent.TurnRestarted:
		delete(w.text, ev.RunID)
	case agent.ModelTurn:
		if text := w.text[ev.RunID]; text != "" {
			fmt.Fprintf(&w.out, "%smodel: %s\n", indent, oneLine(text))
		}
		delete(w.text, ev.RunID)
	}
	if line := lineOf(ev); line != "" {
		fmt.Fprintf(&w.out, "%s%s\n", indent, line)
	}
}

// lineOf is an event in a line; "" for one that a transcript does not have.
func lineOf(ev agent.Event) string {
	switch ev := ev.(type) {
	case agent.RunStarted:
		return fmt.Sprintf("%s: %s", ev.Agent, oneLine(ev.Prompt))
	case agent.ToolStarted:
		return fmt.Sprintf("call: %s %s", ev.Tool, ev.Arguments)
	case agent.ToolResult:
		return resultLine(&ev)
	case agent.Ask:
		return "ask: " + describe(&ev)
	case agent.AskSettled:
		return strings.TrimSpace(fmt.Sprintf("%s %s", ev.Status, oneLine(ev.Reason)))
	case agent.QuestionDeclined:
		return fmt.Sprintf("declined unasked: %s of %s: %s", ev.Kind, ev.Tool, oneLine(ev.Reason))
	case agent.HandedOff:
		return fmt.Sprintf("%s hands over to %s", ev.From, ev.To)
	case agent.GuardActed:
		return fmt.Sprintf("guard %s: %s %s", ev.Guard, ev.Action, oneLine(ev.Text))
	case agent.LimitReached:
		return fmt.Sprintf("limit: %s of %s, then %s", ev.Limit, ev.Max, ev.Then)
	case agent.LimitRaised:
		return fmt.Sprintf("limit: %s raised by %s", ev.Limit, ev.By)
	case agent.RunFinished:
		return strings.TrimSpace(fmt.Sprintf("%s: %s %s", ev.State, cmp.Or(string(ev.Result.Incomplete), string(ev.Result.StopReason)), oneLine(ev.Error)))
	}
	return ""
}

func resultLine(ev *agent.ToolResult) string {
	how := "result"
	switch {
	case ev.Unknown:
		how = "unknown"
	case !ev.Made:
		how = "not made"
	case ev.Result.IsError:
		how = "error"
	}
	return fmt.Sprintf("%s: %s %s", how, ev.Tool, oneLine(ev.Result.Content.Text()))
}

// oneLine keeps a text in its line.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "⏎") }
