package agent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// asksHelpers is a model that calls the tool help n times at once, and then answers.
func asksHelpers(n int) *llmtest.Model {
	var calls []llmtest.Turn
	for i := range n {
		calls = append(calls, call("help", fmt.Sprintf(`{"prompt":"%d"}`, i)))
	}
	return llmtest.Script(llmtest.Calls(calls...), llmtest.Say("done"))
}

// TestSubAgentsWaitForRoom: the turns of sub-agents side by side, whose output has no
// bound, do not take each other's share of a limit: one that finds too little waits until
// another has settled.
func TestSubAgentsWaitForRoom(t *testing.T) {
	for name, limits := range map[string]agent.Limits{
		"stop":               {Tokens: 12_000},
		"wrap up":            {Tokens: 12_000, OnLimit: agent.LimitWrapUp},
		"cost":               {Cost: llm.Unit / 20},
		"no room beyond one": {Tokens: 2_000},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rt := open(t, &agent.Options{Prices: map[string]llm.Price{"llmtest/script": {Input: llm.Unit, Output: 5 * llm.Unit}}})
				helper := define(t, rt, "helper", &agent.Config{Model: llmtest.Loop(llmtest.Join(llmtest.Slow(time.Second), llmtest.Say("helped")))})
				model := asksHelpers(5)
				boss := define(t, rt, "boss", &agent.Config{Model: model, Tools: []agent.Tool{helper.AsTool("help", "Helps.")}, Limits: limits})
				res, err := boss.Run(t.Context(), "go", nil)
				if err != nil || res.Text != "done" {
					t.Fatalf("Run: got %+v, %v", res, err)
				}
				for _, text := range llmtest.Results(model.Requests()[1]) {
					if text != "helped" {
						t.Errorf("a helper said %q, want its whole answer", text)
					}
				}
			})
		})
	}
}

// TestCancelWhileItWaitsForRoom: a run that waits for room ends at once when it is
// cancelled, and the others go on.
func TestCancelWhileItWaitsForRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, nil)
		gate := llmtest.NewGate()
		defer gate.Open()
		helper := define(t, rt, "helper", &agent.Config{Model: llmtest.Loop(llmtest.Join(llmtest.Hold(gate), llmtest.Say("helped")))})
		boss := define(t, rt, "boss", &agent.Config{Model: asksHelpers(2), Tools: []agent.Tool{helper.AsTool("help", "Helps.")},
			Limits: agent.Limits{Tokens: 9_000}})
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := boss.Run(ctx, "go", nil); ended <- err }()
		<-gate.Reached()
		synctest.Wait()
		cancel(errTest)
		if err := <-ended; !errors.Is(err, errTest) {
			t.Errorf("Run: got %v, want %v", err, errTest)
		}
	})
}
