package budget_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
)

func hold(t *testing.T, a *budget.Account, n budget.Amount) *budget.Hold {
	t.Helper()
	h, err := a.Reserve(n)
	if err != nil {
		t.Fatalf("Reserve(%+v): %v", n, err)
	}
	return h
}

func child(t *testing.T, a *budget.Account, name string, l budget.Limits) *budget.Account {
	t.Helper()
	c, err := a.Child(name, l)
	if err != nil {
		t.Fatalf("Child(%q): %v", name, err)
	}
	return c
}

func TestLimits(t *testing.T) {
	tests := []struct {
		name   string
		limits budget.Limits
		ask    budget.Amount
		want   string // of the error; empty for none
	}{
		{"none", budget.Limits{}, budget.Amount{Tokens: 1e9, Cost: 1e15, ModelCalls: 7, ToolCalls: 7, Steps: 7}, ""},
		{"exactly", budget.Limits{Tokens: 5}, budget.Amount{Tokens: 5}, ""},
		{"tokens", budget.Limits{Tokens: 5}, budget.Amount{Tokens: 6}, "the run has reached its limit: 5 tokens (what comes next may take 6, and 5 are left)"},
		{"cost", budget.Limits{Cost: llm.Unit / 4}, budget.Amount{Cost: llm.Unit}, "the run has reached its limit: a cost of 0.25 (what comes next may cost 1.00, and 0.25 is left)"},
		{"model calls", budget.Limits{ModelCalls: 1}, budget.Amount{ModelCalls: 2}, "the run has reached its limit: 1 model calls"},
		{"tool calls", budget.Limits{ToolCalls: 1}, budget.Amount{ToolCalls: 2}, "the run has reached its limit: 1 tool calls"},
		{"steps", budget.Limits{Steps: 1}, budget.Amount{Steps: 2}, "the run has reached its limit: 1 steps"},
		{"nothing allowed", budget.Limits{Tokens: -1}, budget.Amount{Tokens: 1}, "the run has reached its limit: 0 tokens (what comes next may take 1, and 0 are left)"},
		{"nothing asked of nothing", budget.Limits{Tokens: -1}, budget.Amount{ToolCalls: 1}, ""},
		{"negative", budget.Limits{Tokens: 5}, budget.Amount{Tokens: -1}, budget.ErrNegative.Error()},
		{"negative money", budget.Limits{}, budget.Amount{Cost: -1}, budget.ErrNegative.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := budget.New("r", tt.limits)
			h, err := a.Reserve(tt.ask)
			if got := errText(err); got != tt.want || (h == nil) != (err != nil) {
				t.Errorf("Reserve(%+v): got %v, %q, want %q", tt.ask, h, got, tt.want)
			}
			if r := a.Report(); err != nil && r.Reserved != (budget.Amount{}) {
				t.Errorf("a refused reservation holds %+v", r.Reserved)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestPath: a reservation is of the whole path, or of nothing.
func TestPath(t *testing.T) {
	root := budget.New("root", budget.Limits{Tokens: 100})
	mid := child(t, root, "mid", budget.Limits{Tokens: 1000, Steps: 2})
	leaf := child(t, mid, "leaf", budget.Limits{Tokens: 50, Steps: 9})
	other := child(t, root, "other", budget.Limits{})

	h := hold(t, leaf, budget.Amount{Tokens: 40, Steps: 5})
	if r := root.Report(); r.Reserved != (budget.Amount{Tokens: 40}) {
		t.Errorf("of the root: %+v; steps are one run's", r.Reserved)
	}
	if _, err := leaf.Reserve(budget.Amount{Tokens: 11}); !isLimit(err, "leaf", budget.Tokens) || strings.Contains(err.Error(), "leaf") {
		t.Errorf("beyond its own: %v", err)
	}
	if _, err := other.Reserve(budget.Amount{Tokens: 61}); !isLimit(err, "root", budget.Tokens) || !strings.HasSuffix(err.Error(), ", that of root (what comes next may take 61, and 60 are left)") {
		t.Errorf("beyond the root's: %v", err)
	}
	if r := other.Report(); r.Reserved != (budget.Amount{}) {
		t.Errorf("a refused reservation holds %+v", r.Reserved)
	}
	if got := leaf.Left(); got.Tokens != 10 || got.Steps != 4 || got.ToolCalls != budget.Unlimited || got.Cost != budget.Unlimited {
		t.Errorf("Left: %+v", got)
	}
	h.Settle(budget.Amount{Tokens: 25, Steps: 5})
	if got := other.Left(); got.Tokens != 75 || got.Steps != budget.Unlimited {
		t.Errorf("Left of the other: %+v", got)
	}
	r := root.Report()
	if r.Spent != (budget.Amount{Tokens: 25}) || r.Reserved != (budget.Amount{}) || r.Over != (budget.Amount{}) || r.Short != (budget.Amount{}) {
		t.Errorf("Report: %+v", r)
	}
	if len(r.Children) != 2 || r.Children[0].Children[0].Spent != (budget.Amount{Tokens: 25, Steps: 5}) {
		t.Errorf("Report of the children: %+v", r.Children)
	}
}

func isLimit(err error, account, limit string) bool {
	e, ok := errors.AsType[*budget.LimitError](err)
	return ok && e.Account == account && e.Limit == limit && e.At().Name() == account
}

// TestHoldCountsOnce: the first of Settle, Release and Close decides.
func TestHoldCountsOnce(t *testing.T) {
	settle := func(_ *budget.Account, h *budget.Hold) { h.Settle(budget.Amount{Tokens: 3}) }
	release := func(_ *budget.Account, h *budget.Hold) { h.Release() }
	closing := func(a *budget.Account, _ *budget.Hold) { a.Close() }
	type act = func(*budget.Account, *budget.Hold)
	tests := []struct {
		name         string
		acts         []act
		spent, short int
	}{
		{"settled twice", []act{settle, settle}, 3, 0},
		{"released, then settled", []act{release, settle}, 0, 0},
		{"settled, then released", []act{settle, release, release}, 3, 0},
		{"settled, then closed", []act{settle, closing, closing}, 3, 0},
		{"closed, then released", []act{closing, release}, 0, 0},
		{"closed, then settled", []act{closing, settle, settle}, 3, 3}, // it was spent all the same
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := budget.New("root", budget.Limits{Tokens: 10})
			a := child(t, root, "a", budget.Limits{})
			keep := hold(t, root, budget.Amount{Tokens: 2})
			h := hold(t, a, budget.Amount{Tokens: 5})
			for _, f := range tt.acts {
				f(a, h)
			}
			r := root.Report()
			if r.Reserved.Tokens != 2 || r.Spent.Tokens != tt.spent || r.Short.Tokens != tt.short {
				t.Errorf("Report: %+v, want %d spent, %d short, and 2 reserved by another", r, tt.spent, tt.short)
			}
			if h.Amount() != (budget.Amount{}) {
				t.Errorf("Amount: %+v", h.Amount())
			}
			if err := h.Resize(budget.Amount{Tokens: 1}); err == nil {
				t.Error("Resize of a hold that has ended: no error")
			}
			keep.Release()
		})
	}
}

// TestOver: what a call costs beyond its reservation is charged and reported, and
// nothing can be reserved before there is room again.
func TestOver(t *testing.T) {
	root := budget.New("root", budget.Limits{Tokens: 100})
	a := child(t, root, "a", budget.Limits{Tokens: 60})
	one, two := hold(t, a, budget.Amount{Tokens: 30}), hold(t, a, budget.Amount{Tokens: 30})
	one.Settle(budget.Amount{Tokens: 45})
	two.Settle(budget.Amount{Tokens: 70})
	r := root.Report()
	if r.Spent.Tokens != 115 || r.Over.Tokens != 15 || r.Short.Tokens != 55 || r.Children[0].Over.Tokens != 55 {
		t.Errorf("Report: %+v", r)
	}
	if got := a.Left().Tokens; got != 0 {
		t.Errorf("Left: %d", got)
	}
	if _, err := a.Reserve(budget.Amount{Tokens: 1}); !isLimit(err, "a", budget.Tokens) {
		t.Errorf("Reserve beyond the limit: %v", err)
	}
	negative := hold(t, a, budget.Amount{ToolCalls: 1})
	negative.Settle(budget.Amount{Tokens: -50, Cost: -1, ToolCalls: 1})
	if got := a.Report().Spent; got != (budget.Amount{Tokens: 115, ToolCalls: 1}) {
		t.Errorf("a negative amount was given back: %+v", got)
	}
}

// TestNothingOverflows: sums stay in range, and a limit is not passed by going around.
func TestNothingOverflows(t *testing.T) {
	most := budget.Amount{Tokens: math.MaxInt, Cost: math.MaxInt64, ModelCalls: math.MaxInt, ToolCalls: math.MaxInt, Steps: math.MaxInt}
	for _, limits := range []budget.Limits{{}, {Tokens: math.MaxInt, Cost: math.MaxInt64}} {
		a := budget.New("a", limits)
		h := hold(t, a, most)
		if _, err := a.Reserve(budget.Amount{Tokens: 1}); err == nil {
			t.Error("more than can be counted was reserved")
		}
		h.Settle(most)
		next, err := a.Reserve(budget.Amount{})
		if err != nil {
			t.Fatal(err)
		}
		next.Settle(most)
		if got := a.Report(); got.Spent != most || got.Reserved != (budget.Amount{}) {
			t.Errorf("Report: %+v", got)
		}
		a.Raise(budget.Limits{Tokens: math.MaxInt, Cost: math.MaxInt64})
		if got := a.Left().Tokens; got < 0 {
			t.Errorf("Left: %d", got)
		}
	}
	turn := budget.Turn{Input: math.MaxInt, Output: math.MaxInt, Price: llm.Price{Input: math.MaxInt64, Output: math.MaxInt64}}
	if got := turn.Amount(math.MaxInt); got.Tokens != math.MaxInt || got.Cost != math.MaxInt64 {
		t.Errorf("Amount: %+v", got)
	}
	if _, _, err := budget.New("a", budget.Limits{Tokens: 1}).ReserveTurn(turn); err == nil {
		t.Error("a turn of all tokens fits one")
	}
}

func TestDepth(t *testing.T) {
	root := budget.New("root", budget.Limits{Depth: 2})
	one := child(t, root, "one", budget.Limits{Depth: 7})
	two := child(t, one, "two", budget.Limits{})
	_, err := two.Child("three", budget.Limits{})
	if !isLimit(err, "root", budget.Depth) || errText(err) != "the run has reached its limit: a depth of 2, that of root" {
		t.Errorf("Child: got %v", err)
	}
	root.Raise(budget.Limits{Depth: 1})
	three := child(t, two, "three", budget.Limits{Depth: -1})
	if _, err := three.Child("four", budget.Limits{}); !isLimit(err, "root", budget.Depth) && !isLimit(err, "three", budget.Depth) {
		t.Errorf("Child: got %v", err)
	}
	one.Close()
	for _, a := range []*budget.Account{one, two, three} {
		if _, err := a.Child("x", budget.Limits{}); !errors.Is(err, budget.ErrClosed) {
			t.Errorf("Child of the closed %s: got %v", a.Name(), err)
		}
		if _, err := a.Reserve(budget.Amount{}); !errors.Is(err, budget.ErrClosed) {
			t.Errorf("Reserve of the closed %s: got %v", a.Name(), err)
		}
		if got := a.Left(); got != (budget.Amount{}) {
			t.Errorf("Left of the closed %s: %+v", a.Name(), got)
		}
	}
	if r := root.Report(); len(r.Children) != 0 {
		t.Errorf("children that are closed: %+v", r.Children)
	}
}

// TestRaise: what a human allows is what the error asks for.
func TestRaise(t *testing.T) {
	tests := []struct {
		name    string
		limits  budget.Limits
		ask     budget.Amount
		amount  string // that is allowed
		more    string // that is asked for
		refused string
		fits    bool // afterwards
	}{
		{"the same again", budget.Limits{Tokens: 10}, budget.Amount{Tokens: 15}, "", "10", "", true},
		{"what it lacks", budget.Limits{Tokens: 10}, budget.Amount{Tokens: 35}, "", "25", "", true},
		{"less than it takes", budget.Limits{Tokens: 10}, budget.Amount{Tokens: 35}, "24", "25", "", false},
		{"money", budget.Limits{Cost: llm.Unit}, budget.Amount{Cost: llm.Unit * 3 / 2}, "0.5", "1.00", "", true},
		{"calls", budget.Limits{ToolCalls: 1}, budget.Amount{ToolCalls: 2}, "", "1", "", true},
		{"model calls", budget.Limits{ModelCalls: 1}, budget.Amount{ModelCalls: 2}, "", "1", "", true},
		{"steps", budget.Limits{Steps: 1}, budget.Amount{Steps: 2}, "", "1", "", true},
		{"of nothing", budget.Limits{Tokens: -1}, budget.Amount{Tokens: 3}, "", "3", "", true},
		{"zero", budget.Limits{Tokens: 10}, budget.Amount{Tokens: 15}, "0", "10", "no amount", false},
		{"negative", budget.Limits{Tokens: 10}, budget.Amount{Tokens: 15}, "-5", "10", "no amount", false},
		{"no number", budget.Limits{Tokens: 10}, budget.Amount{Tokens: 15}, "lots", "10", "no amount", false},
		{"too large a number", budget.Limits{Tokens: 10}, budget.Amount{Tokens: 15}, "99999999999999999999", "10", "no amount", false},
		{"money as none", budget.Limits{Cost: llm.Unit}, budget.Amount{Cost: llm.Unit * 2}, "1,5", "1.00", "no amount", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := budget.New("a", tt.limits)
			_, err := a.Reserve(tt.ask)
			limit, ok := errors.AsType[*budget.LimitError](err)
			if !ok {
				t.Fatalf("Reserve: %v", err)
			}
			if got, err := limit.Default(); err != nil || got != tt.more {
				t.Errorf("Default: got %q, %v, want %q", got, err, tt.more)
			}
			more, err := limit.More(tt.amount)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("More(%q): got %v, want the error %q", tt.amount, err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatalf("More(%q): %v", tt.amount, err)
			}
			limit.At().Raise(more)
			if _, err := a.Reserve(tt.ask); (err == nil) != tt.fits {
				t.Errorf("Reserve after More(%q): got %v", tt.amount, err)
			}
		})
	}
	a := budget.New("a", budget.Limits{Tokens: -1})
	a.Raise(budget.Limits{Tokens: -5, ToolCalls: 5})
	if _, err := a.Reserve(budget.Amount{Tokens: 1}); err == nil {
		t.Error("a limit was raised by less than nothing")
	}
	if got := a.Left().ToolCalls; got != budget.Unlimited {
		t.Errorf("what had no limit has one: %d", got)
	}
	if _, err := (&budget.LimitError{Limit: budget.WallTime, Max: "1h"}).More("5"); err == nil {
		t.Error("an account's wall time was raised")
	}
}

func TestResize(t *testing.T) {
	a := budget.New("a", budget.Limits{Tokens: 100})
	last := hold(t, a, budget.Amount{Tokens: 20})
	rest := hold(t, a, budget.Amount{Tokens: 50})
	if err := last.Resize(budget.Amount{Tokens: 50}); err != nil {
		t.Fatalf("Resize to what is left: %v", err)
	}
	if err := last.Resize(budget.Amount{Tokens: 51}); !isLimit(err, "a", budget.Tokens) {
		t.Errorf("Resize beyond the limit: %v", err)
	}
	if got := last.Amount().Tokens; got != 50 {
		t.Errorf("a hold that could not grow holds %d", got)
	}
	if err := last.Resize(budget.Amount{Tokens: -1}); !errors.Is(err, budget.ErrNegative) {
		t.Errorf("Resize below zero: %v", err)
	}
	if err := last.Resize(budget.Amount{Tokens: 5}); err != nil || a.Left().Tokens != 45 {
		t.Errorf("Resize to less: %v, and left are %d", err, a.Left().Tokens)
	}
	rest.Release()
	a.Close()
	if err := last.Resize(budget.Amount{}); !errors.Is(err, budget.ErrClosed) {
		t.Errorf("Resize after Close: %v", err)
	}
}

// FuzzMore: an amount that a human has typed is an error, or allows more than nothing.
func FuzzMore(f *testing.F) {
	for _, s := range []string{"", "1", "0.5", "-1", "99999999999999999999", "1e9", "0x10", " 5"} {
		f.Add(s, s == "0.5")
	}
	f.Fuzz(func(t *testing.T, amount string, money bool) {
		limits, ask := budget.Limits{Tokens: 10}, budget.Amount{Tokens: 11}
		if money {
			limits, ask = budget.Limits{Cost: 10}, budget.Amount{Cost: 11}
		}
		_, err := budget.New("a", limits).Reserve(ask)
		limit, ok := errors.AsType[*budget.LimitError](err)
		if !ok {
			t.Fatal(err)
		}
		more, err := limit.More(amount)
		if err == nil && more.Tokens <= 0 && more.Cost <= 0 || more.Tokens < 0 || more.Cost < 0 {
			t.Errorf("More(%q): got %+v, %v", amount, more, err)
		}
	})
}
