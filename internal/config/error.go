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
