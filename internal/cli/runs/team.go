package runs

import (
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/runlog"
)

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
