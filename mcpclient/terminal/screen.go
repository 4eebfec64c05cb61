package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/troupe-dev/troupe/internal/columns"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcp"
)

// screen shows one question. After as many lines as the terminal has it waits, so
// that nothing goes by unseen. An error of writing is kept and ends the question.
type screen struct {
	ctx        context.Context
	out        io.Writer
	in         *input
	size       func() (columns, rows int)
	onWithdraw func()

	rows int // since the person last typed something
	err  error
}

// Bar stands before each line of a text that is not the program's own. Lines of
// [Prompter.Ask] that begin with it keep it where they are wrapped: nothing of such a text
// stands where the program's own lines do.
const Bar = bar

const bar = "  │ "

func (s *screen) dimensions() (columns, rows int) {
	if s.size != nil {
		columns, rows = s.size()
	}
	if columns <= 0 || rows <= 0 {
		columns, rows = 80, 24
	}
	return max(columns, 24), max(rows, 6)
}

// say shows lines of the program's own. What comes from elsewhere must have been
// through [clean].
func (s *screen) say(format string, args ...any) {
	s.lines("", fmt.Sprintf(format, args...))
}

// mixed shows lines of the program's own and, behind a [Bar], such of others.
func (s *screen) mixed(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if quoted, ok := strings.CutPrefix(line, bar); ok {
			s.lines(bar, quoted)
		} else {
			s.lines("", line)
		}
	}
}

// remark says how a question has ended. The end does not depend on it: it waits for
// no answer, and an error of writing does not matter.
func (s *screen) remark(format string, args ...any) {
	s.err, s.rows = nil, 0
	s.say(format, args...)
	s.err = nil
}

// quote shows a text of the server behind bars, and says what was hidden in it.
func (s *screen) quote(text string) {
	shown, hidden := sanitize.Text(text, sanitize.Limits{})
	s.lines(bar, shown)
	s.hidden(hidden)
}

// reveal shows a text of the server behind bars, with what is hidden in it spelled out.
func (s *screen) reveal(text string) {
	s.lines(bar, sanitize.Reveal(text))
	s.hidden(sanitize.Hidden(text))
}

func (s *screen) hidden(n int) {
	if n > 0 {
		s.warn("There are %d hidden characters in this text. Honest texts have no need of them.", n)
	}
}

// warn shows something that a person should not overlook.
func (s *screen) warn(format string, args ...any) { s.say("  !! "+format, args...) }

func (s *screen) lines(before, text string) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for line := range strings.SplitSeq(text, "\n") {
		columns, _ := s.dimensions()
		for _, part := range wrap(line, columns-1-len([]rune(before))) {
			s.line(before + part)
		}
	}
}

// line shows one line, and waits if the screen is full.
func (s *screen) line(text string) {
	if s.err != nil {
		return
	}
	if _, rows := s.dimensions(); s.rows >= rows-2 {
		line, err := s.read("-- Enter for more, or d (decline), c (cancel): ")
		if err == nil {
			if l := leaving(line); l != nil {
				err = l
			}
		}
		if err != nil {
			s.err = err
			return
		}
	}
	s.rows++
	if _, err := io.WriteString(s.out, text+"\n"); err != nil {
		s.err = fmt.Errorf("writing to the terminal: %w", err)
	}
}

// read shows the prompt and waits for a line. It fails if anything before could not
// be shown: a person answers only what is on the screen.
func (s *screen) read(prompt string) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	for {
		if _, err := io.WriteString(s.out, prompt); err != nil {
			s.err = fmt.Errorf("writing to the terminal: %w", err)
			return "", s.err
		}
		line, err := s.in.line(s.ctx)
		if errors.Is(err, errLineTooLong) {
			s.rows = 0
			s.say("The line is too long.")
			continue
		}
		if err != nil {
			if s.ctx.Err() != nil {
				s.onWithdraw()
			}
			s.err = err
			return "", err
		}
		if strings.ContainsRune(line, 0x03) { // Ctrl-C where the terminal makes no signal of it
			s.err = io.EOF
			return "", io.EOF
		}
		s.rows = 0
		return line, nil
	}
}

// wrap breaks a line at so many columns at most, at a space where there is one in the second
// half. The parts together are the line.
func wrap(line string, most int) []string {
	var parts []string
	for {
		end, space, used := 0, 0, 0
		for i, r := range line {
			if used += columns.Rune(r); used > most {
				break
			}
			end = i + len(string(r))
			if r == ' ' && used > most/2 {
				space = end
			}
		}
		if end >= len(line) {
			return append(parts, line)
		}
		if space > 0 {
			end = space
		}
		parts, line = append(parts, line[:end]), line[end:]
	}
}

// clean makes a name fit to stand in a line of the program's own.
func clean(name string) string { return sanitize.Line(name, 200) }

// leave is how a question ends early.
type leave struct {
	action string
	all    bool // and all others of the server
}

func (l *leave) Error() string { return "the question was answered with " + l.action }

// leaving reads the words that end a question; nil is none of them.
func leaving(line string) *leave {
	switch strings.Join(strings.Fields(strings.ToLower(line)), " ") {
	case "d", "decline", "n", "no":
		return &leave{action: mcp.ActionDecline}
	case "da", "decline all":
		return &leave{action: mcp.ActionDecline, all: true}
	case "c", "cancel", "q", "quit":
		return &leave{action: mcp.ActionCancel}
	}
	return nil
}

// indent lays JSON out for reading; what is none stays as it is.
func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
