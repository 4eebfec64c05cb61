package budget_test

import (
	"testing"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
)

func TestReserveTurn(t *testing.T) {
	cent := llm.Unit / 100
	price := llm.Price{Input: 1 * llm.Unit, Output: 10 * llm.Unit} // a cent buys 1,000 tokens of output
	tests := []struct {
		name   string
		limits budget.Limits
		turn   budget.Turn
		output int
		held   budget.Amount
		limit  string // that has no room; empty for none
	}{
		{"no limit", budget.Limits{}, budget.Turn{Input: 10}, 0, budget.Amount{Tokens: 8202, ModelCalls: 1}, ""},
		{"no limit, but a bound", budget.Limits{}, budget.Turn{Input: 10, Output: 5}, 5, budget.Amount{Tokens: 15, ModelCalls: 1}, ""},
		{"room for the default", budget.Limits{Tokens: 1e6}, budget.Turn{Input: 10}, 8192, budget.Amount{Tokens: 8202, ModelCalls: 1}, ""},
		{"what is left", budget.Limits{Tokens: 100}, budget.Turn{Input: 10, Steps: 1}, 90, budget.Amount{Tokens: 100, ModelCalls: 1, Steps: 1}, ""},
		{"less than what is left", budget.Limits{Tokens: 100}, budget.Turn{Input: 10, Output: 20}, 20, budget.Amount{Tokens: 30, ModelCalls: 1}, ""},
		{"one token", budget.Limits{Tokens: 11}, budget.Turn{Input: 10}, 1, budget.Amount{Tokens: 11, ModelCalls: 1}, ""},
		{"no token", budget.Limits{Tokens: 10}, budget.Turn{Input: 10}, 0, budget.Amount{}, budget.Tokens},
		{"not worth while", budget.Limits{Tokens: 100}, budget.Turn{Input: 10, Least: 91}, 0, budget.Amount{}, budget.Tokens},
		{"a bound below the least", budget.Limits{Tokens: 100}, budget.Turn{Input: 10, Output: 50, Least: 91}, 50, budget.Amount{Tokens: 60, ModelCalls: 1}, ""},
		{"what money buys", budget.Limits{Cost: cent}, budget.Turn{Input: 1000, Price: price}, 900, budget.Amount{Tokens: 1900, Cost: cent, ModelCalls: 1}, ""},
		{"no money for the output", budget.Limits{Cost: cent}, budget.Turn{Input: 10_000, Price: price}, 0, budget.Amount{}, budget.Cost},
		{"no money for the input", budget.Limits{Cost: cent}, budget.Turn{Input: 10_001, Price: price}, 0, budget.Amount{}, budget.Cost},
		{"for nothing", budget.Limits{Cost: cent}, budget.Turn{Input: 10}, 8192, budget.Amount{Tokens: 8202, ModelCalls: 1}, ""},
		{"model calls", budget.Limits{ModelCalls: -1}, budget.Turn{Input: 10}, 0, budget.Amount{}, budget.ModelCalls},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := budget.New("a", tt.limits)
			h, output, err := a.ReserveTurn(tt.turn)
			if tt.limit != "" {
				if !isLimit(err, "a", tt.limit) || h != nil {
					t.Errorf("ReserveTurn: got %v, want the limit of %s", err, tt.limit)
				}
				return
			}
			if err != nil || output != tt.output || h.Amount() != tt.held {
				t.Errorf("ReserveTurn: got %+v, %d, %v, want %+v, %d", h.Amount(), output, err, tt.held, tt.output)
			}
		})
	}
	if _, _, err := budget.New("a", budget.Limits{}).ReserveTurn(budget.Turn{Input: -1}); err != budget.ErrNegative {
		t.Errorf("a turn of less than nothing: %v", err)
	}
}
