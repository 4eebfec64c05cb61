package bench

import "math"

// Growth is how something has grown with the calls.
type Growth struct {
	Begin float64 `json:"begin"`
	End   float64 `json:"end"`
	// Per1000 is the slope of a line through the least value of each tenth of the run, for
	// a thousand calls: what comes and goes with garbage collection does not count.
	Per1000 float64 `json:"per1000Calls"`
	// T is the slope in units of its standard error.
	T float64 `json:"t"`
	// Late is the slope of the second half alone: it tells a leak from a cache that fills.
	Late float64 `json:"latePer1000Calls"`
	// Leaks says that it grows: T is at least 5, the second half grows at least a third as
	// fast as the whole, and the growth is a tenth of what there was at the begin. Memory
	// has to double in a run of less than 10 s: so long many runtimes only fill their heap.
	Leaks bool `json:"leaks"`
}

// The criteria of [Growth].Leaks.
const (
	leakT     = 5.0
	leakLate  = 1.0 / 3
	leakShare = 0.1
	tenths    = 10

	shortRun   = 10.0 // seconds
	shortShare = 1.0  // in place of leakShare, of memory
)

// memoryGrowth is growthOf of resident memory.
func memoryGrowth(samples []Sample) Growth {
	g := growthOf(samples, func(s *Sample) float64 { return float64(s.Resident) })
	if n := len(samples); n > 0 && samples[n-1].At-samples[0].At < shortRun && g.End-g.Begin < shortShare*g.Begin {
		g.Leaks = false
	}
	return g
}

// growthOf fits a line.
func growthOf(samples []Sample, value func(*Sample) float64) (g Growth) {
	if len(samples) == 0 {
		return g
	}
	g.Begin, g.End = value(&samples[0]), value(&samples[len(samples)-1])
	x, y := least(samples, value)
	if len(x) < 6 {
		return g
	}
	g.Per1000, g.T = slope(x, y)
	g.Late, _ = slope(x[len(x)/2:], y[len(y)/2:])
	grown := g.Per1000 * (x[len(x)-1] - x[0])
	g.Leaks = g.T >= leakT && g.Late >= leakLate*g.Per1000 && grown >= leakShare*max(y[0], 1) && grown >= 1
	return g
}

// least returns the least value of each tenth of the run, by thousands of calls.
func least(samples []Sample, value func(*Sample) float64) (x, y []float64) {
	for i := range tenths {
		part := samples[i*len(samples)/tenths : (i+1)*len(samples)/tenths]
		if len(part) == 0 {
			continue
		}
		at, low := 0.0, math.Inf(1)
		for k := range part {
			if v := value(&part[k]); v < low {
				at, low = float64(part[k].Calls)/1000, v
			}
		}
		x, y = append(x, at), append(y, low)
	}
	return x, y
}

// slope is that of the line through the points by least squares, and its ratio to its
// standard error.
func slope(x, y []float64) (b, t float64) {
	n := float64(len(x))
	var mx, my, sxx, sxy float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	if sxx == 0 || n < 3 {
		return 0, 0
	}
	b = sxy / sxx
	var rest float64
	for i := range x {
		d := y[i] - my - b*(x[i]-mx)
		rest += d * d
	}
	se := math.Sqrt(rest / (n - 2) / sxx)
	if se == 0 {
		if b == 0 {
			return 0, 0
		}
		return b, math.Copysign(maxT, b)
	}
	return b, max(min(b/se, maxT), -maxT)
}

// maxT stands for points that lie on a line: JSON knows no infinity.
const maxT = 1e6

// Sample is one look at the processes.
type Sample struct {
	At    float64 `json:"at"` // seconds since the begin
	Calls int64   `json:"calls"`
	Usage
	CPUSeconds float64 `json:"cpuSeconds"` // since the begin
	Goroutines int     `json:"goroutines,omitzero"`
}
