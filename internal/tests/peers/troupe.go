package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests"
)

// BuildTroupe builds the program into dir and returns its path. The working directory must
// be in either module.
func BuildTroupe(ctx context.Context, dir string) (string, error) {
	root, err := tests.Root(ctx)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "troupe")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/troupe")
	cmd.Dir = root // the nested module lacks some of the modules that the program needs
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building troupe: %w\n%s", err, out)
	}
	return program, nil
}

// RequireTroupe builds the program for a test.
func RequireTroupe(t testing.TB) string {
	t.Helper()
	program, err := BuildTroupe(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Troupe is the program and a home of its own: what it keeps and starts is the test's.
type Troupe struct {
	Program string
	Home    string   // its folder, which is also where it works
	Env     []string // more variables
}

// Line returns the command line that starts it, its environment in it: programs that
// start servers give them little of their own.
func (p *Troupe) Line(args ...string) []string {
	return slices.Concat([]string{"env", "-i"}, p.environment(), []string{p.Program}, args)
}

func (p *Troupe) environment() []string {
	return append([]string{"HOME=" + p.Home, "PATH=" + os.Getenv("PATH"), "XDG_STATE_HOME=" + filepath.Join(p.Home, "state")}, p.Env...)
}

// Run runs it to its end and returns stdout.
func (p *Troupe) Run(ctx context.Context, args ...string) ([]byte, error) {
	line := p.Line(args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir, cmd.WaitDelay = p.Home, stopTime
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return out, fmt.Errorf("troupe %s: %w\n%s", strings.Join(args, " "), err, failed.Stderr)
	}
	return out, err
}

// listens is what "troupe serve" says when it can be reached.
var listens = regexp.MustCompile(`at (http://\S+)/mcp`)

// Serve starts "troupe serve --http" at a port that is free and returns its URL without a
// path. It is interrupted at the end of the test, and has to end well.
func (p *Troupe) Serve(t testing.TB, args ...string) string {
	t.Helper()
	line := p.Line(append([]string{"serve", "--http", "127.0.0.1:0"}, args...)...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), line[0], line[1:]...)
	cmd.Dir = p.Home
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := new(tail)
	cmd.Stdout, cmd.Stderr = out, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(stopTime, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		err := cmd.Wait()
		<-read
		if err != nil {
			t.Errorf("troupe serve did not end well: %v", err)
		}
		if t.Failed() {
			t.Logf("troupe serve wrote:\n%s", out)
		}
	})
	url := make(chan string, 1)
	go func() { // ends with the process
		defer close(read)
		defer r.Close()
		lines := bufio.NewReader(r)
		for text := ""; ; {
			line, err := lines.ReadString('\n')
			if m := listens.FindStringSubmatch(line); m != nil && text == "" {
				text = m[1]
				url <- text
			}
			_, _ = io.WriteString(out, line)
			if err != nil {
				return
			}
		}
	}()
	select {
	case address := <-url:
		return address
	case <-read:
		t.Fatal("troupe serve has ended before it listened")
	case <-time.After(startTime):
		t.Fatal("troupe serve does not say where it listens")
	}
	return ""
}
