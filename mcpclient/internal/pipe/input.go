package pipe

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// linger is how long a task waits for more input, at least: a busy pipe pays nothing.
const linger = time.Second

// input is a pipe that is read by tasks of the kit. While something comes it is one task, which waits in
// Read. When nothing has come for a while the task ends, and the next begins with the next byte.
type input struct {
	linger time.Duration
	// more reads until the input ends, or its deadline comes (os.ErrDeadlineExceeded), and reports whether it
	// got anything.
	more  func() (some bool, err error)
	ended func(error) // called once, with the end of the input

	src  io.Closer
	file pausable               // src if it can be waited for without a goroutine; else nil
	wait *actors.ReadWait       // nil if that was never possible
	over actors.Reply[struct{}] // nothing more is read
}

// pausable is a source that the kernel may be able to watch.
type pausable interface {
	syscall.Conn
	SetReadDeadline(time.Time) error
}

func (in *input) start(l *lines, src io.ReadCloser) {
	in.src = src
	if file, ok := src.(pausable); ok {
		in.file, in.wait = file, l.System.NewReadWait(l.owner, file, in.read)
	}
	l.task(in.read)
}

// read is one task.
func (in *input) read() {
	paused := false
	defer func() {
		if !paused {
			in.over.Complete(struct{}{}, nil)
		}
	}()
	for {
		// One deadline serves all that comes before it: a message costs no timer.
		if in.file != nil && in.file.SetReadDeadline(time.Now().Add(in.linger)) != nil {
			in.file = nil
		}
		some, err := in.more()
		switch {
		case in.file == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			in.ended(err)
			return
		case some:
		default:
			if paused = in.wait.Begin(); paused {
				return // and another task may read by now
			}
			_ = in.file.SetReadDeadline(time.Time{})
			in.file = nil
		}
	}
}

// close ends the input. A task that reads it, or waits to, finds that out.
func (in *input) close() {
	in.src.Close()
	if in.wait != nil {
		in.wait.Wake()
	}
}
