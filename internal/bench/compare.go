package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Difference is a metric of two runs.
type Difference struct {
	Run    string  `json:"run"`
	Metric string  `json:"metric"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Change is how much worse it has become, in percent; below zero it is better.
	Change float64 `json:"worsePercent"`
	// P is how likely a difference as large comes by chance, 1 where there is nothing to
	// tell it by. Significant says that it is below 1 %.
	P           float64 `json:"p"`
	Significant bool    `json:"significant"`
}

// significance is the P below which a difference counts.
const significance = 0.01

// Compare finds what differs between the runs of two files, by their names, or by their
// places if no name is in both. Times, rates and CPU are compared by the windows of the
// runs, with a rank test (Mann and Whitney): calls next to each other are alike, so that
// single latencies would find everything significant. What was loaded differently is an
// error.
func Compare(before, after *File) ([]Difference, error) {
	var out []Difference
	byName := slices.ContainsFunc(after.Runs, func(r *Report) bool { return before.run(r.Name) != nil })
	for i, b := range after.Runs {
		a := before.run(b.Name)
		if !byName && i < len(before.Runs) {
			a = before.Runs[i]
		}
		if a == nil {
			continue
		}
		if x, y := a.Load, b.Load; x != y {
			return nil, fmt.Errorf("%s was measured under another load: %+v and then %+v", b.Name, x, y)
		}
		out = append(out, differences(a, b)...)
	}
	if len(out) == 0 {
		return nil, errors.New("the two have no run in common")
	}
	return out, nil
}

func (f *File) run(name string) *Report {
	for _, r := range f.Runs {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func differences(a, b *Report) []Difference {
	of := func(r *Report, value func(Window) float64) []float64 {
		var all []float64
		for _, w := range r.Windows {
			all = append(all, value(w))
		}
		return all
	}
	ranked := func(metric string, sign, x, y float64, value func(Window) float64) Difference {
		return difference(b.Name, metric, sign, x, y, rankTest(of(a, value), of(b, value)))
	}
	out := []Difference{
		ranked("p50 µs", 1, a.Latency.P50, b.Latency.P50, func(w Window) float64 { return w.P50 }),
		ranked("p99 µs", 1, a.Latency.P99, b.Latency.P99, func(w Window) float64 { return w.P99 }),
		ranked("calls/s", -1, a.Rate, b.Rate, func(w Window) float64 { return w.Rate }),
	}
	if a.Server != nil && b.Server != nil {
		x, y := cpuParts(a.Server), cpuParts(b.Server)
		out = append(out, difference(b.Name, "CPU µs/call", 1, a.Server.CPUMicros, b.Server.CPUMicros, rankTest(x, y)))
		out = append(out, difference(b.Name, "peak MiB", 1, mib(a.Server.Peak), mib(b.Server.Peak), 1))
	}
	fails := func(r *Report) float64 { return 100 * float64(r.Failed) / max(float64(r.Calls+r.Failed), 1) }
	return append(out, difference(b.Name, "failed %", 1, fails(a), fails(b), failTest(a, b)))
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func difference(run, metric string, sign, before, after, p float64) Difference {
	d := Difference{Run: run, Metric: metric, Before: before, After: after, P: p, Significant: p < significance}
	switch {
	case before != 0:
		d.Change = sign * 100 * (after - before) / before
	case after != 0:
		d.Change = 100 * sign
	}
	return d
}

// cpuParts is the CPU time of a call in each tenth of the run.
func cpuParts(p *Process) []float64 {
	var all []float64
	for i := range tenths {
		from, to := i*(len(p.Samples)-1)/tenths, (i+1)*(len(p.Samples)-1)/tenths
		if len(p.Samples) < 2 || from == to {
			continue
		}
		if n := p.Samples[to].Calls - p.Samples[from].Calls; n > 0 {
			all = append(all, 1e6*(p.Samples[to].CPUSeconds-p.Samples[from].CPUSeconds)/float64(n))
		}
	}
	return all
}

// rankTest is the two-sided P of Mann and Whitney's test, by the normal approximation
// with ties and continuity corrected; 1 for fewer than 5 values on a side.
func rankTest(x, y []float64) float64 {
	type value struct {
		v     float64
		first bool
	}
	if len(x) < 5 || len(y) < 5 {
		return 1
	}
	var all []value
	for _, v := range x {
		all = append(all, value{v, true})
	}
	for _, v := range y {
		all = append(all, value{v, false})
	}
	slices.SortFunc(all, func(a, b value) int { return cmp.Compare(a.v, b.v) })
	var ranks, ties float64 // of the first side
	for i := 0; i < len(all); {
		k := i
		for k < len(all) && all[k].v == all[i].v {
			k++
		}
		for _, v := range all[i:k] {
			if v.first {
				ranks += float64(i+k+1) / 2
			}
		}
		n := float64(k - i)
		ties += n*n*n - n
		i = k
	}
	n, m := float64(len(x)), float64(len(y))
	u := ranks - n*(n+1)/2
	sd := math.Sqrt(n * m / 12 * (n + m + 1 - ties/((n+m)*(n+m-1))))
	if sd == 0 {
		return 1
	}
	return twoSided(max(math.Abs(u-n*m/2)-0.5, 0) / sd)
}

func twoSided(z float64) float64 { return math.Erfc(z / math.Sqrt2) }

// failTest is the two-sided P that both fail equally often.
func failTest(a, b *Report) float64 {
	n, m := float64(a.Calls+a.Failed), float64(b.Calls+b.Failed)
	if n == 0 || m == 0 {
		return 1
	}
	x, y := float64(a.Failed), float64(b.Failed)
	p := (x + y) / (n + m)
	if p == 0 || p == 1 {
		return 1
	}
	return twoSided(math.Abs(x/n-y/m) / math.Sqrt(p*(1-p)*(1/n+1/m)))
}

// Regressed returns those differences that are significant and worse by more than so many
// percent.
func Regressed(all []Difference, percent float64) []Difference {
	var worse []Difference
	for _, d := range all {
		if d.Significant && d.Change > percent {
			worse = append(worse, d)
		}
	}
	return worse
}
