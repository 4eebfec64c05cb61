package budget_test

import (
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/budget"
)

// BenchmarkReserveSettle is what a call costs beside itself: three accounts deep, as a
// sub-agent's.
func BenchmarkReserveSettle(b *testing.B) {
	leaf := func(b *testing.B) *budget.Account {
		a := budget.New("root", budget.Limits{Tokens: 1 << 50, ModelCalls: 1 << 50})
		for _, name := range []string{"one", "two"} {
			var err error
			if a, err = a.Child(name, budget.Limits{Tokens: 1 << 50}); err != nil {
				b.Fatal(err)
			}
		}
		return a
	}
	once := func(b *testing.B, a *budget.Account) {
		h, err := a.Reserve(budget.Amount{Tokens: 900, ModelCalls: 1})
		if err != nil {
			b.Error(err)
			return
		}
		h.Settle(budget.Amount{Tokens: 512, ModelCalls: 1})
	}
	b.Run("uncontended", func(b *testing.B) {
		a := leaf(b)
		b.ReportAllocs()
		for b.Loop() {
			once(b, a)
		}
	})
	b.Run("goroutines=64", func(b *testing.B) {
		a := leaf(b)
		b.ReportAllocs()
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range b.N/64 + 1 {
					once(b, a)
				}
			})
		}
		wg.Wait()
	})
}
