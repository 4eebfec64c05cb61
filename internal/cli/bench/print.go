package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/bench"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/mcpclient"
)

// benchLine shows on a terminal how far a measurement is; elsewhere nothing.
type benchLine struct {
	w     io.Writer // nil shows nothing
	mu    sync.Mutex
	shown bool
}

func benchProgress(e *env.Env) *benchLine {
	if f := e.Progress(); f != nil {
		return &benchLine{w: f}
	}
	return &benchLine{}
}

func (l *benchLine) show(b bench.Progress) {
	if l.w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var s strings.Builder
	fmt.Fprintf(&s, "\r\x1b[K  %s", b.Phase)
	if share := part(b); share >= 0 {
		full := int(share * 20)
		fmt.Fprintf(&s, " %s%s %3.0f%%", strings.Repeat("█", full), strings.Repeat("░", 20-full), share*100)
	}
	fmt.Fprintf(&s, "  %s  %d done", b.Elapsed.Round(100*time.Millisecond), b.Done)
	if seconds := b.Elapsed.Seconds(); seconds > 0 {
		fmt.Fprintf(&s, ", %.0f/s", float64(b.Done)/seconds)
	}
	if b.Failed > 0 {
		fmt.Fprintf(&s, ", %d failed", b.Failed)
	}
	fmt.Fprint(l.w, s.String())
	l.shown = true
}

// part is how much is done, below zero where that is not known.
func part(b bench.Progress) float64 {
	share := -1.0
	if b.Of > 0 {
		share = b.Elapsed.Seconds() / b.Of.Seconds()
	}
	if b.Total > 0 {
		share = max(share, float64(b.Done)/float64(b.Total))
	}
	return min(share, 1)
}

func (l *benchLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}

// printRuns shows the run in the middle of each target.
func printRuns(e *env.Env, f *benchFlags, targets []benchTarget, runs map[string][]*bench.Report) error {
	file := bench.File{Schema: bench.FileSchema, Runs: []*bench.Report{}}
	var floor []*bench.Report
	if f.floor != "" {
		floor = runs[targets[0].name]
	}
	for _, t := range targets {
		rep := middle(runs[t.name])
		if rep == nil {
			continue
		}
		if len(floor) > 0 && t.name != targets[0].name {
			rep.JudgeFloor(middle(floor))
		}
		file.Runs = append(file.Runs, rep)
	}
	if f.asJSON {
		return e.PrintJSON(&file)
	}
	if len(targets) > 1 {
		if err := printBeside(e, file.Runs, floor, runs); err != nil {
			return err
		}
	} else if err := printRun(e, file.Runs[0]); err != nil {
		return err
	}
	for _, rep := range file.Runs {
		for _, v := range rep.Verdicts {
			fmt.Fprintf(e.Stdout, "%s: %s: %s\n", env.Plain(rep.Name), v.Kind, env.Plain(v.Text))
		}
	}
	return nil
}

// costOf is what servers are compared by: CPU time, or the latency where it is not seen.
func costOf(r *bench.Report) float64 {
	if r.Server != nil && r.Server.CPUMicros > 0 {
		return r.Server.CPUMicros
	}
	return r.Latency.P50
}

func middle(all []*bench.Report) *bench.Report {
	if len(all) == 0 {
		return nil
	}
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b *bench.Report) int { return cmp.Compare(costOf(a), costOf(b)) })
	return sorted[len(sorted)/2]
}

// printBeside is a table of several servers.
func printBeside(e *env.Env, reports []*bench.Report, floor []*bench.Report, runs map[string][]*bench.Report) error {
	rows := [][]string{{"SERVER", "× FLOOR", "CPU µs", "CALLS/S", "p50 µs", "p99 µs", "FAILED", "PEAK MiB"}}
	for _, r := range reports {
		times := "–"
		if len(floor) > 0 {
			times = fmt.Sprintf("%.2f", costOf(r)/costOf(middle(floor)))
			if low, high := span(runs[r.Name], floor); high > low {
				times += fmt.Sprintf(" (%.2f–%.2f)", low, high)
			}
		}
		cpu, peak := "–", "–"
		if r.Server != nil {
			cpu, peak = figure(r.Server.CPUMicros), fmt.Sprintf("%.1f", float64(r.Server.Peak)/(1<<20))
		}
		rows = append(rows, []string{r.Name, times, cpu, figure(r.Rate), figure(r.Latency.P50), figure(r.Latency.P99), fmt.Sprint(r.Failed), peak})
	}
	return e.Table(rows)
}

// span is the least and the greatest multiple of the floor in measurements side by side.
func span(runs, floor []*bench.Report) (low, high float64) {
	low = math.Inf(1)
	for i := range min(len(runs), len(floor)) {
		one := costOf(runs[i]) / costOf(floor[i])
		low, high = min(low, one), max(high, one)
	}
	return low, high
}

// figure writes a number with three digits.
func figure(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// printRun shows all of one run.
func printRun(e *env.Env, r *bench.Report) error {
	load := fmt.Sprintf("%s loop, %d sessions, %d in flight, %s, %d bytes", r.Load.Loop, r.Load.Sessions, r.Load.InFlight, r.Load.Call, r.Load.Payload)
	if r.Load.Loop == "open" {
		load += fmt.Sprintf(", %g calls/s", r.Load.Rate)
	}
	rows := [][]string{{r.Name, fmt.Sprintf("%s, MCP %s (%s era)", cmp.Or(r.Target.Server, r.Target.How), r.Target.Revision, r.Target.Era)},
		{"load", load},
		{"calls", fmt.Sprintf("%d in %.1f s, %s calls/s", r.Calls, r.Seconds, figure(r.Rate))},
		{"latency µs", lineOf(r.Latency)}}
	if r.Load.Loop == "open" {
		rows = append(rows, []string{"of the call", lineOf(r.Service)})
	}
	rows = append(rows, []string{"alone µs", fmt.Sprintf("p50 %s; a sign of life %s", figure(r.Alone.P50), figure(r.Ping.P50))})
	for _, f := range r.Failures {
		rows = append(rows, []string{"failed", fmt.Sprintf("%d by %s: %s", f.Count, f.Kind, f.First)})
	}
	if r.Unsent > 0 {
		rows = append(rows, []string{"never begun", fmt.Sprint(r.Unsent)})
	}
	if s := r.Server; s != nil {
		rows = append(rows, []string{"server", fmt.Sprintf("%s µs of CPU a call, %.1f MiB resident (at the begin %.1f, at most %.1f)", figure(s.CPUMicros),
			s.Resident.End/(1<<20), s.Resident.Begin/(1<<20), float64(s.Peak)/(1<<20))})
	}
	if r.Cut {
		rows = append(rows, []string{"interrupted", "this is what was measured by then"})
	}
	return e.Table(rows)
}

func lineOf(l bench.Latency) string {
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, p99.9 %s, max %s", figure(l.P50), figure(l.P90), figure(l.P99), figure(l.P999), figure(l.Max))
}

// benchFlags are what "bench" takes.
type benchFlags struct {
	bench.Options
	mcp       string
	protocol  string
	transport string
	args      string
	floor     string
	beside    []string
	reps      int
	asJSON    bool
}

// benchTarget is a server to measure.
type benchTarget struct {
	name   string
	server mcpclient.Server
}
