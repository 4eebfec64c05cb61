package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/mcp"
)

// StopCondition ends a run early: see [Config].StopWhen. Its zero value never holds.
// Make one with [ToolCalled], [TextMatches], [TurnsDone] or [Condition], and others of
// those with [And], [Or] and [Not].
type StopCondition struct {
	name  string
	holds func(*TurnInfo) (reason string, yes bool)
}

// TurnInfo is a turn that is over: the model has spoken, and its calls have returned.
type TurnInfo struct {
	Run, Agent string
	Turn       int    // from one
	Text       string // of the model, beside its calls
	Calls      []TurnCall
}

// TurnCall is one call of a turn.
type TurnCall struct {
	Server, Tool string // Server is empty for a function of the program
	Arguments    json.RawMessage
	Made         bool                   // it was neither refused nor declined
	Result       *mcp.ToolResultContent // as the model sees it; not to be changed
}

// String describes the condition.
func (c StopCondition) String() string {
	if c.holds == nil {
		return "never"
	}
	return c.name
}

// loop is the condition as a loop asks it; nil for none.
func (c StopCondition) loop() func(*guard.TurnInfo) (string, bool) {
	if c.holds == nil {
		return nil
	}
	return func(t *guard.TurnInfo) (string, bool) {
		info := &TurnInfo{Run: t.Run, Agent: t.Agent, Turn: t.Turn, Text: t.Text}
		for call := range t.Calls {
			info.Calls = append(info.Calls, TurnCall(call))
		}
		return c.holds(info)
	}
}

func (c StopCondition) met(t *TurnInfo) (string, bool) {
	if c.holds == nil {
		return "", false
	}
	return c.holds(t)
}

// Condition holds where the function returns true. The name is for events. It may be called
// by several runs at once; a panic in it fails the run.
func Condition(name string, holds func(*TurnInfo) bool) StopCondition {
	return StopCondition{name, func(t *TurnInfo) (string, bool) { return name, holds(t) }}
}

// ToolCalled holds once a call of that tool was made and has returned without an error.
// Of a server's tool it is the name that the model knows.
func ToolCalled(tool string) StopCondition {
	return Condition(fmt.Sprintf("the tool %q was called", tool), func(t *TurnInfo) bool {
		return slices.ContainsFunc(t.Calls, func(c TurnCall) bool {
			return c.Tool == tool && c.Made && c.Result != nil && !c.Result.IsError
		})
	})
}

// TextMatches holds where the text of the model beside its calls matches.
func TextMatches(re *regexp.Regexp) StopCondition {
	return Condition(fmt.Sprintf("the text matches %q", re), func(t *TurnInfo) bool { return re.MatchString(t.Text) })
}

// TurnsDone holds after that many turns. Unlike [Limits].Steps it is a good end.
func TurnsDone(n int) StopCondition {
	return Condition(fmt.Sprintf("%d turns are done", n), func(t *TurnInfo) bool { return t.Turn >= n })
}

// Or holds where any of the conditions does, never without any. They are looked at in
// order, up to the first that holds.
func Or(any ...StopCondition) StopCondition {
	return StopCondition{joined(any, " or "), func(t *TurnInfo) (string, bool) {
		for _, c := range any {
			if reason, yes := c.met(t); yes {
				return reason, true
			}
		}
		return "", false
	}}
}

// And holds where all of the conditions do, never without any.
func And(all ...StopCondition) StopCondition {
	return StopCondition{joined(all, " and "), func(t *TurnInfo) (string, bool) {
		reasons := make([]string, 0, len(all))
		for _, c := range all {
			reason, yes := c.met(t)
			if !yes {
				return "", false
			}
			reasons = append(reasons, reason)
		}
		return strings.Join(reasons, " and "), len(all) > 0
	}}
}

// Not holds where the condition does not.
func Not(c StopCondition) StopCondition {
	name := "not: " + c.String()
	return StopCondition{name, func(t *TurnInfo) (string, bool) {
		_, yes := c.met(t)
		return name, !yes
	}}
}

func joined(all []StopCondition, by string) string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.String()
	}
	return "(" + strings.Join(names, by) + ")"
}
