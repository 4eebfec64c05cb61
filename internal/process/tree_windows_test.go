package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// roleEnv makes the test binary a program: "parent" starts a "child" and waits to be
// killed, "child" says that it runs, and does not end by itself.
const roleEnv = "TROUPE_PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "parent":
		if _, err := Start(self("child")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		time.Sleep(time.Hour)
	case "child":
		fmt.Println("started")
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

func self(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stdout = os.Stdout
	return cmd
}

// ROB-7: a kill of our process leaves none of the programs behind: the pipe that all of
// them hold ends.
func TestKilledParent(t *testing.T) {
	cmd := self("parent")
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 { // until the last one has ended
		t.Errorf("got %q, %v", rest, err)
	}
	_ = cmd.Wait()
}

// Kill ends the program and what it has started.
func TestKill(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := self("parent")
	cmd.Stdout = w
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewReader(r)
	if line, err := lines.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	p.Kill()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("got %q, %v", rest, err)
	}
	if state := p.Wait(); state.Success() {
		t.Errorf("got %v", state)
	}
}
