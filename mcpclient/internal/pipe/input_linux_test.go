package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// soon is a linger of tests: quiet comes at once.
const soon = time.Millisecond

// sink hands on what a link reports.
type sink struct {
	frames chan string
	lost   chan error
}

func (s *sink) Frame(frame []byte) { s.frames <- string(frame) }
func (s *sink) Lost(err error)     { s.lost <- err }

func startLink(t *testing.T, proc Process) (*Stdio, *sink) {
	t.Helper()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{make(chan string, 100), make(chan error, 1)}
	l := newStdio(proc, Options{
		System: sys, Server: "x", Log: slog.New(slog.DiscardHandler), Sink: s, MaxMessage: 1 << 20,
		Exit: func(status, stderr string, err error) error {
			return fmt.Errorf("status %q, stderr %q, %w", status, stderr, err)
		},
	}, soon)
	t.Cleanup(func() {
		l.Close()
		if err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l, s
}

// shell is a server that is a shell.
func shell(t *testing.T, script string) Process {
	t.Helper()
	p, err := Start(&Command{Path: "sh", Args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// becomeQuiet waits until no goroutine belongs to l, and its three tasks are waits. A task that has just
// paused is counted until its worker has let go of it.
func becomeQuiet(t *testing.T, l *Stdio) {
	t.Helper()
	giveUp := time.Now().Add(10 * time.Second)
	for buf := make([]byte, 1<<20); ; time.Sleep(soon) {
		stacks, tasks := buf[:runtime.Stack(buf, true)], l.System.Census().Tasks[l.owner]
		quiet := !bytes.Contains(stacks, []byte("pipe.(*input)")) && !bytes.Contains(stacks, []byte("pipe.(*Stdio)"))
		if quiet && tasks == 3 {
			return
		}
		if time.Now().After(giveUp) {
			t.Fatalf("not quiet, %d tasks, want 3:\n%s", tasks, stacks)
		}
	}
}

// A link to a process that is quiet has no goroutine, and still stands for its three tasks. What comes
// after a pause comes as ever, and so does the end.
func TestQuiet(t *testing.T) {
	l, s := startLink(t, shell(t, `while read line; do echo "$line"; echo "got $line" >&2; done; exit 3`))
	for i := range 5 {
		becomeQuiet(t, l)
		want := fmt.Sprintf(`{"n":%d}`, i)
		if err := l.Send(mcp.Outgoing{Frame: []byte(want)}); err != nil {
			t.Fatal(err)
		}
		if got := <-s.frames; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	becomeQuiet(t, l)
	if got := l.LastLines(); !strings.HasSuffix(got, `got {"n":4}`) {
		t.Errorf("stderr: got %q", got)
	}
	l.Close()
	if err := <-s.lost; err != nil {
		t.Errorf("Lost: got %v, want nil", err)
	}
	if status, _ := l.exited.Result(); status != "exit status 3" {
		t.Errorf("status: got %q", status)
	}
}

// A process that ends while its link is quiet: the status and the last of stderr are in the error.
func TestQuietEnd(t *testing.T) {
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	l, s := startLink(t, shell(t, fmt.Sprintf(`read line </proc/%d/fd/%d; echo "no such folder" >&2; exit 4`, os.Getpid(), in.Fd())))
	becomeQuiet(t, l)
	_, _ = w.WriteString("go on\n")
	w.Close()
	got := <-s.lost
	if want := `status "exit status 4", stderr "no such folder"`; got == nil || !strings.HasPrefix(got.Error(), want) {
		t.Errorf("Lost: got %v, want %s", got, want)
	}
	l.Close()
}

// handmade is a process of the test, whose pipes are real.
type handmade struct {
	stdin, stdout, stderr *os.File // ours
	out, err              *os.File // the process's
	over                  chan string
}

func makeProcess(t *testing.T) *handmade {
	t.Helper()
	p := &handmade{over: make(chan string, 1)}
	r, stdin, err := os.Pipe()
	p.stdin = stdin
	for _, pipe := range []struct{ r, w **os.File }{{&p.stdout, &p.out}, {&p.stderr, &p.err}} {
		if err == nil {
			*pipe.r, *pipe.w, err = os.Pipe()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { // it ends with its input
		_, _ = io.Copy(io.Discard, r)
		r.Close()
		p.out.Close()
		p.err.Close()
		p.end("exit status 0")
	}()
	return p
}

func (p *handmade) Stdin() io.WriteCloser { return p.stdin }
func (p *handmade) Stdout() io.ReadCloser { return p.stdout }
func (p *handmade) Stderr() io.ReadCloser { return p.stderr }
func (p *handmade) Wait() string          { return <-p.over }
func (p *handmade) Terminate()            { p.end("terminated") }
func (p *handmade) Kill()                 {}

func (p *handmade) end(status string) {
	select {
	case p.over <- status:
	default: // it has ended
	}
}

// paused waits until the messages wait without a goroutine.
func paused(t *testing.T) {
	t.Helper()
	for buf := make([]byte, 1<<20); bytes.Contains(buf[:runtime.Stack(buf, true)], []byte("pipe.(*input)")); {
		time.Sleep(soon)
	}
}

// A pause loses nothing: no part of a line, and no count of stray lines.
func TestPausedInParts(t *testing.T) {
	p := makeProcess(t)
	_, s := startLink(t, p)
	write := func(text string) {
		t.Helper()
		paused(t)
		if _, err := p.out.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"a`)
	write(`":1}` + "\n" + `{"b":2}` + "\n" + `{"c"`)
	write(":3")
	write("}\n")
	for _, want := range []string{`{"a":1}`, `{"b":2}`, `{"c":3}`} {
		if got := <-s.frames; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	write(strings.Repeat("stray\n", maxStray-1))
	write("the last\n")
	if err := <-s.lost; err == nil || !strings.Contains(err.Error(), `1000 lines in a row that are no messages, the last: "the last"`) {
		t.Errorf("Lost: got %v", err)
	}
}

// What a process leaves behind, and holds its pipes, keeps no link that is quiet.
func TestPausedPipesAreHeld(t *testing.T) {
	p := makeProcess(t)
	l, s := startLink(t, p)
	paused(t)
	p.end("exit status 5")
	<-l.stdout.over.Done()
	<-l.stderr.over.Done()
	if err := <-s.lost; err == nil || !strings.HasPrefix(err.Error(), `status "exit status 5"`) {
		t.Errorf("Lost: got %v", err)
	}
	if _, err := p.stdout.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("stdout: got %v, want that it is closed", err)
	}
}

// What comes while the link pauses, or has just gone on, comes once and in order.
func TestPauseRaces(t *testing.T) {
	p := makeProcess(t)
	_, s := startLink(t, p)
	const messages = 300
	go func() {
		for i := range messages {
			time.Sleep(time.Duration(i%7) * soon / 2)
			_, _ = fmt.Fprintf(p.out, "{%d}\n", i)
			_, _ = p.err.WriteString("log\n")
		}
	}()
	for i := range messages {
		if got, want := <-s.frames, fmt.Sprintf("{%d}", i); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}
