package ratelimit

import (
	"fmt"
	"math"
	"testing"
)

// TOOL-15, ROB-3: the principals that are remembered are bounded, and the one of the newest
// request is remembered.
func TestLimitsAreBounded(t *testing.T) {
	l := New(0.001, 1)
	first := l.Of("first")
	if !first.Allow() || first.Allow() {
		t.Fatal("a burst of one allows one")
	}
	for i := range maxLimited - 1 {
		l.Of(fmt.Sprint(i))
	}
	if l.Of("first") != first {
		t.Error("a principal among the last ones was forgotten")
	}
	for i := range 100 {
		l.Of(fmt.Sprint("more ", i))
	}
	if l.by.Len() != maxLimited || l.Of("first") != first {
		t.Errorf("%d are remembered, want %d with the first", l.by.Len(), maxLimited)
	}
}

func TestNoLimits(t *testing.T) {
	for _, perSecond := range []float64{0, -1, math.NaN()} {
		if l := New(perSecond, 5); l != nil || l.Fresh() != nil {
			t.Errorf("New(%v): got a limit", perSecond)
		}
	}
	if got := New(7.5, 0).burst; got != 7 {
		t.Errorf("the burst of 7.5 a second: got %d, want 7", got)
	}
	if got := New(0.1, 0).burst; got != 1 {
		t.Errorf("the burst of 0.1 a second: got %d, want 1", got)
	}
}
