//go:build unix

package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// parentEnv makes the test binary a program that starts programs and waits to be killed.
const parentEnv = "TROUPE_PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		if err := parent(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = fmt.Println("all run")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	}
	os.Exit(m.Run())
}

// stubborn are programs that do not end with their input. The second has a child that the
// signal to the wrapper alone would not reach.
var stubborn = []string{
	`trap '' HUP INT TERM; echo started; while :; do sleep 1; done`,
	`(trap '' HUP INT TERM; echo started; while :; do sleep 1; done); true`,
	`echo started; sleep 1000`,
}

// parent starts programs whose output is its own, and lets them run.
func parent() error {
	for _, script := range stubborn {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Stdout = os.Stdout
		if _, err := Start(cmd); err != nil {
			return err
		}
	}
	return nil
}

// STDIO-20, ROB-7: a kill of our process leaves none of the programs behind, nor what
// they have started: the pipe that all of them hold ends.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), parentEnv+"=1")
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for range len(stubborn) + 1 { // in any order
		if line, err := lines.ReadString('\n'); err != nil || line != "started\n" && line != "all run\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 { // until the last one has ended
		t.Errorf("got %q, %v", rest, err)
	}
	_ = cmd.Wait()
}

// start starts a shell that reads its input, and returns its input.
func start(t *testing.T, script string) (*Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdin = r
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p, w
}

// How a program ended is returned, and what it left in its group is killed.
func TestWait(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "sleep 1000 & exit 3")
	cmd.Stdout = w
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if state := p.Wait(); state.String() != "exit status 3" {
		t.Errorf("Wait: got %q", state)
	}
	if _, err := io.ReadAll(r); err != nil { // until the sleep has ended
		t.Error(err)
	}
	p.Terminate() // its group may be another's by now
	p.Kill()
}

func TestSignals(t *testing.T) {
	for want, send := range map[syscall.Signal]func(*Process){syscall.SIGTERM: (*Process).Terminate, syscall.SIGKILL: (*Process).Kill} {
		p, in := start(t, "read line")
		send(p)
		status, ok := p.Wait().Sys().(syscall.WaitStatus)
		if !ok || status.Signal() != want {
			t.Errorf("got %v, want the end by %v", status, want)
		}
		in.Close()
	}
}

func TestStartError(t *testing.T) {
	if _, err := Start(exec.Command("/nonexistent/program")); !os.IsNotExist(err) {
		t.Errorf("got %v, want that there is no such file", err)
	}
}

// The shell that ends the programs runs only while there are some, and another one takes
// the place of one that was killed.
func TestGuard(t *testing.T) {
	g := new(guard)
	shell := func() int {
		t.Helper()
		if g.shell == nil {
			t.Fatal("there is no shell")
		}
		return g.shell.Process.Pid
	}
	none := 1 << 30 // no group has this id
	g.add(none)
	first := shell()
	g.add(none + 1)
	if shell() != first {
		t.Error("another shell for the second group")
	}
	if err := g.shell.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = g.shell.Wait()
	g.add(none + 2)
	if shell() == first || len(g.groups) != 3 {
		t.Errorf("after the shell was killed: got the groups %v", g.groups)
	}
	for i := range 3 {
		g.remove(none + i)
	}
	if g.shell != nil {
		t.Error("a shell without groups")
	}
}

// TestGuardForgets: a group that has ended is not signalled; its id may be another's.
func TestGuardForgets(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", script+`echo "left:$groups"`)
	cmd.Stdin = strings.NewReader("+ 1000000001\n+ 1000000002\n+ 1000000003\n- 1000000002\n- 1000000001\n- 1000000003\n+ 1000000004\n- 1000000004\n")
	out, err := cmd.Output()
	if err != nil || len(out) > 0 {
		t.Errorf("got %q, %v, want the shell to exit before it signals", out, err)
	}
}
