package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/benchmarks/turn"
)

// column is one of a table.
type column struct {
	title string
	of    func(*turn.Report) float64
	ratio bool // to the floor beside it, in a column of its own
}

var passing = []column{
	{"CPU µs a turn", func(r *turn.Report) float64 { return r.CPU }, true},
	{"allocations a turn", func(r *turn.Report) float64 { return r.Allocs }, false},
	{"KB a turn", func(r *turn.Report) float64 { return r.Bytes / 1000 }, false},
	{"gap p50 µs", func(r *turn.Report) float64 { return r.Gap50 }, false},
	{"gap p99 µs", func(r *turn.Report) float64 { return r.Gap99 }, false},
	{"sessions/s", func(r *turn.Report) float64 { return r.Sessions }, false},
}

var waiting = []column{{"KB a session", func(r *turn.Report) float64 { return r.Live / 1000 }, true}}

// printTable prints a table of the reports of each entry: medians, and of what has a ratio the least and
// the most.
func printTable(entries []entry, reports [][]turn.Report) {
	columns := slices.Clone(passing)
	if reports[0][0].Gap99 == 0 {
		columns = slices.DeleteFunc(columns, func(c column) bool { return strings.HasPrefix(c.title, "gap") })
	}
	if reports[0][0].Live > 0 {
		columns = waiting
	}
	head, line := "| |", "|---|"
	for _, c := range columns {
		head, line = head+c.title+"|", line+"---:|"
		if c.ratio {
			head, line = head+"× floor|", line+"---:|"
		}
	}
	fmt.Println(head)
	fmt.Println(line)
	for i, e := range entries {
		row := "| " + e.name + " |"
		for _, c := range columns {
			low, mid, high := spread(reports[i], c.of)
			if !c.ratio {
				row += figure(mid) + "|"
				continue
			}
			row += fmt.Sprintf("%s (%s–%s)|", figure(mid), figure(low), figure(high))
			floor := slices.IndexFunc(entries, func(f entry) bool { return f.program == "floor" && f.db == e.db })
			if floor < 0 {
				row += "–|"
				continue
			}
			_, least, _ := spread(reports[floor], c.of)
			row += fmt.Sprintf("%.2f|", mid/least)
		}
		fmt.Println(row)
	}
}

// spread is the least, the median and the most of what reports say.
func spread(reports []turn.Report, of func(*turn.Report) float64) (low, mid, high float64) {
	var all []float64
	for i := range reports {
		all = append(all, of(&reports[i]))
	}
	slices.Sort(all)
	return all[0], all[len(all)/2], all[len(all)-1]
}

// figure is a number with three digits that count.
func figure(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
