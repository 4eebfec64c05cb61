package bench

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/bench"
)

func TestPart(t *testing.T) {
	tests := []struct {
		progress bench.Progress
		want     float64
	}{
		{bench.Progress{}, -1},
		{bench.Progress{Elapsed: time.Second, Of: 4 * time.Second}, 0.25},
		{bench.Progress{Elapsed: time.Second, Of: 4 * time.Second, Done: 5, Total: 10}, 0.5},
		{bench.Progress{Elapsed: 9 * time.Second, Of: 4 * time.Second}, 1},
	}
	for _, tt := range tests {
		if got := part(tt.progress); got != tt.want {
			t.Errorf("part(%+v): got %g, want %g", tt.progress, got, tt.want)
		}
	}
}

// The report in the middle by cost stands for all of a server's.
func TestMiddle(t *testing.T) {
	report := func(p50 float64) *bench.Report { return &bench.Report{Latency: bench.Latency{P50: p50}} }
	if got := middle([]*bench.Report{report(3), report(1), report(2)}); costOf(got) != 2 {
		t.Errorf("middle: got the report that costs %g, want 2", costOf(got))
	}
	if got := middle(nil); got != nil {
		t.Errorf("middle of none: got %+v", got)
	}
}
