package run

import (
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
)

// inside returns an event of a sub-agent without what is around it, and which agents it
// comes from, as in "reader > searcher: "; "" for the run's own.
func inside(ev agent.Event) (who string, inner agent.Event) {
	inner = agent.Unnest(ev)
	if _, nested := ev.(agent.Nested); !nested {
		return "", inner
	}
	path := inner.Head().Path
	if len(path) > 1 { // the first one is the run's
		who = env.Plain(strings.Join(path[1:], " > ")) + ": "
	}
	return who, inner
}

// remark is an event in one line; "" for such as are told in another way or not at all.
func remark(ev agent.Event) string {
	switch ev := ev.(type) {
	case agent.ModelChosen:
		if ev.Fallback > 0 {
			return fmt.Sprintf("now asking %s (%s)", ev.Model, ev.Reason)
		}
	case agent.TurnRestarted:
		return "the model broke off and begins its turn again"
	case agent.GuardActed:
		return strings.TrimSuffix(fmt.Sprintf("the guard %q (%s) has %s: %s", ev.Guard, ev.Point, ev.Action, ev.Text), ": ")
	case agent.HistoryCut:
		return fmt.Sprintf("the conversation is too long for the model: %d results were shortened, %d messages left out", ev.Results, ev.Messages)
	case agent.HandedOff:
		return fmt.Sprintf("%s goes on in place of %s (%s)", ev.To, ev.From, ev.Model)
	case agent.QuestionDeclined:
		return fmt.Sprintf("a question of the server %s (%s) was declined without being asked: %s", ev.Server, ev.Kind, ev.Reason)
	case agent.StopConditionMet:
		return "the run ends here: " + ev.Condition
	}
	return ""
}

// asker says on whose behalf a call is to be made.
func asker(q agent.Ask) string {
	if len(q.Path) > 1 {
		return "the agent " + env.Plain(strings.Join(q.Path, " > "))
	}
	return "the agent"
}

// warning says what a human should know before allowing a call (SECA-44).
func warning(q agent.Ask) string {
	text := ""
	if q.Tainted {
		text = "\nBeware: what strangers have written and private data are both in this conversation, and this call may carry the data out."
	}
	if q.Note != "" {
		text += "\nBeware: " + env.Plain(q.Note) + "."
	}
	return text
}
