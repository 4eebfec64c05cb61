package agent_test

import (
	"context"
	"iter"
	"maps"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/router"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store/memstore"
)

// SECA-43, SAMP-31: a server that asks again and again is stopped by what it was given:
// requests, tokens, or money; the user reads the reason.
func TestSamplingBudgets(t *testing.T) {
	tests := []struct {
		name   string
		policy agent.SamplingPolicy
		limits agent.Limits
		turns  int
		want   string
	}{
		{"requests", agent.SamplingPolicy{Requests: 3}, agent.Limits{}, 3, "the server bank has had"},
		{"tokens", agent.SamplingPolicy{Tokens: 40}, agent.Limits{}, 0, "the server bank has had"},
		{"rate", agent.SamplingPolicy{PerMinute: 2}, agent.Limits{}, 2, "2 requests in a minute"},
		{"the run's", agent.SamplingPolicy{}, agent.Limits{ModelCalls: 4}, 3, "the run has reached"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inEras(t, func(t *testing.T, protocol string) {
				model := llmtest.Loop(llmtest.Say("again"))
				tt.policy.Mode = mcpclient.SamplingAllow
				results, err := answered(t, &agent.Options{
					Servers:  []mcpclient.Server{asking(t, "bank", protocol, 7, question("more?"))},
					Sampling: &agent.Sampling{Model: model, Default: tt.policy},
				}, nil, tt.limits)
				if tt.limits == (agent.Limits{}) && err != nil {
					t.Fatal(err)
				}
				if len(results) != 1 || !strings.Contains(results[0], "sampling refused") || !strings.Contains(results[0], tt.want) {
					t.Errorf("result: got %q, want a refusal with %q", results, tt.want)
				}
				if n := len(model.Requests()); tt.turns != 0 && n != tt.turns || n == 0 || n == 7 {
					t.Errorf("the model was asked %d times, want %d", n, tt.turns)
				}
			})
		})
	}
}

// What is sampled during a call is the run's to pay, beside the server's (SECA-43): in
// tokens, calls and money. Money is the server's limit as well as the run's.
func TestSamplingIsCharged(t *testing.T) {
	prices := map[string]llm.Price{"llmtest/script": {}, "sampled/model": {Input: 1000 * llm.Unit, Output: 2000 * llm.Unit}}
	tests := []struct {
		name   string
		policy agent.SamplingPolicy
		limits agent.Limits
		want   string // in the result of the tool
		calls  int    // of models in the whole run
		cost   llm.Money
	}{
		{"as it is", agent.SamplingPolicy{}, agent.Limits{}, "Hi", 3, prices["sampled/model"].Of(100, 10)},
		{"the server's money", agent.SamplingPolicy{Cost: llm.Unit / 100}, agent.Limits{}, "the server bank has had what it was given of the model: a cost of 0.01", 2, 0},
		{"money without a price", agent.SamplingPolicy{}, agent.Limits{Cost: llm.Unit}, "the price of sampled/model is not known", 2, 0},
		{"the run's money", agent.SamplingPolicy{}, agent.Limits{Cost: llm.Unit / 100}, "the run has reached its limit", 2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inEras(t, func(t *testing.T, protocol string) {
				tt.policy.Mode = mcpclient.SamplingAllow
				known := maps.Clone(prices)
				if strings.Contains(tt.want, "not known") {
					delete(known, "sampled/model")
				}
				s := memstore.New(nil)
				rt := open(t, &agent.Options{Store: s, Model: llmtest.Script(call("bank__ask", nil), llmtest.Say("done")), Approve: agent.NeverAsk, Prices: known,
					Servers:  []mcpclient.Server{asking(t, "bank", protocol, 1, question("Hello"))},
					Sampling: &agent.Sampling{Model: llmtest.Script(llmtest.Say("Hi").Usage(100, 10)).Named("sampled/model"), Default: tt.policy}})
				a, err := rt.Agent("agent", &agent.Config{Limits: tt.limits})
				if err != nil {
					t.Fatal(err)
				}
				run, err := a.Start(t.Context(), "go", nil)
				if err != nil {
					t.Fatal(err)
				}
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if ev, ok := ev.(agent.ToolResult); ok && !strings.Contains(ev.Result.Content.Text(), tt.want) {
						t.Errorf("result: got %q, want %q", ev.Result.Content.Text(), tt.want)
					}
				}
				res, err := run.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if res.Spent.ModelCalls != tt.calls || res.Spent.Cost != tt.cost || res.Steps != 2 {
					t.Errorf("spent: got %+v in %d steps, want %d calls and %v", res.Spent, res.Steps, tt.calls, tt.cost)
				}
				wantJournalled(t, s, run.ID(), runlog.SpentSampling, tt.calls-2)
				if own := res.Usage.Total(); tt.cost > 0 && res.Spent.Tokens != own+110 {
					t.Errorf("tokens: got %d, of the run itself %d", res.Spent.Tokens, own)
				}
			})
		})
	}
}

// brokenModel says so much, and then its connection is gone.
type brokenModel int

// Name implements [llm.Model].
func (brokenModel) Name() string { return "llmtest/broken" }

// Stream implements [llm.Model].
func (m brokenModel) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if yield(llm.TextDelta{Text: strings.Repeat("x", int(m))}, nil) {
			yield(nil, errTest)
		}
	}
}

// An answer that breaks off has cost what came of it: else a server that cancels each of
// its requests before the end has the model for nothing (SECA-43).
func TestSamplingBrokenOffIsCharged(t *testing.T) {
	inEras(t, func(t *testing.T, protocol string) {
		s := memstore.New(nil)
		rt := open(t, &agent.Options{Store: s, Model: llmtest.Script(call("bank__ask", nil), llmtest.Say("done")), Approve: agent.NeverAsk,
			Servers:  []mcpclient.Server{asking(t, "bank", protocol, 1, question("Hello"))},
			Sampling: &agent.Sampling{Model: brokenModel(4000), Default: allow}})
		res, err := rt.Run(t.Context(), "go")
		if err != nil {
			t.Fatal(err)
		}
		if sampled := res.Spent.Tokens - res.Usage.Total(); sampled < 1000 || sampled > 1100 || res.Spent.ModelCalls != 3 {
			t.Errorf("spent: got %d sampled tokens in %d calls, want the thousand of the answer, and the question", sampled, res.Spent.ModelCalls)
		}
		wantJournalled(t, s, res.RunID, runlog.SpentSampling, 1)
	})
}

// One answer is never longer than the policy, and what is left of the budget, allow
// (SAMP-08).
func TestSamplingMaxTokens(t *testing.T) {
	inEras(t, func(t *testing.T, protocol string) {
		model := llmtest.Script(llmtest.Say("Hi"))
		p := allow
		p.MaxTokens = 7
		if _, err := answered(t, &agent.Options{Servers: []mcpclient.Server{asking(t, "bank", protocol, 1, question("Hi"))},
			Sampling: &agent.Sampling{Model: model, Default: p}}, nil, agent.Limits{}); err != nil {
			t.Fatal(err)
		}
		if got := model.Requests()[0].MaxTokens; got != 7 {
			t.Errorf("MaxTokens: got %d, want 7", got)
		}
	})
}

// SAMP-09: the server's preferences choose among the models that its policy allows, and
// it is charged at the price of the one that has answered, whose name it is told.
func TestSamplingModels(t *testing.T) {
	tests := []struct {
		name   string
		models []string
		hint   string
		want   string
	}{
		{"a hint", nil, "big", "big"},
		{"no hint", nil, "", "small"},
		{"a hint that is not allowed", []string{"small", "middle"}, "big", "small"},
		{"only one is", []string{"test/BIG"}, "small", "big"},
		{"only one is, and no hint", []string{"big"}, "", "big"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var cards []router.Card
				for name, unit := range map[string]llm.Money{"small": 1, "middle": 2, "big": 3} {
					cards = append(cards, router.Card{Model: llmtest.Script(llmtest.Say("I am "+name).Usage(1_000_000, 0)).Named("test/" + name), Price: &llm.Price{Input: unit * llm.Unit}})
				}
				r, err := router.New(cards, &router.Options{Default: "test/small"})
				if err != nil {
					t.Fatal(err)
				}
				p := question("Who?")
				if tt.hint != "" {
					p.ModelPreferences = &mcp.ModelPreferences{Hints: []mcp.ModelHint{{Name: tt.hint}}}
				}
				rt := open(t, &agent.Options{Model: llmtest.Script(call("bank__ask", nil), llmtest.Say("done")), Approve: agent.NeverAsk,
					Prices:   map[string]llm.Price{"llmtest/script": {}},
					Servers:  []mcpclient.Server{asking(t, "bank", "", 1, p)},
					Sampling: &agent.Sampling{Model: r, Default: agent.SamplingPolicy{Mode: mcpclient.SamplingAllow, Models: tt.models}}})
				run := start(t, rt, "r")
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if ev, ok := ev.(agent.ToolResult); ok && !strings.Contains(ev.Result.Content.Text(), "I am "+tt.want) {
						t.Errorf("result: got %q, want that of %s", ev.Result.Content.Text(), tt.want)
					}
				}
				res, err := run.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if want := map[string]llm.Money{"small": 1, "big": 3}[tt.want] * llm.Unit; res.Spent.Cost != want {
					t.Errorf("cost: got %v, want %v", res.Spent.Cost, want)
				}
			})
		})
	}
}
