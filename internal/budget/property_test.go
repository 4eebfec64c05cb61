package budget_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
)

// tree is a random tree of accounts, and what its calls have cost beyond their
// reservations.
type tree struct {
	accounts []*budget.Account
	parent   []int
	limits   []budget.Limits

	mu    sync.Mutex
	errs  []budget.Amount // of each account: the errors of its own and its descendants' calls
	spent []budget.Amount
}

func newTree(t *testing.T, rnd *rand.Rand) *tree {
	t.Helper()
	limits := func() budget.Limits {
		some := func(n int) int { // none, or a limit
			if rnd.IntN(3) == 0 {
				return 0
			}
			return 1 + rnd.IntN(n)
		}
		return budget.Limits{Tokens: some(20_000), Cost: llm.Money(some(50_000)), ModelCalls: some(60), ToolCalls: some(60), Steps: some(30)}
	}
	w := &tree{}
	for i := range 1 + rnd.IntN(12) {
		l := limits()
		if i == 0 {
			w.accounts, w.parent = append(w.accounts, budget.New("root", l)), append(w.parent, -1)
		} else {
			p := rnd.IntN(i)
			w.accounts, w.parent = append(w.accounts, child(t, w.accounts[p], "child", l)), append(w.parent, p)
		}
		w.limits = append(w.limits, l)
	}
	w.errs, w.spent = make([]budget.Amount, len(w.accounts)), make([]budget.Amount, len(w.accounts))
	return w
}

// note counts what a call has cost, for the account and all above it.
func (w *tree) note(i int, spent, held budget.Amount) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for up := i; up >= 0; up = w.parent[up] {
		part := spent
		if up != i {
			part.Steps = 0
		}
		w.spent[up] = sum(w.spent[up], part)
		w.errs[up] = sum(w.errs[up], beyond(part, held))
	}
}

func sum(a, b budget.Amount) budget.Amount {
	return budget.Amount{Tokens: a.Tokens + b.Tokens, Cost: a.Cost + b.Cost, ModelCalls: a.ModelCalls + b.ModelCalls,
		ToolCalls: a.ToolCalls + b.ToolCalls, Steps: a.Steps + b.Steps}
}

// beyond is what a has more than b.
func beyond(a, b budget.Amount) budget.Amount {
	return budget.Amount{Tokens: max(0, a.Tokens-b.Tokens), Cost: max(0, a.Cost-b.Cost), ModelCalls: max(0, a.ModelCalls-b.ModelCalls),
		ToolCalls: max(0, a.ToolCalls-b.ToolCalls), Steps: max(0, a.Steps-b.Steps)}
}

// within checks the one thing that must hold at every moment: what is reserved, and
// what was spent of reservations, are no more than the limit.
func within(t *testing.T, r budget.Report) {
	t.Helper()
	for _, q := range []struct {
		name                        string
		reserved, spent, short, max int
	}{
		{"tokens", r.Reserved.Tokens, r.Spent.Tokens, r.Short.Tokens, r.Limits.Tokens},
		{"cost", int(r.Reserved.Cost), int(r.Spent.Cost), int(r.Short.Cost), int(r.Limits.Cost)},
		{"model calls", r.Reserved.ModelCalls, r.Spent.ModelCalls, r.Short.ModelCalls, r.Limits.ModelCalls},
		{"tool calls", r.Reserved.ToolCalls, r.Spent.ToolCalls, r.Short.ToolCalls, r.Limits.ToolCalls},
		{"steps", r.Reserved.Steps, r.Spent.Steps, r.Short.Steps, r.Limits.Steps},
	} {
		if q.max > 0 && q.reserved+q.spent-q.short > q.max {
			t.Errorf("%s of %s: %d reserved and %d spent of reservations, and the limit is %d", q.name, r.Name, q.reserved, q.spent-q.short, q.max)
		}
		if q.reserved < 0 || q.spent < q.short {
			t.Errorf("%s of %s: %d reserved, %d spent, %d short", q.name, r.Name, q.reserved, q.spent, q.short)
		}
	}
	for _, c := range r.Children {
		within(t, c)
	}
}

// work is one run: calls one after the other, with retries, cancels, and costs above
// what was held for them.
func (w *tree) work(rnd *rand.Rand, i int) (refused int) {
	a := w.accounts[i]
	for range 60 {
		var h *budget.Hold
		var err error
		price := llm.Price{Input: llm.Money(rnd.IntN(2_000_000)), Output: llm.Money(rnd.IntN(2_000_000))}
		switch rnd.IntN(4) {
		case 0:
			h, err = a.Reserve(budget.Amount{ToolCalls: 1})
		case 1:
			h, err = a.Reserve(budget.Amount{Tokens: rnd.IntN(900), Cost: llm.Money(rnd.IntN(900)), ModelCalls: 1})
		default:
			h, _, err = a.ReserveTurn(budget.Turn{Input: rnd.IntN(500), Output: rnd.IntN(800), Price: price, Steps: rnd.IntN(2)})
		}
		if err != nil {
			if _, ok := errors.AsType[*budget.LimitError](err); !ok {
				panic(err)
			}
			refused++
			continue
		}
		if rnd.IntN(4) == 0 {
			_ = h.Resize(budget.Amount{Tokens: rnd.IntN(900), ModelCalls: 1}) // either way it holds something
		}
		held := h.Amount()
		if rnd.IntN(4) == 0 { // cancelled, more than once
			h.Release()
			h.Settle(held)
			continue
		}
		spent := held
		spent.Tokens = spent.Tokens * rnd.IntN(130) / 100 // an estimate is as a rule too high, and at times too low
		spent.Cost = spent.Cost * llm.Money(rnd.IntN(130)) / 100
		w.note(i, spent, held) // before it counts: a reader sees no more than was noted
		h.Settle(spent)
		h.Settle(spent) // the same answer comes again
		h.Release()
	}
	return refused
}

// TestLimitsHold: whatever runs of a tree do at the same time, what is reserved and
// what was spent of reservations is within every limit at every moment; in the end
// nothing is reserved, and what was spent beyond a limit is no more than the errors of
// the estimates, which the report says.
func TestLimitsHold(t *testing.T) {
	refused := 0
	over := 0
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		w := newTree(t, rnd)
		done := make(chan struct{})
		var watch, runs sync.WaitGroup
		watch.Go(func() {
			for {
				within(t, w.accounts[0].Report())
				select {
				case <-done:
					return
				default:
				}
			}
		})
		var mu sync.Mutex
		for n := range 8 {
			i, own := rnd.IntN(len(w.accounts)), rand.New(rand.NewPCG(seed, uint64(100+n)))
			runs.Go(func() {
				n := w.work(own, i)
				mu.Lock()
				defer mu.Unlock()
				refused += n
			})
		}
		runs.Wait()
		close(done)
		watch.Wait()
		for i, a := range w.accounts {
			r := a.Report()
			within(t, r)
			if r.Reserved != (budget.Amount{}) {
				t.Errorf("seed %d, account %d: in the end %+v is reserved", seed, i, r.Reserved)
			}
			if r.Spent != w.spent[i] || r.Short != w.errs[i] {
				t.Errorf("seed %d, account %d: got %+v spent and %+v short, want %+v and %+v", seed, i, r.Spent, r.Short, w.spent[i], w.errs[i])
			}
			if beyond(r.Over, r.Short) != (budget.Amount{}) {
				t.Errorf("seed %d, account %d: %+v over its limits, and only %+v of estimates", seed, i, r.Over, r.Short)
			}
			if r.Over.Tokens > 0 {
				over++
			}
		}
		if t.Failed() {
			return
		}
	}
	if refused == 0 || over == 0 {
		t.Errorf("the test tests nothing: %d reservations were refused, %d accounts went over", refused, over)
	}
}

// TestOverIsOfCallsInFlight: once a limit is passed nothing more can be reserved, so
// that only calls that were in flight by then add to what is over.
func TestOverIsOfCallsInFlight(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		const limit = 1000
		root := budget.New("root", budget.Limits{Tokens: limit})
		a, b := child(t, root, "a", budget.Limits{}), child(t, root, "b", budget.Limits{})
		type flight struct {
			hold        *budget.Hold
			held, spent int
		}
		var open []flight
		bound := 0 // the errors of the calls that were in flight when there was no room any more
		for range 200 {
			r := root.Report()
			before := r.Spent.Tokens + r.Reserved.Tokens - limit
			if rnd.IntN(2) == 0 {
				n := rnd.IntN(120)
				h, err := []*budget.Account{a, b}[rnd.IntN(2)].Reserve(budget.Amount{Tokens: n})
				if err == nil {
					open = append(open, flight{h, n, n * rnd.IntN(200) / 100})
					if before >= 0 && n > 0 {
						t.Fatalf("seed %d: %d tokens were reserved beyond the limit", seed, n)
					}
				}
				continue
			}
			if len(open) == 0 {
				continue
			}
			i := rnd.IntN(len(open))
			f := open[i]
			if before <= 0 {
				bound = 0
				for _, g := range open {
					bound += max(0, g.spent-g.held)
				}
			}
			f.hold.Settle(budget.Amount{Tokens: f.spent})
			open = append(open[:i], open[i+1:]...)
			if got := root.Report().Over.Tokens; got > bound {
				t.Fatalf("seed %d: over by %d, and the errors in flight were %d", seed, got, bound)
			}
		}
	}
}

// TestCloseGivesBack: what a run held when it died is free again, whatever its calls
// do afterwards.
func TestCloseGivesBack(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 13))
		root := budget.New("root", budget.Limits{Tokens: 10_000, ModelCalls: 100})
		run := child(t, root, "run", budget.Limits{})
		sub := child(t, run, "sub", budget.Limits{Tokens: 5000})
		keep := hold(t, root, budget.Amount{Tokens: 77})
		var wg sync.WaitGroup
		for n := range 4 {
			own := rand.New(rand.NewPCG(seed, uint64(n)))
			wg.Go(func() {
				for range 30 {
					a := []*budget.Account{run, sub}[own.IntN(2)]
					h, err := a.Reserve(budget.Amount{Tokens: own.IntN(300), ModelCalls: 1})
					if err == nil && own.IntN(2) == 0 {
						h.Settle(budget.Amount{Tokens: own.IntN(300), ModelCalls: 1})
					}
				}
			})
		}
		if rnd.IntN(2) == 0 {
			wg.Wait()
		}
		run.Close()
		wg.Wait()
		r := root.Report()
		if r.Reserved != (budget.Amount{Tokens: 77}) || len(r.Children) != 0 {
			t.Fatalf("seed %d: after Close %+v is reserved, and there are %d children", seed, r.Reserved, len(r.Children))
		}
		within(t, r)
		keep.Release()
	}
}
