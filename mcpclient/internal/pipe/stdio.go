package pipe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcp"
)

const (
	stdinGrace = 2 * time.Second
	termGrace  = 2 * time.Second
	killGrace  = 2 * time.Second
	exitGrace  = time.Second // for the end of a process that has closed its output
)

// Stdio is the link to a server's process.
//
// It reads the server's messages, drains its stderr (STDIO-04) and waits for its end, each in
// tasks. Where the kernel can watch all three (Linux) no goroutine is left while the server is quiet; elsewhere
// there are three. They end with the process, or soon after if something that it left behind holds the pipes.
type Stdio struct {
	lines
	proc           Process
	stdout, stderr input
	last           lastOutput // of stderr

	exited actors.Reply[string] // how the process has ended

	closing   atomic.Bool
	failed    atomic.Bool // something was noticed, and its reason is being found out
	closeOnce sync.Once
	lost      sync.Once
	sends     atomic.Int64 // messages that were sent, and their bytes
	sent      atomic.Int64
}

// NewStdio serves a process that was just started.
func NewStdio(proc Process, opts Options) *Stdio { return newStdio(proc, opts, linger) }

func newStdio(proc Process, opts Options, linger time.Duration) *Stdio {
	l := &Stdio{lines: lines{Options: opts, owner: "stdio of " + opts.Server}, proc: proc}
	l.lines.start(proc.Stdout(), proc.Stdin(), l.fails)
	l.stdout = input{linger: linger, more: l.lines.read, ended: l.fails}
	l.stdout.start(&l.lines, proc.Stdout())
	l.stderr = input{linger: linger, more: l.drain, ended: func(error) {}} // how it ends does not matter
	l.stderr.start(&l.lines, proc.Stderr())
	l.awaitExit()
	return l
}

// watched is a process whose end the kernel may be able to report.
type watched interface {
	// Exit returns a file that is readable once the process has ended, and nil if there is none.
	Exit() syscall.Conn
}

func (l *Stdio) awaitExit() {
	if p, ok := l.proc.(watched); ok {
		if file := p.Exit(); file != nil {
			if _, ok := l.System.WhenReadable(l.owner, file, l.wait); ok {
				return
			}
		}
	}
	l.task(l.wait)
}

// Send implements [mcp.Link].
func (l *Stdio) Send(m mcp.Outgoing) error {
	l.sends.Add(1)
	l.sent.Add(int64(len(m.Frame)) + 1)
	return l.lines.Send(m)
}

// Stderr returns the end of what the server wrote to its standard error, at most 64 KiB.
func (l *Stdio) Stderr() string { return l.last.String() }

// LastLines returns the last lines of it, at most 2 KiB, fit to be shown.
func (l *Stdio) LastLines() string { return l.last.lastLines() }

// drain keeps the end of stderr.
func (l *Stdio) drain() (some bool, err error) {
	buf := make([]byte, 512) // io.Copy would hold 32 KiB for each server
	for ; ; some = true {
		n, err := l.proc.Stderr().Read(buf)
		_, _ = l.last.Write(buf[:n])
		if err != nil {
			return some || n > 0, err
		}
	}
}

// wait reaps the process, and closes the pipes if something keeps them open.
func (l *Stdio) wait() {
	l.exited.Complete(l.proc.Wait(), nil)
	both := time.NewTimer(pipeGrace)
	defer both.Stop()
	for _, in := range []*input{&l.stdout, &l.stderr} {
		select {
		case <-in.over.Done():
		case <-both.C:
			both.Reset(0)
		}
	}
	l.stdout.close()
	l.stderr.close()
}

// fails tells the connection that the server is gone, once it is known why: that takes a
// while, for which neither the caller nor Close waits.
func (l *Stdio) fails(err error) {
	l.task(func() {
		if l.closing.Load() || l.failed.Swap(true) {
			return // Close reports it, or the first failure does
		}
		why := l.why(err)
		l.lost.Do(func() { l.Sink.Lost(why) })
	})
}

// why waits a little for the end of the process, which says most.
func (l *Stdio) why(err error) error {
	ended := pause.Until(l.exited.Done(), exitGrace)
	pause.Until(l.stderr.over.Done(), exitGrace/4)
	status := ""
	switch {
	case isServerFault(err): // and that is why it will end
	case ended:
		status, _ = l.exited.Result()
	case err == nil:
		err = errors.New("the server closed its output")
	}
	return l.Exit(status, l.last.lastLines(), err)
}

// isServerFault tells a mistake of a living server from the consequence of its death.
func isServerFault(err error) bool {
	_, stray := errors.AsType[*strayError](err)
	return stray || errors.Is(err, frame.ErrEndless)
}

// Close implements [mcp.Link] by the steps of STDIO-20. It takes at most about
// seven seconds.
func (l *Stdio) Close() error {
	l.closeOnce.Do(func() { // others wait in it
		l.closing.Store(true)
		l.shutDown()
		l.lost.Do(func() { l.Sink.Lost(nil) })
	})
	return nil
}

func (l *Stdio) shutDown() {
	ctx, cancel := context.WithTimeout(context.Background(), stdinGrace)
	defer cancel()
	_ = l.out.Close(ctx) // what was not written will not be read
	left := stdinGrace
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	if !pause.Until(l.exited.Done(), left) {
		l.proc.Terminate()
		if !pause.Until(l.exited.Done(), termGrace) {
			l.proc.Kill()
			if !pause.Until(l.exited.Done(), killGrace) {
				l.Log.Error("the server's process cannot be killed")
			}
		}
	}
	pause.Until(l.stdout.over.Done(), pipeGrace)
	pause.Until(l.stderr.over.Done(), pipeGrace)
}
