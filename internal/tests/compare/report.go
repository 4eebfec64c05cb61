package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// results are the repetitions of a scenario, by server.
type results map[string][]sample

// report is the results of all scenarios, by name.
type report map[string]results

// median returns the median of a column, NaN without repetitions.
func (r results) median(server, column string) float64 {
	all := r.sorted(server, column)
	if len(all) == 0 {
		return math.NaN()
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func (r results) sorted(server, column string) []float64 {
	var all []float64
	for _, one := range r[server] {
		all = append(all, one[column])
	}
	slices.Sort(all)
	return all
}

// ratio compares two servers: by their medians, and by the repetitions that ran
// side by side.
func (r results) ratio(a, b, column string) (median, low, high float64) {
	median = r.median(a, column) / r.median(b, column)
	low, high = math.Inf(1), math.Inf(-1)
	for i := range min(len(r[a]), len(r[b])) {
		one := r[a][i][column] / r[b][i][column]
		low, high = min(low, one), max(high, one)
	}
	return median, low, high
}

// write prints the scenario's table.
func (r results) write(w io.Writer, s *scenario, servers []*server) {
	fmt.Fprintf(w, "### %s\n\n| server | × floor |", s.name)
	for _, column := range s.columns {
		fmt.Fprintf(w, " %s |", column)
	}
	fmt.Fprintf(w, "\n|---|---:|%s\n", strings.Repeat("---:|", len(s.columns)))
	for _, server := range servers {
		if len(r[server.name]) == 0 {
			continue
		}
		times := "–"
		if median, low, high := r.ratio(server.name, "floor", s.main); server.name != "floor" && !math.IsNaN(median) {
			times = fmt.Sprintf("**%s** (%s–%s)", digits(median), digits(low), digits(high))
		}
		fmt.Fprintf(w, "| %s | %s |", server.name, times)
		for _, column := range s.columns {
			fmt.Fprintf(w, " %s", digits(r.median(server.name, column)))
			if all := r.sorted(server.name, column); column == s.main && len(all) > 1 {
				fmt.Fprintf(w, " (%s–%s)", digits(all[0]), digits(all[len(all)-1]))
			}
			fmt.Fprint(w, " |")
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// digits prints three significant digits, or all before the point.
func digits(f float64) string {
	switch abs := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "–"
	case abs >= 100 || abs == 0:
		return fmt.Sprintf("%.0f", f)
	case abs >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

// goal is one line of the goals in docs/performance.md.
type goal struct {
	id, what string
	scenario string
	column   string
	against  string  // a server; "" is no comparison
	worse    bool    // against is to need that many times as much
	bound    float64 // at most; at least with worse
	over     string  // a column of the same sample that column is divided by
}

// goals returns those that this program can measure.
func goals() []goal {
	var all []goal
	cpu := func(id, what, scenario string, bound float64) {
		all = append(all, goal{id: id, what: what, scenario: scenario, column: colCPU, against: "floor", bound: bound})
	}
	cpu("P1", "legacy HTTP, 64 in flight", "http-s100-c64", 1.15)
	cpu("P2", "2026-07-28, 64 in flight", "modern-c64", 1.05)
	cpu("P3", "stdio, 64 in flight", "stdio-64", 0.7)
	cpu("P4", "stdio, 1 in flight", "stdio-1", 1.3)
	for _, name := range []string{"http-64k-s16-c16", "modern-64k-c16"} {
		cpu("P5", "64 KiB, HTTP", name, 0.45)
	}
	for _, name := range []string{"stdio-64k-1", "stdio-64k-16"} {
		cpu("P5", "64 KiB, stdio", name, 0.65)
	}
	peers := []struct {
		scenario     string
		gosdk, mcpgo float64
	}{
		{"http-s100-c64", 7, 2}, {"modern-c64", 15, 5}, {"stdio-64", 30, 8}, {"stdio-1", 8, 4},
		{"stdio-64k-1", 8, 10}, {"stdio-64k-16", 8, 10}, {"http-64k-s16-c16", 8, 10}, {"modern-64k-c16", 8, 10},
	}
	for _, p := range peers {
		all = append(all, goal{id: "P6", what: "requests per CPU-second", scenario: p.scenario, column: colCPU, against: "gosdk", worse: true, bound: p.gosdk})
	}
	for _, p := range peers {
		all = append(all, goal{id: "P7", what: "requests per CPU-second", scenario: p.scenario, column: colCPU, against: "mcpgo", worse: true, bound: p.mcpgo})
	}
	for _, name := range []string{"http-s100-c64", "modern-c64"} {
		all = append(all, goal{id: "P8", what: "allocations of a call", scenario: name, column: colMallocs, bound: 45},
			goal{id: "P8", what: "bytes of a call", scenario: name, column: colBytes, bound: 4000})
	}
	all = append(all,
		goal{id: "P10", what: "idle session, RSS KiB", scenario: "idle-10k", column: colIdle, bound: 4},
		goal{id: "P10", what: "idle session, goroutines", scenario: "idle-10k", column: colIdleGoroutines, bound: 0.001},
		goal{id: "P11", what: "idle session with a stream, RSS KiB", scenario: "idle-10k-sse", column: colIdle, bound: 8},
		goal{id: "P11", what: "idle session with a stream, goroutines", scenario: "idle-10k-sse", column: colIdleGoroutines, bound: 0.001})
	for _, name := range []string{"cancel-stdio", "cancel-http", "cancel-modern"} {
		all = append(all, goal{id: "P12", what: "cancel to the end of the context, p50", scenario: name, column: colP50, against: "floor", bound: 1.3})
	}
	for _, name := range []string{"cancel-stdio", "cancel-http", "cancel-modern", "teardown-1k"} {
		all = append(all, goal{id: "P13", what: "goroutines left", scenario: name, column: colGoroutines})
	}
	all = append(all, goal{id: "P13", what: "heap left, bytes a session", scenario: "teardown-1k", column: colHeapLeft, bound: 16})
	cpu("P14", "a question inside a call", "nested-stdio", 1.4)
	cpu("P14", "a question inside a call", "nested-http", 1.4)
	for _, name := range []string{"stdio-64", "http-s100-c64", "modern-c64"} {
		all = append(all, goal{id: "P17", what: "p99 ÷ p50", scenario: name, column: colP99, over: colP50, bound: 6})
	}
	return all
}

// value returns what is held against the goal, and how to read it.
func (g *goal) value(r results) (value float64, text string) {
	switch {
	case g.over != "":
		value = r.median("troupe", g.column) / r.median("troupe", g.over)
		return value, fmt.Sprintf("%s (floor %s)", digits(value), digits(r.median("floor", g.column)/r.median("floor", g.over)))
	case g.against == "":
		value = r.median("troupe", g.column)
		return value, digits(value)
	}
	a, b := "troupe", g.against
	if g.worse {
		a, b = b, a
	}
	value, low, high := r.ratio(a, b, g.column)
	return value, fmt.Sprintf("%s (%s–%s)", digits(value), digits(low), digits(high))
}

// writeGoals prints a verdict on each goal that was measured.
func (r report) writeGoals(w io.Writer) {
	fmt.Fprint(w, "### Goals\n\n| goal | what | scenario | bound | measured | met |\n|---|---|---|---:|---:|---|\n")
	for _, g := range goals() {
		value, text := g.value(r[g.scenario])
		if math.IsNaN(value) {
			continue
		}
		sign, met := "≤", value <= g.bound
		if g.worse {
			sign, met = "≥", value >= g.bound
		}
		bound := sign + " " + fmt.Sprintf("%v", g.bound)
		if g.against != "" {
			bound += " × " + cmp.Or(map[bool]string{true: g.against + " ÷ ours"}[g.worse], g.against)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", g.id, g.what, g.scenario, bound, text, map[bool]string{true: "yes", false: "no"}[met])
	}
}
