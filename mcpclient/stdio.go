package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/mcp"
)

const (
	stdinGrace  = 2 * time.Second
	termGrace   = 2 * time.Second
	killGrace   = 2 * time.Second
	pipeGrace   = time.Second // for the pipes of a process that has ended
	exitGrace   = time.Second // for the end of a process that has closed its output
	maxJunk     = 1000        // lines that are no messages, since the last message
	loggedJunk  = 10
	shownOfJunk = 200 // bytes
)

// stdio is the link to a server's process.
//
// Three goroutines belong to it: one reads what the server says, one drains its
// stderr (STDIO-04), one waits for its end. They end with the process, or soon
// after if something it left behind holds the pipes.
type stdio struct {
	sys    *actors.System
	owner  string
	log    *slog.Logger
	sink   mcp.Sink
	proc   process
	max    int                      // bytes of a message
	long   func(certain bool) error // of a message with more
	in     *frame.Writer
	stderr tail

	status  string        // how it ended; set before exited is closed
	exited  chan struct{} // closed when the process has ended
	read    chan struct{} // closed when nothing more comes from stdout
	drained chan struct{} // closed when nothing more comes from stderr

	closing atomic.Bool
	failed  atomic.Bool // something was noticed, and its reason is being found out
	close   sync.Once
	lost    sync.Once
	sends   atomic.Int64 // messages that were sent, and their bytes
	sent    atomic.Int64
	junk    int // the reader's
}

// newStdio serves a process that was just started.
func newStdio(sys *actors.System, server *Server, log *slog.Logger, proc process, sink mcp.Sink) *stdio {
	l := &stdio{
		sys: sys, owner: "stdio of " + server.Name, log: log, sink: sink, proc: proc, max: server.maxMessage(), long: server.tooLong,
		exited: make(chan struct{}), read: make(chan struct{}), drained: make(chan struct{}),
	}
	l.in = frame.NewWriter(proc.Stdin(), &frame.WriterOptions{
		Start:   l.task,
		OnError: func(err error) { l.task(func() { l.fail(fmt.Errorf("writing to the server: %w", err)) }) },
	})
	l.task(l.wait)
	l.task(l.drain)
	l.task(l.readAll)
	return l
}

func (l *stdio) task(f func()) { l.sys.Go(l.owner, f) }

// Send implements [mcp.Link].
func (l *stdio) Send(m mcp.Outgoing) error {
	l.sends.Add(1)
	l.sent.Add(int64(len(m.Frame)) + 1)
	err := l.in.Write(m.Frame)
	if errors.Is(err, frame.ErrQueueFull) {
		return fmt.Errorf("%w: the server does not read", call.ErrBusy)
	}
	return err
}

// readAll passes on the server's messages until there are no more.
func (l *stdio) readAll() {
	defer close(l.read)
	in := frame.NewReader(l.proc.Stdout(), l.max)
	for {
		line, err := in.Next()
		long, isLong := errors.AsType[*frame.TooLongError](err)
		switch {
		case isLong && !isMessage(long.Head):
			if !l.skip(long.Head) {
				return
			}
		case isLong && skipTo(l.sink, long, l.long): // WIRE-04, ROB-2
			l.junk = 0
		case err == io.EOF:
			l.task(func() { l.fail(nil) })
			return
		case err != nil:
			l.task(func() { l.fail(fmt.Errorf("reading from the server: %w", err)) })
			return
		case isMessage(line):
			l.junk = 0
			l.sink.Frame(line)
		default:
			if !l.skip(line) {
				return
			}
		}
	}
}

// isMessage tells a JSON object or array from a stray line.
func isMessage(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && (line[0] == '{' || line[0] == '[')
}

// skip passes over a line that is no message (STDIO-03), and reports false when
// there were too many.
func (l *stdio) skip(line []byte) bool {
	l.junk++
	if l.junk <= loggedJunk {
		l.log.Warn("the server wrote a line that is no message", "line", string(line[:min(len(line), shownOfJunk)]))
	}
	if l.junk < maxJunk {
		return true
	}
	err := &junkError{lines: l.junk, last: string(line[:min(len(line), shownOfJunk)])}
	l.task(func() { l.fail(err) })
	return false
}

// junkError is a flood of lines that are no messages.
type junkError struct {
	lines int
	last  string
}

func (e *junkError) Error() string {
	return fmt.Sprintf("the server wrote %d lines in a row that are no messages, the last: %.80q", e.lines, e.last)
}

// drain keeps the end of stderr.
func (l *stdio) drain() {
	defer close(l.drained)
	buf := make([]byte, 512) // io.Copy would hold 32 KiB for each server
	for {
		n, err := l.proc.Stderr().Read(buf)
		_, _ = l.stderr.Write(buf[:n])
		if err != nil { // how it ends does not matter
			return
		}
	}
}

// wait reaps the process, and closes the pipes if something keeps them open.
func (l *stdio) wait() {
	l.status = l.proc.Wait()
	close(l.exited)
	both := time.NewTimer(pipeGrace)
	defer both.Stop()
	for _, done := range []chan struct{}{l.read, l.drained} {
		select {
		case <-done:
		case <-both.C:
			both.Reset(0)
		}
	}
	l.proc.Stdout().Close()
	l.proc.Stderr().Close()
}

// fail tells the connection that the server is gone, with what is known about why.
func (l *stdio) fail(err error) {
	if l.closing.Load() || l.failed.Swap(true) {
		return // Close tells, or what was noticed first
	}
	why := l.why(err) // takes a while, for which Close does not wait
	l.lost.Do(func() { l.sink.Lost(why) })
}

// why waits a little for the end of the process, which says most.
func (l *stdio) why(err error) error {
	ended := within(l.exited, exitGrace)
	within(l.drained, exitGrace/4)
	exit := &ExitError{Err: err, Stderr: l.stderr.words()}
	switch {
	case itsFault(err): // and that is why it will end
	case ended:
		exit.Status = l.status
	case err == nil:
		exit.Err = errors.New("the server closed its output")
	}
	return exit
}

// itsFault tells what a living server did from what a dead one leads to.
func itsFault(err error) bool {
	_, junk := errors.AsType[*junkError](err)
	return junk || errors.Is(err, frame.ErrEndless)
}

// within waits for c, but not longer than d.
func within(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// Close implements [mcp.Link] by the steps of STDIO-20. It takes at most about
// seven seconds.
func (l *stdio) Close() error {
	l.close.Do(func() { // others wait in it
		l.closing.Store(true)
		l.shutDown()
		l.lost.Do(func() { l.sink.Lost(nil) })
	})
	return nil
}

func (l *stdio) shutDown() {
	ctx, cancel := context.WithTimeout(context.Background(), stdinGrace)
	defer cancel()
	_ = l.in.Close(ctx) // what was not written will not be read
	left := stdinGrace
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	if !within(l.exited, left) {
		l.proc.Terminate()
		if !within(l.exited, termGrace) {
			l.proc.Kill()
			if !within(l.exited, killGrace) {
				l.log.Error("the server's process can not be killed")
			}
		}
	}
	within(l.read, pipeGrace)
	within(l.drained, pipeGrace)
}
