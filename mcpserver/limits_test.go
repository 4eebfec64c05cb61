package mcpserver

import (
	"fmt"
	"math"
	"testing"
)

// TOOL-15, ROB-3: the principals that are remembered are bounded, and the one who asked
// last is remembered.
func TestLimitsAreBounded(t *testing.T) {
	l := newLimits(0.001, 1)
	first := l.of("first")
	if !first.Allow() || first.Allow() {
		t.Fatal("a burst of one allows one")
	}
	for i := range maxLimited - 1 {
		l.of(fmt.Sprint(i))
	}
	if l.of("first") != first {
		t.Error("a principal among the last ones was forgotten")
	}
	for i := range 100 {
		l.of(fmt.Sprint("more ", i))
	}
	if len(l.by) != maxLimited || l.order.Len() != maxLimited || l.of("first") != first {
		t.Errorf("%d are remembered, want %d with the one who asked before", len(l.by), maxLimited)
	}
}

func TestNoLimits(t *testing.T) {
	for _, perSecond := range []float64{0, -1, math.NaN()} {
		if l := newLimits(perSecond, 5); l != nil || l.fresh() != nil {
			t.Errorf("newLimits(%v): got a limit", perSecond)
		}
	}
	if got := newLimits(7.5, 0).burst; got != 7 {
		t.Errorf("the burst of 7.5 a second: got %d, want 7", got)
	}
	if got := newLimits(0.1, 0).burst; got != 1 {
		t.Errorf("the burst of 0.1 a second: got %d, want 1", got)
	}
}
