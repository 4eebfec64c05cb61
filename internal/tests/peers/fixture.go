package peers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fixtureProgram is the server of ours that the conformance suite and the clients of
// others are let loose on.
const fixtureProgram = "github.com/troupe-dev/troupe/internal/tests/conformance/server"

// BuildFixture builds the fixture into dir and returns the program. The working
// directory must be in this module, or in one that knows it.
func BuildFixture(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "fixture")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, fixtureProgram)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", fixtureProgram, err, out)
	}
	return program, nil
}

// Fixture is the fixture, listening on the loopback interface.
type Fixture struct {
	URL string // of the endpoint of all revisions
	cmd *exec.Cmd
	log bytes.Buffer // what it wrote to stderr; to be read after it has ended
}

// SSE returns the URL of the endpoint of HTTP+SSE (2024-11-05).
func (f *Fixture) SSE() string { return strings.TrimSuffix(f.URL, "/mcp") + "/sse" }

// stopTime bounds the end of the fixture.
const stopTime = 15 * time.Second

// StartFixture starts the program on a free port; its URL is what it writes to stdout.
// It is interrupted when ctx ends.
func StartFixture(ctx context.Context, program string, args ...string) (*Fixture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f := new(Fixture)
	f.cmd = exec.CommandContext(ctx, program, append([]string{"-http", "127.0.0.1:0"}, args...)...)
	f.cmd.Cancel = func() error { return f.cmd.Process.Signal(os.Interrupt) }
	f.cmd.WaitDelay = stopTime
	f.cmd.Stdout, f.cmd.Stderr = w, &f.log
	err = f.cmd.Start()
	w.Close()
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	_ = r.SetReadDeadline(time.Now().Add(startTime)) // pipes have deadlines
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server does not listen: %w", err), f.Stop())
	}
	f.URL = strings.TrimSpace(line)
	return f, nil
}

// Stop interrupts the server, which has to end by itself and without an error.
func (f *Fixture) Stop() error {
	if f.cmd.ProcessState != nil {
		return nil
	}
	_ = f.cmd.Process.Signal(os.Interrupt)
	late := time.AfterFunc(stopTime, func() { _ = f.cmd.Process.Kill() })
	defer late.Stop()
	if err := f.cmd.Wait(); err != nil {
		lines := bytes.Split(bytes.TrimSpace(f.log.Bytes()), []byte("\n"))
		return fmt.Errorf("the server did not end well: %w\n%s", err, bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
	}
	return nil
}

// RequireFixture builds the fixture for a test.
func RequireFixture(t testing.TB) string {
	t.Helper()
	program, err := BuildFixture(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// ListenFixture starts the fixture for a test, at whose end it has to end well.
func ListenFixture(t testing.TB, program string, args ...string) *Fixture {
	t.Helper()
	f, err := StartFixture(context.WithoutCancel(t.Context()), program, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}
