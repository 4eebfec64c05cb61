package runs

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
)

// printEntry prints an event on one line. It keeps the tools of calls in a map by the
// calls' keys, for the events after it.
func printEntry(w io.Writer, entry runlog.Entry, tools map[string]string) error {
	if b, ok := entry.Body.(*runlog.ToolIntent); ok {
		tools[entry.Key] = b.Tool
	}
	_, err := fmt.Fprintf(w, "%4d  %s  %-15s %s\n", entry.Seq, env.WhenMillis(entry.Time, time.Now()), entry.Type,
		env.Plain(env.Shorten(describe(entry, tools), 160)))
	return err
}

// describe says on one line what an event holds; tools names those of the calls so far.
func describe(e runlog.Entry, tools map[string]string) string {
	switch b := e.Body.(type) {
	case *runlog.RunStarted:
		prompt := ""
		if n := len(b.Input); n > 0 {
			prompt = b.Input[n-1].Content.Text()
		}
		return fmt.Sprintf("%s: %s", b.Model, prompt)
	case *runlog.ToolsListed:
		text := fmt.Sprintf("%d tools", len(b.Tools))
		for _, a := range b.Absent {
			text += fmt.Sprintf("; without %s: %s", a.Server, a.Reason)
		}
		return text
	case *runlog.ModelIntent:
		return fmt.Sprintf("turn %d, about %d tokens", b.Turn, b.Reserved)
	case *runlog.ModelResult:
		var calls []string
		for _, c := range b.Message.Content {
			if use, ok := c.(*mcp.ToolUseContent); ok {
				calls = append(calls, use.Name)
			}
		}
		if len(calls) > 0 {
			return fmt.Sprintf("turn %d calls %s", b.Turn, strings.Join(calls, ", "))
		}
		return fmt.Sprintf("turn %d says: %s", b.Turn, b.Message.Content.Text())
	case *runlog.ModelFailed:
		return fmt.Sprintf("turn %d has no result: %s", b.Turn, b.Error)
	case *runlog.Spent:
		return strings.TrimSpace(fmt.Sprintf("%d tokens for %s %s", b.Usage.Total(), b.What, b.Server))
	case *runlog.ToolIntent:
		return b.Tool + " " + string(b.Arguments)
	case *runlog.ToolWaiting:
		return b.Tool + " waits for " + b.For
	case *runlog.ToolRound:
		return fmt.Sprintf("%s is not carried out before its server has %d answers", tools[e.Key], len(b.Requests))
	case *runlog.ToolDispatched:
		return tools[e.Key]
	case *runlog.ToolResult:
		text := b.Tool + ": "
		if b.Result != nil {
			if b.Result.IsError {
				text += "error: "
			}
			text += b.Result.Content.Text()
		}
		return text
	case *runlog.ToolUnknown:
		return b.Tool + ": " + b.Reason
	case *runlog.AskOpened:
		return b.Ask.Kind + " " + cmp.Or(b.Ask.Tool, b.Ask.Server)
	case *runlog.AskSettled:
		return strings.TrimSpace(string(b.Status) + " " + b.Reason)
	case *runlog.LimitReached:
		return strings.TrimSpace(fmt.Sprintf("%s %s, spent %s: %s", b.Limit, b.Max, cmp.Or(b.Spent, "all of it"), b.Then))
	case *runlog.LimitRaised:
		return fmt.Sprintf("%s by %s", b.Limit, b.By)
	case *runlog.InputAdded:
		return b.Message.Content.Text()
	case *runlog.RunFinished:
		if b.Error != "" {
			return string(b.State) + ": " + b.Error
		}
		return fmt.Sprintf("%s, %d tokens: %s", b.State, b.Usage.Total(), b.Text)
	}
	return teamText(e.Body)
}

// seenText says what a run has seen.
func seenText(t runlog.Taint) string {
	var seen []string
	if t.Untrusted {
		seen = append(seen, "untrusted text")
	}
	if t.Private {
		seen = append(seen, "private data")
	}
	return strings.Join(seen, " and ")
}

// teamText is what "runs show" says of an event between agents, guards and models.
func teamText(body any) string {
	switch b := body.(type) {
	case *runlog.RunParked:
		return b.Why
	case *runlog.RunResumed:
		return strings.TrimSpace(fmt.Sprintf("by %s; %d calls are open", b.Owner, len(b.Open)))
	case *runlog.RunForked:
		return fmt.Sprintf("the events before this one are those of %s, up to %d", b.From, b.At)
	case *runlog.GuardActed:
		return strings.TrimSpace(fmt.Sprintf("%s, %s, %s %s", b.Guard, b.Point, b.Action, b.Text))
	case *runlog.HistoryCut:
		return fmt.Sprintf("%d of %d tokens are left; %d results were shortened, %d messages left out", b.After, b.Before, len(b.Results), b.Messages)
	case *runlog.AgentChanged:
		return fmt.Sprintf("%s goes on in place of %s", b.To, b.From)
	case *runlog.StopMet:
		return b.Condition
	case *runlog.QuestionDeclined:
		return fmt.Sprintf("%s (%s): %s", b.Tool, b.Kind, b.Reason)
	case *runlog.Tainted:
		return fmt.Sprintf("%s: the run has now seen %s", b.Tool, seenText(b.Seen))
	}
	return ""
}
