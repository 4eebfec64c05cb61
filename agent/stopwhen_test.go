package agent_test

import (
	"regexp"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// TestStopConditions: each, and what they compose to. A condition says why it holds.
func TestStopConditions(t *testing.T) {
	result := &mcp.ToolResultContent{Content: mcp.Contents{mcp.Text("x")}}
	failed := &mcp.ToolResultContent{Content: mcp.Contents{mcp.Text("x")}, IsError: true}
	turn := &agent.TurnInfo{Turn: 3, Text: "I am DONE now", Calls: []agent.TurnCall{
		{Tool: "a", Made: true, Result: result}, {Tool: "b", Made: false, Result: failed}, {Tool: "c", Made: true, Result: failed}}}
	yes := agent.Condition("yes", func(*agent.TurnInfo) bool { return true })
	no := agent.Condition("no", func(*agent.TurnInfo) bool { return false })
	tests := []struct {
		c    agent.StopCondition
		name string
		want bool
	}{
		{agent.StopCondition{}, "never", false},
		{agent.ToolCalled("a"), `the tool "a" was called`, true},
		{agent.ToolCalled("b"), `the tool "b" was called`, false}, // it was refused
		{agent.ToolCalled("c"), `the tool "c" was called`, false}, // it failed
		{agent.ToolCalled("d"), `the tool "d" was called`, false},
		{agent.TextMatches(regexp.MustCompile("DONE")), `the text matches "DONE"`, true},
		{agent.TextMatches(regexp.MustCompile("done")), `the text matches "done"`, false},
		{agent.TurnsDone(3), "3 turns are done", true},
		{agent.TurnsDone(4), "4 turns are done", false},
		{agent.And(yes, yes), "(yes and yes)", true},
		{agent.And(yes, no), "(yes and no)", false},
		{agent.And(), "()", false},
		{agent.Or(no, yes), "(no or yes)", true},
		{agent.Or(no, no), "(no or no)", false},
		{agent.Or(), "()", false},
		{agent.Or(no, agent.And(yes, agent.Not(no))), "(no or (yes and not: no))", true},
		{agent.Not(yes), "not: yes", false},
		{agent.Not(agent.StopCondition{}), "not: never", true},
	}
	for _, tt := range tests {
		if got := tt.c.String(); got != tt.name {
			t.Errorf("String: got %q, want %q", got, tt.name)
		}
		if _, got := agent.Met(tt.c, turn); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.c, got, tt.want)
		}
	}
	if why, _ := agent.Met(agent.Or(no, agent.And(yes, agent.TurnsDone(2))), turn); why != "yes and 2 turns are done" {
		t.Errorf("why: got %q", why)
	}
}

// TestStopWhenEndsTheRun: with what the model has said, no error, and an event.
func TestStopWhenEndsTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Join(llmtest.Say("so far"), call("double", in{1})))})
		a := define(t, rt, "a", &agent.Config{Tools: []agent.Tool{double}, StopWhen: agent.Or(agent.ToolCalled("double"), agent.TurnsDone(9))})
		run := begin(t, a, "r")
		res, err := run.Wait(t.Context())
		if err != nil || res.StopReason != agent.StopMet || res.Text != "so far" || res.Steps != 1 {
			t.Errorf("Wait: %+v, %v", res, err)
		}
		var why string
		for ev := range run.Events(t.Context()) {
			if met, ok := ev.(agent.StopConditionMet); ok {
				why = met.Condition
			}
		}
		if why != `the tool "double" was called` {
			t.Errorf("why: got %q", why)
		}
	})
}
