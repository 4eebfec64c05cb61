package env

import (
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/troupe-dev/troupe/internal/columns"
)

// When is a time as lists show it: the time of day, and the date where that is not today.
func When(t, now time.Time) string { return whenTo(t, now, "") }

// WhenMillis is [when] for events, to the millisecond.
func WhenMillis(t, now time.Time) string { return whenTo(t, now, ".000") }

func whenTo(t, now time.Time, fraction string) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly + fraction)
	}
	return t.Format(time.DateTime + fraction)
}

// narrow is the least that is left of a column which is cut to the width of a terminal.
const narrow = 16

// Fit cuts the cells of these columns so that a table is no wider than width, the first
// column first, each down to [narrow] columns at the least. Zero cuts nothing.
func Fit(rows [][]string, width int, shrink ...int) {
	if width == 0 {
		return
	}
	widths := make([]int, 0, 16)
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns.Width(Plain(cell)))
		}
	}
	over := 2*(len(widths)-1) - width // what table puts between two columns
	for _, w := range widths {
		over += w
	}
	for _, column := range shrink {
		if over <= 0 {
			return
		}
		cut := max(widths[column]-over, min(narrow, widths[column]))
		over -= widths[column] - cut
		for _, row := range rows {
			row[column] = Shorten(row[column], cut)
		}
	}
}

// TerminalWidth is how many columns stdout has; zero where it is no terminal.
func (e *Env) TerminalWidth() int {
	f, _ := e.Stdout.(*os.File)
	return widthOf(f, 0)
}

// widthOf is how many columns a terminal has, or otherwise where that is unknown.
func widthOf(f *os.File, otherwise int) int {
	if f == nil {
		return otherwise
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return otherwise
}

// PrintList writes items as JSON, or as a table with a row for each below the heading, whose
// columns stand between bars. Columns to shrink are cut to the width of a terminal.
func PrintList[T any](e *Env, asJSON bool, items []T, heading string, row func(T) []string, shrink ...int) error {
	if asJSON {
		return e.PrintJSON(items)
	}
	rows := [][]string{strings.Split(heading, "|")}
	for _, item := range items {
		rows = append(rows, row(item))
	}
	Fit(rows, e.TerminalWidth(), shrink...)
	return e.Table(rows)
}

// Table writes rows in columns; the first row is the heading.
func (e *Env) Table(rows [][]string) error {
	w := tabwriter.NewWriter(e.Stdout, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = Plain(row[i])
		}
		if _, err := w.Write([]byte(strings.TrimRight(strings.Join(row, "\t"), "\t ") + "\n")); err != nil {
			return err
		}
	}
	return w.Flush()
}
