package runlog

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/mcp"
)

// Describe says on one line what an event holds; tools names those of the calls so far, and takes
// up the event's own. The text is as models and servers have written it.
func Describe(e *Entry, tools map[string]string) string {
	if b, ok := e.Body.(*ToolIntent); ok {
		tools[e.Key] = b.Tool
	}
	switch b := e.Body.(type) {
	case *RunStarted:
		prompt := ""
		if n := len(b.Input); n > 0 {
			prompt = b.Input[n-1].Content.Text()
		}
		return fmt.Sprintf("%s: %s", b.Model, prompt)
	case *ToolsListed:
		text := fmt.Sprintf("%d tools", len(b.Tools))
		for _, a := range b.Absent {
			text += fmt.Sprintf("; without %s: %s", a.Server, a.Reason)
		}
		return text
	case *ModelIntent:
		return fmt.Sprintf("turn %d, about %d tokens", b.Turn, b.Reserved)
	case *ModelResult:
		var calls []string
		for _, c := range b.Message.Content {
			if use, ok := c.(*mcp.ToolUseContent); ok {
				calls = append(calls, use.Name)
			}
		}
		if len(calls) > 0 {
			text := fmt.Sprintf("turn %d calls %s", b.Turn, strings.Join(calls, ", "))
			if CutCall(b.Finish, b.Spoilt) {
				text += ", and " + CutBy(b.Finish) + " cut it"
			}
			return text
		}
		if Cut(b.Finish) {
			return fmt.Sprintf("turn %d says, until %s cut it: %s", b.Turn, CutBy(b.Finish), b.Message.Content.Text())
		}
		return fmt.Sprintf("turn %d says: %s", b.Turn, b.Message.Content.Text())
	case *ModelFailed:
		return fmt.Sprintf("turn %d has no result: %s", b.Turn, b.Error)
	case *Spent:
		return strings.TrimSpace(fmt.Sprintf("%d tokens for %s %s", b.Usage.Total(), b.What, b.Server))
	case *ToolIntent:
		return b.Tool + " " + string(b.Arguments)
	case *ToolWaiting:
		return b.Tool + " waits for " + b.For
	case *ToolRound:
		return fmt.Sprintf("%s is not carried out before its server has %d answers", tools[e.Key], len(b.Requests))
	case *ToolDispatched:
		return tools[e.Key]
	case *ToolResult:
		text := b.Tool + ": "
		if b.Result != nil {
			if b.Result.IsError {
				text += "error: "
			}
			text += b.Result.Content.Text()
		}
		return text
	case *ToolUnknown:
		return b.Tool + ": " + b.Reason
	case *AskOpened:
		return b.Ask.Kind + " " + cmp.Or(b.Ask.Tool, b.Ask.Server)
	case *AskSettled:
		return strings.TrimSpace(string(b.Status) + " " + b.Reason)
	case *LimitReached:
		if b.Limit == budget.Repeats {
			return fmt.Sprintf("%s %s: %s", b.Limit, b.Max, b.Then)
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s, spent %s: %s", b.Limit, b.Max, cmp.Or(b.Spent, "all of it"), b.Then))
	case *LimitRaised:
		return fmt.Sprintf("%s by %s", b.Limit, b.By)
	case *InputAdded:
		return b.Message.Content.Text()
	case *RunFinished:
		if b.Error != "" {
			return string(b.State) + ": " + b.Error
		}
		text := fmt.Sprintf("%s, %d tokens", b.State, b.Usage.Total())
		if b.Incomplete != "" {
			text += ", and " + WhyIncomplete(b.Incomplete)
		}
		return text + ": " + b.Text
	}
	return teamText(e.Body)
}

// seenText says what a run has seen.
func seenText(t Taint) string {
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
	case *RunEnding:
		return strings.TrimSpace(fmt.Sprintf("%s (%s) %s", b.State, b.Stop, b.Error))
	case *RunParked:
		if !b.Wake.IsZero() {
			return fmt.Sprintf("%s; not before %s", b.Why, b.Wake.Format(time.RFC3339))
		}
		return b.Why
	case *RunDrifted:
		return strings.Join(b.What, "; ")
	case *RunResumed:
		return strings.TrimSpace(fmt.Sprintf("by %s; %d calls are open", b.Owner, len(b.Open)))
	case *RunForked:
		return fmt.Sprintf("the events before this one are those of %s, up to %d", b.From, b.At)
	case *GuardActed:
		return strings.TrimSpace(fmt.Sprintf("%s, %s, %s %s", b.Guard, b.Point, b.Action, b.Text))
	case *HistoryCut:
		return fmt.Sprintf("%d of %d tokens are left; %d results were shortened, %d messages left out", b.After, b.Before, len(b.Results), b.Messages)
	case *AgentChanged:
		return fmt.Sprintf("%s goes on in place of %s", b.To, b.From)
	case *StopMet:
		return b.Condition
	case *QuestionDeclined:
		return fmt.Sprintf("%s (%s): %s", b.Tool, b.Kind, b.Reason)
	case *Tainted:
		return fmt.Sprintf("%s: the run has now seen %s", b.Tool, seenText(b.Seen))
	}
	return ""
}
