package run

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm"
)

// waitExpiry is how long a question waits that a run without a terminal has left behind.
const waitExpiry = 7 * 24 * time.Hour

// nextStep says what a run waits for that is left here, and how its work gets done: what it
// needs is allowed first, and then it goes on.
func nextStep(e *env.Env, run string, named bool, q *agent.Ask) string {
	again := "run the same command again"
	if named {
		again += " with another --run-id"
	}
	if q.Limit != nil {
		l := q.Limit
		steps := []string{fmt.Sprintf("run %s waits for a human: it has reached its limit of %s, %s, and asks for %s more. There is no terminal to ask on.",
			run, l.Limit, l.Max, l.More), "To give it more, " + again + moreFlag(l)}
		return strings.Join(append(steps, denyHint(e, q)...), "\n  ")
	}
	if q.Kind == agent.KindOutcome {
		return fmt.Sprintf("run %s waits for a human: did %s happen? There is no terminal to ask on.\n  Look there, then: %s (or again, tell, end)\n"+
			"  and: %s", run, env.Plain(q.Tool), e.Command("inbox", "answer", env.Short(q.ID), "--outcome", "happened"), e.Command("runs", "resume", run))
	}
	if q.Kind == agent.KindJob {
		return fmt.Sprintf("run %s waits for a human: shall its job go on? There is no terminal to ask on.\n"+
			"  To go on: troupe inbox answer %s --accept\n  To end the run: troupe inbox deny %[2]s", run, env.Short(q.ID))
	}
	lines := []string{fmt.Sprintf("run %s waits for a human: may %s be called? There is no terminal to ask on.", run, env.Plain(q.Tool))}
	if !e.NoStore && q.Definition != "" && !q.Again {
		lines = append(lines, "To allow this tool in this folder from now on:", "  "+e.Command("inbox", "answer", env.Short(q.ID), "--scope", "here"),
			"Then go on with the run:", "  "+e.Command("runs", "resume", run),
			"Or, to allow every call of one run: "+again+", with --yes.")
	} else {
		lines = append(lines, "To allow every call of one run: "+again+", with --yes.")
		lines = append(lines, denyHint(e, q)...)
	}
	return strings.Join(lines, "\n  ")
}

// denyHint says how a question that needs no answer is taken off the inbox.
func denyHint(e *env.Env, q *agent.Ask) []string {
	if e.NoStore {
		return nil
	}
	return []string{"The question can be taken off the inbox: " + e.Command("inbox", "deny", env.Short(q.ID))}
}

// limitFlagNames are the flags of limits, by what questions call them.
var limitFlagNames = map[string]string{"steps": "max-steps", "tokens": "max-tokens-total", "cost": "max-cost", "tool calls": "max-tool-calls",
	"model calls": "max-model-calls", "wall time": "timeout"}

// moreFlag is the flag that gives a run what it asks for.
func moreFlag(l *agent.LimitQuestion) string {
	flag, ok := limitFlagNames[l.Limit]
	if !ok {
		return ", with a higher limit."
	}
	if sum, ok := added(l.Limit, l.Max, l.More); ok {
		return fmt.Sprintf(", with --%s %s.", flag, sum)
	}
	return fmt.Sprintf(", with a higher --%s.", flag)
}

func added(limit, most, more string) (string, bool) {
	if limit == "cost" {
		a, errA := llm.ParseMoney(most)
		b, errB := llm.ParseMoney(more)
		return (a + b).String(), errA == nil && errB == nil
	}
	a, errA := strconv.ParseInt(most, 10, 64)
	b, errB := strconv.ParseInt(more, 10, 64)
	return strconv.FormatInt(a+b, 10), errA == nil && errB == nil
}
