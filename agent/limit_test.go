package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/router"
)

// doubling is a model that doubles one number after the other, and answers when it may
// not.
func doubling() *llmtest.Model {
	var n atomic.Int64
	return llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		if req.ToolChoice == llm.ToolChoiceNone {
			return llmtest.Say("so far")
		}
		return call("double", fmt.Sprintf(`{"n":%d}`, n.Add(1)))
	}))
}

// TestMoneyNeedsAPrice: a limit of money refuses a model whose price nobody has stated,
// and names it.
func TestMoneyNeedsAPrice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		card := func(name string, price *llm.Price) router.Card {
			return router.Card{Model: llmtest.Script().Named(name), Price: price}
		}
		routed, err := router.New([]router.Card{card("p/known", &llm.Price{Input: 1}), card("p/stated", nil), card("p/unknown", nil)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		rt := open(t, &agent.Options{Model: llmtest.Script().Named("p/plain"), Prices: map[string]llm.Price{"p/stated": {}, "p/free": {}}})
		for name, model := range map[string]llm.Model{"p/plain": nil, "p/unknown": routed, "p/other": llmtest.Script().Named("p/other")} {
			_, err := rt.Agent("a", &agent.Config{Model: model, Limits: agent.Limits{Cost: llm.Unit}})
			var missing *agent.NoPriceError
			if !errors.As(err, &missing) || missing.Model != name || !strings.Contains(err.Error(), "Options.Prices") {
				t.Errorf("Agent with %s: got %v", name, err)
			}
			if _, err := rt.Agent("a", &agent.Config{Model: model}); err != nil {
				t.Errorf("Agent with %s and no limit of money: %v", name, err)
			}
		}
		a, err := rt.Agent("a", &agent.Config{Model: llmtest.Script().Named("p/free"), Limits: agent.Limits{Cost: llm.Unit}})
		if err != nil || !a.Priced() {
			t.Errorf("Agent with a model that costs nothing: %v", err)
		}
		for _, limits := range []agent.Limits{{Cost: -1}, {ModelCalls: -1}, {Depth: -1}, {OnLimit: "later"}} {
			if _, err := rt.Agent("a", &agent.Config{Limits: limits}); err == nil {
				t.Errorf("Agent with %+v: no error", limits)
			}
		}
		if _, err := agent.Open(t.Context(), &agent.Options{Prices: map[string]llm.Price{"p/x": {Output: -1}}}); err == nil {
			t.Error("Open with a price below zero: no error")
		}
	})
}

// priced is a model that knows what it costs.
type priced struct{ *llmtest.Model }

func (priced) Price(string) (llm.Price, bool) { return llm.Price{Input: 1}, true }

// wrapped is a model around another, and says so.
type wrapped struct{ llm.Model }

func (w wrapped) Unwrap() llm.Model { return w.Model }

// TestPriceOfTheModelItself: what a model says that it costs counts, also of one that is
// wrapped, and a router that is wrapped is as dear as its dearest model.
func TestPriceOfTheModelItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rt := open(t, nil)
		cheap := priced{llmtest.Script().Named("p/cheap")}
		for _, model := range []llm.Model{cheap, wrapped{cheap}} {
			a, err := rt.Agent("a", &agent.Config{Model: model, Limits: agent.Limits{Cost: llm.Unit}})
			if err != nil || !a.Priced() {
				t.Errorf("Agent with %T: got %v, want no error: it has a price", model, err)
			}
		}
		routed, err := router.New([]router.Card{{Model: cheap, Price: &llm.Price{Input: 1}}, {Model: llmtest.Script().Named("p/unknown")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = rt.Agent("a", &agent.Config{Model: wrapped{routed}, Limits: agent.Limits{Cost: llm.Unit}})
		if missing, ok := errors.AsType[*agent.NoPriceError](err); !ok || missing.Model != "p/unknown" {
			t.Errorf("Agent with a wrapped router: got %v, want that p/unknown has no price", err)
		}
	})
}

// TestCostOfARouter: a turn is reserved at the price of the dearest model, and charged
// at that of the one that has answered.
func TestCostOfARouter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cheap := llmtest.Script(llmtest.Say("hi").Usage(2_000_000, 1_000_000)).Named("p/cheap")
		routed, err := router.New([]router.Card{
			{Model: cheap, Price: &llm.Price{Input: 100, Output: 700}},
			{Model: llmtest.Script().Named("p/dear"), Price: &llm.Price{Input: 5, Output: llm.Unit}},
		}, &router.Options{Default: "p/cheap"})
		if err != nil {
			t.Fatal(err)
		}
		rt := open(t, &agent.Options{Model: routed})
		a, err := rt.Agent("a", &agent.Config{Limits: agent.Limits{Cost: llm.Unit / 1000}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := a.Run(t.Context(), "go", nil)
		if err != nil || res.Usage.Cost != 900 || res.Spent.Cost != 900 || res.Spent.ModelCalls != 1 {
			t.Errorf("Run: got %+v, %v", res, err)
		}
		if got := cheap.Requests()[0].MaxTokens; got < 990 || got > 1000 { // what a thousandth buys of the dear one
			t.Errorf("MaxTokens: got %d", got)
		}
	})
}

// TestTheDearestCounts: a turn is reserved at what the dearest of a router's models takes
// for input and for output, whichever it is.
func TestTheDearestCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dear := 1000 * llm.Unit // a thousandth for each token
		for name, price := range map[string]llm.Price{"input": {Input: dear}, "output": {Output: dear}} {
			for _, first := range []bool{false, true} {
				free := llmtest.Script(llmtest.Say("hi")).Named("p/free")
				cards := []router.Card{{Model: free, Price: &llm.Price{}}, {Model: llmtest.Script().Named("p/dear"), Price: &price}}
				if first {
					slices.Reverse(cards)
				}
				routed, err := router.New(cards, &router.Options{Default: "p/free"})
				if err != nil {
					t.Fatal(err)
				}
				a, err := open(t, nil).Agent("a", &agent.Config{Model: routed, Limits: agent.Limits{Cost: llm.Unit / 1000}})
				if err != nil {
					t.Fatal(err)
				}
				_, err = a.Run(t.Context(), "some words more", nil)
				asked := free.Requests()
				if name == "input" { // there is no room for it
					if limit, ok := errors.AsType[*agent.LimitError](err); !ok || limit.Limit != "cost" || len(asked) != 0 {
						t.Errorf("Run with dear input: got %v after %d requests, want the limit of money before any", err, len(asked))
					}
				} else if err != nil || len(asked) != 1 || asked[0].MaxTokens != 1 {
					t.Errorf("Run with dear output: got %v and requests %+v, want one for one token", err, asked)
				}
			}
		}
	})
}

// TestOnLimit: what a run does at a limit, as its events and its result tell it.
func TestOnLimit(t *testing.T) {
	tests := []struct {
		on     agent.OnLimit
		answer agent.Decision
		text   string
		steps  int
		events string // from the limit on
	}{
		{agent.LimitStop, agent.Decision{}, "", 2, "limit_reached run_finished"},
		{agent.LimitWrapUp, agent.Decision{}, "so far", 2, "limit_reached text model_turn run_finished"},
		{agent.LimitAsk, agent.Decline("enough"), "", 2, "limit_reached ask ask_settled run_finished"},
		{agent.LimitAsk, agent.AcceptMore("1"), "", 3, "limit_reached ask ask_settled limit_raised model_turn tool_started tool_result limit_reached ask ask_settled run_finished"},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprint(i, tt.on), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rt := open(t, &agent.Options{Model: doubling(), Tools: []agent.Tool{double}})
				a, err := rt.Agent("a", &agent.Config{Limits: agent.Limits{Steps: 2, OnLimit: tt.on}})
				if err != nil {
					t.Fatal(err)
				}
				run, err := a.Start(t.Context(), "go", nil)
				if err != nil {
					t.Fatal(err)
				}
				var seen []string
				asks := 0
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					seen = append(seen, ev.EventType())
					ask, ok := ev.(agent.Ask)
					if !ok {
						continue
					}
					if asks++; ask.Kind != "limit" || ask.Limit == nil || ask.Limit.Limit != "steps" || ask.Question != nil {
						t.Errorf("ask: %+v", ask)
					}
					d := tt.answer
					if asks > 1 {
						d = agent.Decline("")
					}
					if err := ask.Answer(t.Context(), d); err != nil {
						t.Error(err)
					}
				}
				res, err := run.Wait(t.Context())
				var limit *agent.LimitError
				if !errors.As(err, &limit) || res.StopReason != agent.StopLimit || res.Text != tt.text || res.Steps != tt.steps {
					t.Errorf("Wait: got %+v, %v", res, err)
				}
				at := slices.Index(seen, "limit_reached")
				if at < 0 || strings.Join(seen[at:], " ") != tt.events {
					t.Errorf("events:\n got %v\nwant %s", seen, tt.events)
				}
			})
		})
	}
}

// TestSubAgentsShareABudget: sub-agents that run side by side spend of one budget, and
// the result says what all of them have cost.
func TestSubAgentsShareABudget(t *testing.T) {
	for _, limits := range []agent.Limits{{ModelCalls: 7}, {Tokens: 4000}, {Cost: llm.Unit / 50}} {
		bubble(t, func(t *testing.T) {
			rt := open(t, &agent.Options{Prices: map[string]llm.Price{"llmtest/script": {Input: llm.Unit, Output: 5 * llm.Unit}}})
			helper, err := rt.Agent("helper", &agent.Config{Model: doubling(), Tools: []agent.Tool{double}, MaxTokens: 100})
			if err != nil {
				t.Fatal(err)
			}
			var calls []llmtest.Turn
			for i := range 4 {
				calls = append(calls, call("help", fmt.Sprintf(`{"prompt":"%d"}`, i)))
			}
			model := llmtest.Script(llmtest.Calls(calls...), llmtest.Say("done"))
			limits.OnLimit = agent.LimitWrapUp
			boss, err := rt.Agent("boss", &agent.Config{Model: model, Tools: []agent.Tool{helper.AsTool("help", "Helps.")}, Limits: limits, MaxTokens: 100})
			if err != nil {
				t.Fatal(err)
			}
			res, err := boss.Run(t.Context(), "go", nil)
			if res == nil || res.Text != "done" { // its last turn was held against all of them
				t.Fatalf("Run: got %+v, %v", res, err)
			}
			if limits.ModelCalls > 0 && res.Spent.ModelCalls != limits.ModelCalls ||
				limits.Tokens > 0 && (res.Spent.Tokens > limits.Tokens || res.Spent.Tokens < limits.Tokens/2) ||
				limits.Cost > 0 && (res.Spent.Cost > limits.Cost || res.Spent.Cost == 0) {
				t.Errorf("limits %+v, spent %+v", limits, res.Spent)
			}
			if res.Usage.Total() >= res.Spent.Tokens || res.Usage.Over != 0 || res.Usage.OverCost != 0 {
				t.Errorf("usage %+v, spent %+v", res.Usage, res.Spent)
			}
		})
	}
}
