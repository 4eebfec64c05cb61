package mcpclient

import (
	"bufio"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// newSystem returns a system for a bubble, shut down with nothing left when the
// test ends.
func newSystem(t testing.TB) *actors.System {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Second) }) // virtual: what is asleep in the bubble ends
	return realSystem(t)
}

// realSystem is newSystem for a test on the real clock.
func realSystem(t testing.TB) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if n := sys.Census().Live(); n != 0 {
			t.Errorf("actors left: %+v", sys.Census().Actors)
		}
	})
	return sys
}

// fakeProcess is a process without one: its program is a goroutine.
type fakeProcess struct {
	inR, outR, errR *io.PipeReader
	inW, outW, errW *io.PipeWriter
	lines           *bufio.Scanner // of its stdin

	stubborn bool          // does not end when it is asked to
	holds    bool          // something keeps its pipes open when it has ended
	over     chan struct{} // closed when it has ended
	once     sync.Once
	status   string
	killed   []string // what was sent to it, for tests
	mu       sync.Mutex
}

// start runs a program as a process. When the program returns the process ends
// with the status it returned.
func start(program func(p *fakeProcess) string) *fakeProcess {
	p := &fakeProcess{over: make(chan struct{})}
	p.inR, p.inW = io.Pipe()
	p.outR, p.outW = io.Pipe()
	p.errR, p.errW = io.Pipe()
	p.lines = bufio.NewScanner(p.inR)
	p.lines.Buffer(nil, 8<<20)
	go func() { p.end(program(p)) }()
	return p
}

func (p *fakeProcess) end(status string) {
	p.once.Do(func() {
		p.status = status
		p.inR.Close()
		if !p.holds {
			p.outW.Close()
			p.errW.Close()
		}
		close(p.over)
	})
}

// read returns the next line from stdin, false at its end.
func (p *fakeProcess) read() (string, bool) {
	if !p.lines.Scan() {
		return "", false
	}
	return p.lines.Text(), true
}

func (p *fakeProcess) say(line string) { _, _ = io.WriteString(p.outW, line+"\n") }

// untilEOF reads stdin to its end, as a well-behaved server.
func (p *fakeProcess) untilEOF() string {
	for {
		if _, ok := p.read(); !ok {
			return "exit status 0"
		}
	}
}

func (p *fakeProcess) Stdin() io.WriteCloser { return p.inW }
func (p *fakeProcess) Stdout() io.ReadCloser { return p.outR }
func (p *fakeProcess) Stderr() io.ReadCloser { return p.errR }

func (p *fakeProcess) Wait() string {
	<-p.over
	return p.status
}

func (p *fakeProcess) signal(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = append(p.killed, name)
}

func (p *fakeProcess) Terminate() {
	p.signal("terminate")
	if !p.stubborn {
		p.end("signal: terminated")
	}
}

func (p *fakeProcess) Kill() {
	p.signal("kill")
	p.end("signal: killed")
}
