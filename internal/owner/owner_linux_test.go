package owner

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// TestMain is also the process that prints a name of its own and then waits.
func TestMain(m *testing.M) {
	if os.Getenv("OWNER_CHILD") != "" {
		fmt.Println(New("child"))
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// TestGone: a process lives until it is killed; as one whose exit code waits for its parent it is gone, and so it
// is afterwards.
func TestGone(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "OWNER_CHILD=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	name, err := r.ReadString('\n')
	if name = strings.TrimSpace(name); err != nil || name == "" {
		t.Fatalf("got %q, %v", name, err)
	}
	if Gone(name) {
		t.Errorf("%q lives: got gone", name)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // its end of the pipe is closed
		t.Fatal(err)
	}
	for zombie := false; !zombie; { // its files are closed before it has ended
		stat, ok := statOf(cmd.Process.Pid)
		if !ok {
			t.Fatal("the child is not in /proc, and was not waited for")
		}
		zombie = stat.over
	}
	if !Gone(name) {
		t.Errorf("%q was killed, and not waited for: got alive", name)
	}
	_ = cmd.Wait()
	if !Gone(name) {
		t.Errorf("%q was killed: got alive", name)
	}
}

// TestLaterProcess: a process that has the PID of one before it is another.
func TestLaterProcess(t *testing.T) {
	before := self()
	before.start--
	if name := nameOf("agent", before); !Gone(name) {
		t.Errorf("%q: got alive, and its PID is that of a later process", name)
	}
}

// TestHolds: a lease ends with its time or with its owner, but that of a job's run only with its time.
func TestHolds(t *testing.T) {
	now, before := time.Now(), self()
	before.start--
	gone, here := nameOf("agent", before), New("agent")
	tests := []struct {
		name string
		run  store.Run
		want bool
	}{
		{"here", store.Run{Owner: here, Expires: now.Add(time.Minute)}, true},
		{"here, expired", store.Run{Owner: here, Expires: now}, false},
		{"gone", store.Run{Owner: gone, Expires: now.Add(time.Minute)}, false},
		{"gone, of a job", store.Run{Owner: gone, Job: "j", Expires: now.Add(time.Minute)}, true},
		{"released", store.Run{}, false},
	}
	for _, tt := range tests {
		if got := Holds(tt.run, now); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestParseStat(t *testing.T) {
	line := func(state, threads string) string {
		return "42 (a) b (c) " + state + " 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 " + threads + " 0 777 1000 10 18446744073709551615"
	}
	tests := []struct {
		line string
		want status
		ok   bool
	}{
		{line("S", "9"), status{start: 777}, true},
		{line("Z", "1"), status{start: 777, over: true}, true},
		{line("Z", "3"), status{start: 777}, true}, // other threads go on
		{line("X", "1"), status{start: 777, over: true}, true},
		{"42 (x) S 1", status{}, false},
		{"", status{}, false},
		{"no parentheses", status{}, false},
	}
	for _, tt := range tests {
		if got, ok := parseStat([]byte(tt.line)); got != tt.want || ok != tt.ok {
			t.Errorf("%q: got %+v, %v, want %+v, %v", tt.line, got, ok, tt.want, tt.ok)
		}
	}
}
