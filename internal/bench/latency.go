package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies is a histogram of durations from a microsecond to an hour, to three digits,
// for many goroutines.
type latencies struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram // in ns
}

const longest = time.Hour

func newLatencies() *latencies {
	return &latencies{h: histogram()}
}

func (l *latencies) add(d time.Duration) {
	d = min(max(d, 0), longest)
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.h.RecordValue(int64(d)) // it is within the bounds
}

// report says what was recorded.
func (l *latencies) report() Latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	return latencyOf(l.h)
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(p float64) float64 { return float64(h.ValueAtPercentile(p)) / 1000 }
	return Latency{Count: h.TotalCount(), Min: float64(h.Min()) / 1000, Mean: h.Mean() / 1000,
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000}
}

func histogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(longest), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 0), longest))) // it is within the bounds
}
