package agent_test

import (
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// A function that panics observes no more, and harms no run (ROB-1).
func TestObservePanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := llmtest.NewGate()
		rt := open(t, &agent.Options{Store: memory(), Model: llmtest.Script(llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok")))})
		run, calls := start(t, rt, "r"), 0
		if !run.Observe(func(agent.Standing) { calls++; panic(errTest) }) {
			t.Fatal("Observe: got false")
		}
		gate.Open()
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "ok" || calls != 1 {
			t.Errorf("Wait: got %+v, %v after %d calls, want one", res, err, calls)
		}
	})
}
