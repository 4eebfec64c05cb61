//go:build !race

package actors_test

import "testing"

// TestIdleActorMemory holds the budget of an idle call actor. (The race detector
// keeps books of its own.)
func TestIdleActorMemory(t *testing.T) {
	const budget = 740
	if got := idleBytes(t, 100_000, true); got > budget {
		t.Errorf("an idle inline actor takes %.0f B, want at most %d", got, budget)
	}
}
