package env

import (
	"os"
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
