package pipe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/mcp"
)

const (
	maxStray    = 1000 // lines that are no messages in a row
	loggedStray = 10
	shownStray  = 200         // bytes
	pipeGrace   = time.Second // for the pipes of a process that has ended, and a closed stream
)

// Options are those of a link. All are needed.
type Options struct {
	System     *actors.System
	Server     string // its configured name
	Log        *slog.Logger
	Sink       mcp.Sink
	MaxMessage int                      // bytes
	TooLong    func(certain bool) error // the error of a message with more
	// Exit makes the error for the end of a process: how it ended, or "", the last lines of
	// its stderr, and what was noticed first, which may be nil.
	Exit func(status, stderr string, err error) error
}

// lines is the part that all links over lines share: it frames and skips.
type lines struct {
	Options
	owner string // of its goroutines
	in    *frame.Reader
	stray int // lines that are no messages, since the last message
	out   *frame.Writer
}

func (l *lines) start(from io.Reader, to io.WriteCloser, lost func(error)) {
	l.in = frame.NewReader(from, l.MaxMessage)
	l.out = frame.NewWriter(to, &frame.WriterOptions{
		Start: l.task, OnError: func(err error) { lost(fmt.Errorf("writing to the server: %w", err)) },
	})
}

func (l *lines) task(f func()) { l.System.Go(l.owner, f) }

// Send implements [mcp.Link].
func (l *lines) Send(m mcp.Outgoing) error {
	err := l.out.Write(m.Frame)
	if errors.Is(err, frame.ErrQueueFull) {
		return fmt.Errorf("%w: the server does not read", call.ErrBusy)
	}
	return err
}

// read passes on the server's messages until there are no more, and returns why: nil at the
// end of the stream. It skips stray lines (STDIO-03), up to a number. Where the stream has a deadline it may
// be called again after that, and some says whether a line came before.
func (l *lines) read() (some bool, err error) {
	for ; ; some = true {
		line, err := l.in.Next()
		long, isLong := errors.AsType[*frame.TooLongError](err)
		switch {
		case isLong && !isMessage(long.Head):
			line = long.Head
		case isLong && l.skipped(long): // WIRE-04, ROB-2
			l.stray = 0
			continue
		case err == io.EOF:
			return some, nil
		case err != nil:
			return some, fmt.Errorf("reading from the server: %w", err)
		case isMessage(line):
			l.stray = 0
			l.Sink.Frame(line)
			continue
		}
		shown := string(line[:min(len(line), shownStray)])
		if l.stray++; l.stray <= loggedStray {
			l.Log.Warn("the server wrote a line that is no message", "line", shown)
		}
		if l.stray >= maxStray {
			return some, &strayError{lines: l.stray, last: shown}
		}
	}
}

// skipped reports a message that was skipped to the sink, and returns false if the sink takes
// no such report: then the link has to end.
func (l *lines) skipped(long *frame.TooLongError) bool {
	skips, ok := l.Sink.(mcp.SkipSink)
	if ok {
		skips.Skipped(long.Head, long.Tail, l.TooLong)
	}
	return ok
}

// isMessage tells a JSON object or array from a stray line.
func isMessage(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && (line[0] == '{' || line[0] == '[')
}

// strayError is a flood of lines that are no messages.
type strayError struct {
	lines int
	last  string
}

func (e *strayError) Error() string {
	return fmt.Sprintf("the server wrote %d lines in a row that are no messages, the last: %.80q", e.lines, e.last)
}
