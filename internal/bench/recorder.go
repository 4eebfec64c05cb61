package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/troupe-dev/troupe/internal/clip"
)

// recorder collects what becomes of calls, as a whole and in windows, by which two runs
// can be compared: within a run neighbouring calls are alike.
type recorder struct {
	mu      sync.Mutex
	whole   *hdrhistogram.Histogram // from when a call was due
	service *hdrhistogram.Histogram // from when it was begun
	window  *hdrhistogram.Histogram
	since   time.Time // of the window
	windows []Window
	done    int64
	failed  map[string]int64
	first   map[string]string // the first failure of each kind
}

// windowsOf is how many windows a run has, maxWindows how many are kept of a run that
// lasts longer than was thought.
const (
	windowsOf  = 20
	maxWindows = 200
)

func newRecorder() *recorder {
	return &recorder{whole: histogram(), service: histogram(), window: histogram(), since: time.Now(),
		failed: make(map[string]int64), first: make(map[string]string)}
}

// windowTime is how long a window lasts.
func windowTime(s schedule) time.Duration {
	length := s.length
	if length <= 0 && s.rate > 0 && s.count > 0 {
		length = time.Duration(float64(s.count) / s.rate * float64(time.Second))
	}
	if length <= 0 {
		return 500 * time.Millisecond
	}
	return max(length/windowsOf, 10*time.Millisecond)
}

// add records a call: how long it took since it was due, and since it was begun.
func (r *recorder) add(whole, service time.Duration, kind string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind != "" {
		if r.failed[kind]++; r.failed[kind] == 1 {
			r.first[kind] = clip.Text(err.Error(), 300)
		}
		return
	}
	r.done++
	record(r.whole, whole)
	record(r.window, whole)
	record(r.service, service)
}

// counts returns how many calls have been answered, and how many have failed.
func (r *recorder) counts() (done, failed int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.failed {
		failed += n
	}
	return r.done, failed
}

// turn ends a window.
func (r *recorder) turn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	n := r.window.TotalCount()
	if took := now.Sub(r.since); n > 0 && took >= time.Millisecond && len(r.windows) < maxWindows {
		r.windows = append(r.windows, Window{
			Rate: float64(n) / took.Seconds(), P50: float64(r.window.ValueAtPercentile(50)) / 1000, P99: float64(r.window.ValueAtPercentile(99)) / 1000})
	}
	r.window.Reset()
	r.since = now
}

// schedule says when calls begin.
type schedule struct {
	length time.Duration // for how long; 0: until count
	count  int64         // how many; 0: until length is over
	rate   float64       // a second; 0: when one has ended
}

// due is when the n-th call is to begin, and whether there is one.
func (s schedule) due(begun time.Time, n int64) (at time.Time, ok bool) {
	if s.count > 0 && n >= s.count {
		return at, false
	}
	if s.rate > 0 {
		at = begun.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
	} else {
		at = time.Now()
	}
	return at, s.length <= 0 || at.Sub(begun) < s.length
}

// missed is how many of the calls that were due by now were never begun, the next one
// being n.
func (s schedule) missed(begun, now time.Time, n int64) int64 {
	if s.rate <= 0 {
		return 0
	}
	span := now.Sub(begun)
	if s.length > 0 {
		span = min(span, s.length)
	}
	due := int64(span.Seconds() * s.rate)
	if s.count > 0 {
		due = min(due, s.count)
	}
	return max(due-n, 0)
}
