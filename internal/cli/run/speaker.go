package run

import (
	"fmt"
	"io"
	"strings"

	"github.com/troupe-dev/troupe/internal/cli/env"
)

// speaker shows the text of a model on stdout as it comes.
type speaker struct {
	w        io.Writer
	terminal bool // w is one: what the model says only is seen there (SECA-42)
	status   *env.StatusLine

	turn    int             // of the model
	said    strings.Builder // what the model has said in it
	midline bool            // what was said does not end with a line's end
}

// newSpeaker returns what shows a model's text on stdout.
func newSpeaker(e *env.Env, status *env.StatusLine) *speaker {
	return &speaker{w: e.Stdout, terminal: env.OnTerminal(e.Stdout), status: status}
}

// say shows more of the text of a turn.
func (s *speaker) say(turn int, delta string) {
	if delta == "" {
		return
	}
	if turn != s.turn {
		s.forget()
		s.turn = turn
	}
	s.said.WriteString(delta)
	if s.terminal {
		delta = env.PlainLines(delta)
	}
	s.status.Clear() // it would be drawn over the text
	fmt.Fprint(s.w, delta)
	s.midline = !strings.HasSuffix(delta, "\n")
}

// endLine ends the line that the text has left open.
func (s *speaker) endLine() {
	if s.midline {
		fmt.Fprintln(s.w)
		s.midline = false
	}
}

// interrupt is called before something else is shown on the terminal.
func (s *speaker) interrupt() {
	if s != nil && s.terminal {
		s.endLine()
	}
}

// forget is called where what was said does not count: the turn begins again, or another
// run does.
func (s *speaker) forget() {
	if s != nil {
		s.said.Reset()
	}
}

// has reports whether the last turn has shown this text already.
func (s *speaker) has(text string) bool {
	return s != nil && s.said.Len() > 0 && strings.TrimSpace(s.said.String()) == strings.TrimSpace(text)
}
