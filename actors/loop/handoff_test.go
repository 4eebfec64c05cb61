package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// handOff is a tool that hands the conversation over.
func handOff(to func() *loop.Config) loop.Tool {
	t := tool("transfer", func(context.Context, *loop.Call) (string, error) { return "it is yours", nil })
	t.HandOff = to
	return t
}

// TestWrapUpAfterAHandOff: the last turn was held at the first agent's price, and is
// asked of a dearer one: it gets the output that what was held and what is left buys,
// and is not asked where that is none.
func TestWrapUpAfterAHandOff(t *testing.T) {
	tests := []struct {
		name  string
		dear  llm.Price
		asked bool
	}{
		{"dearer", llm.Price{Input: 2 * llm.Unit, Output: 12 * llm.Unit}, true},
		{"not to be paid", llm.Price{Input: 5000 * llm.Unit, Output: 5000 * llm.Unit}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				second := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
					return llmtest.Say("so far").Usage(llm.EstimateTokens(req), req.MaxTokens)
				}))
				first := llmtest.Script(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
					return llmtest.Call("transfer", nil).Usage(llm.EstimateTokens(req), 60)
				}))
				cfg := b.config(first, handOff(func() *loop.Config {
					return &loop.Config{Agent: "second", Model: second, Pricing: &loop.Pricing{Most: tt.dear}, Own: loop.Own{Gate: allow}}
				}))
				// Enough for the first agent's turn and its last one, and for no other.
				cfg.Limits = loop.Limits{Cost: llm.Unit / 1000, OnLimit: runlog.LimitWrapUp}
				cfg.Pricing = priced(llm.Unit, 2*llm.Unit)
				out := b.finish(b.start(cfg))
				if out.State != store.Limited || (out.Text == "so far") != tt.asked || (len(second.Requests()) == 1) != tt.asked {
					t.Errorf("outcome: %+v after %d questions to the second model", out, len(second.Requests()))
				}
				if out.Usage.OverCost != 0 || out.Spent.Cost > cfg.Limits.Cost {
					t.Errorf("spent %v of %v, over by %v", out.Spent.Cost, cfg.Limits.Cost, out.Usage.OverCost)
				}
			})
		})
	}
}

// TestHandOffToAnotherModel: what the first model counted beside the bytes is not expected
// of the second, nor is the conversation cut for it, and the first one's gate does not decide for the second agent.
func TestHandOffToAnotherModel(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		first := llmtest.Script(llmtest.Call("transfer", nil).Usage(5000, 5))
		second := llmtest.Script(llmtest.Call("echo", nil), llmtest.Call("read", nil), llmtest.Say("done"))
		cfg := b.config(first, handOff(func() *loop.Config {
			return &loop.Config{Agent: "second", Model: second, Context: 400, Own: loop.Own{Tools: tools{tool("echo", echo), tool("read", big(60))},
				Gate: func(_ context.Context, t *loop.Tool, _ json.RawMessage) guard.Verdict {
					if t.Name == "echo" {
						return guard.Deny
					}
					return guard.Allow
				}}}
		}))
		cfg.Context = 100_000
		if out := b.finish(b.start(cfg)); out.Text != "done" || out.ToolCalls != 2 || len(b.cuts()) != 0 {
			t.Errorf("outcome: %+v, cuts %+v", out, b.cuts())
		}
		for _, e := range b.events() {
			if intent, ok := e.Body.(*runlog.ModelIntent); ok && intent.Turn == 2 && intent.Reserved != llm.EstimateTokens(second.Requests()[0]) {
				t.Errorf("reserved for the second model: got %d, want %d", intent.Reserved, llm.EstimateTokens(second.Requests()[0]))
			}
		}
	})
}

// TestHandOffNeedsAPrice: money that is limited is not spent on a model of unknown price.
func TestHandOffNeedsAPrice(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		second := llmtest.Script(llmtest.Say("done")).Named("p/unknown")
		cfg := b.config(llmtest.Script(llmtest.Call("transfer", nil)), handOff(func() *loop.Config {
			return &loop.Config{Agent: "second", Model: second, Own: loop.Own{Gate: allow}}
		}))
		cfg.Limits.Cost, cfg.Pricing = llm.Unit, priced(1, 1)
		out := b.finish(b.start(cfg))
		if missing, ok := errors.AsType[*loop.NoPriceError](out.Err); !ok || missing.Model != "p/unknown" || len(second.Requests()) != 0 {
			t.Errorf("outcome: %+v after %d questions", out, len(second.Requests()))
		}
	})
}
