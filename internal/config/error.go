package config

import (
	"fmt"
	"strings"
)

// maxProblems bounds what is told of one file.
const maxProblems = 20

// Problem is one thing that is wrong in a file. Its text never holds a value that might be
// a key.
type Problem struct {
	File         string
	Line, Column int // from one; zero where it is about the file
	Text         string
}

// Error is file:line:column and what is wrong.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// Error says what is wrong in a file, all of it up to 20 problems.
type Error struct{ Problems []Problem }

// Error has a line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i := range e.Problems {
		lines[i] = e.Problems[i].Error()
	}
	return strings.Join(lines, "\n")
}

// nearest returns the known name that was probably meant, or "".
func nearest(name string, known []string) string {
	best, least := "", 1+max(1, len(name)/3)
	if len(name) > 64 {
		return ""
	}
	folded := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, k := range known {
		if d := distance(folded, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to change, add, leave out or exchange with a neighbour.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
