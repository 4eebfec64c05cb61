package budget_test

import (
	"testing"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
)

// turn holds a turn of an account, which must have room.
func turn(t *testing.T, a *budget.Account, of budget.Turn) *budget.Hold {
	t.Helper()
	h, _, err := a.ReserveTurn(of)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestWaitForRoom: a turn waits for what turns of other runs hold, and for nothing else.
func TestWaitForRoom(t *testing.T) {
	whole := budget.Turn{Input: 100, Steps: 1}
	dear := llm.Price{Input: llm.Unit, Output: 10 * llm.Unit}
	tests := []struct {
		name  string
		limit budget.Limits
		held  func(t *testing.T, root, sibling, own *budget.Account)
		waits bool
	}{
		{"no limit", budget.Limits{}, func(t *testing.T, _, sibling, _ *budget.Account) { turn(t, sibling, whole) }, false},
		{"room for both", budget.Limits{Tokens: 20_000}, func(t *testing.T, _, sibling, _ *budget.Account) { turn(t, sibling, whole) }, false},
		{"a sibling's turn", budget.Limits{Tokens: 10_000}, func(t *testing.T, _, sibling, _ *budget.Account) { turn(t, sibling, whole) }, true},
		{"money", budget.Limits{Cost: llm.Unit / 100}, func(t *testing.T, _, sibling, _ *budget.Account) {
			turn(t, sibling, budget.Turn{Input: 100, Price: dear})
		}, true},
		{"a sibling's tool call", budget.Limits{Tokens: 10_000}, func(t *testing.T, _, sibling, _ *budget.Account) {
			hold(t, sibling, budget.Amount{Tokens: 9000})
		}, false},
		{"what was spent", budget.Limits{Tokens: 10_000}, func(t *testing.T, _, sibling, _ *budget.Account) {
			turn(t, sibling, whole).Settle(budget.Amount{Tokens: 9000})
		}, false},
		{"the turn of the run above", budget.Limits{Tokens: 10_000}, func(t *testing.T, root, _, _ *budget.Account) { turn(t, root, whole) }, false},
		{"a turn that leaves too little for the input", budget.Limits{Tokens: 8300}, func(t *testing.T, _, sibling, _ *budget.Account) { turn(t, sibling, whole) }, true},
		{"an input that never fits", budget.Limits{Tokens: 90}, func(t *testing.T, _, sibling, _ *budget.Account) {
			turn(t, sibling, budget.Turn{Input: 10})
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := budget.New("root", tt.limit)
			sibling, own := child(t, root, "sibling", budget.Limits{}), child(t, root, "own", budget.Limits{})
			tt.held(t, root, sibling, own)
			asked := whole
			if tt.limit.Cost != 0 {
				asked.Price = dear
			}
			stop, waits := own.WaitForRoom(asked, func() {})
			if waits != tt.waits {
				t.Errorf("WaitForRoom: got %v, want %v", waits, tt.waits)
			}
			if waits {
				stop()
			}
		})
	}
}

// TestWake: those who wait are called once for each time that something is given back,
// in their order, unless they have stopped.
func TestWake(t *testing.T) {
	give := map[string]func(h *budget.Hold, root, sibling *budget.Account){
		"settled":  func(h *budget.Hold, _, _ *budget.Account) { h.Settle(budget.Amount{Tokens: 1}) },
		"released": func(h *budget.Hold, _, _ *budget.Account) { h.Release() },
		"closed":   func(_ *budget.Hold, _, sibling *budget.Account) { sibling.Close() },
		"raised":   func(_ *budget.Hold, root, _ *budget.Account) { root.Raise(budget.Limits{Tokens: 10}) },
	}
	for name, give := range give {
		t.Run(name, func(t *testing.T) {
			root := budget.New("root", budget.Limits{Tokens: 10_000})
			sibling, own := child(t, root, "sibling", budget.Limits{}), child(t, root, "own", budget.Limits{})
			held := turn(t, sibling, budget.Turn{Input: 100})
			var woken []int
			var stops []func()
			for i := range 3 {
				stop, waits := own.WaitForRoom(budget.Turn{Input: 100}, func() { woken = append(woken, i) })
				if !waits {
					t.Fatal("the turn does not wait")
				}
				stops = append(stops, stop)
			}
			stops[1]()
			give(held, root, sibling)
			give(held, root, sibling)
			if len(woken) != 2 || woken[0] != 0 || woken[1] != 2 {
				t.Errorf("woken: %v, want 0 and 2", woken)
			}
			stops[0]() // late
		})
	}
}
