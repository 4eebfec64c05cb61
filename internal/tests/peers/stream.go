package peers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Event is a line of --output-format stream-json, as far as tests read it.
type Event struct {
	Type    string          `json:"type"`
	Key     string          `json:"key"`
	Delta   string          `json:"delta"`
	Turn    int             `json:"turn"`
	Tool    string          `json:"tool"`
	Done    float64         `json:"done"`
	Total   float64         `json:"total"`
	Made    bool            `json:"made"`
	Unknown bool            `json:"unknown"`
	State   string          `json:"state"`
	Result  json.RawMessage `json:"result"`
	Absent  json.RawMessage `json:"absent"`
	Usage   struct {
		Input     int  `json:"input"`
		Output    int  `json:"output"`
		Estimated bool `json:"estimated"`
	} `json:"usage"`
}

// Stream is a "troupe run" whose events a test reads while it runs.
type Stream struct {
	*exec.Cmd
	Stderr bytes.Buffer
	Events []Event // those read so far

	t     testing.TB
	lines *bufio.Scanner
}

// Start runs "troupe run" with events on stdout, for at most the time given: then SIGQUIT
// makes it report where it hangs.
func (p *Troupe) Start(t testing.TB, most time.Duration, args ...string) *Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	t.Cleanup(cancel)
	s := &Stream{Cmd: exec.CommandContext(ctx, p.Program, append([]string{"run", "--output-format", "stream-json"}, args...)...), t: t}
	s.Cancel = func() error { return s.Process.Signal(syscall.SIGQUIT) }
	s.WaitDelay = 5 * time.Second
	s.Dir, s.Env, s.Cmd.Stderr = p.Home, p.environment(), &s.Stderr
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.lines = bufio.NewScanner(out)
	s.lines.Buffer(nil, 8<<20)
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Next reads an event; nil at the end.
func (s *Stream) Next() *Event {
	s.t.Helper()
	if !s.lines.Scan() {
		return nil
	}
	var ev Event
	if err := json.Unmarshal(s.lines.Bytes(), &ev); err != nil {
		s.t.Fatalf("a line of stdout: %v: %.300q", err, s.lines.Text())
	}
	s.Events = append(s.Events, ev)
	return &ev
}

// Until reads up to the first event that is wanted.
func (s *Stream) Until(what string, wanted func(*Event) bool) *Event {
	s.t.Helper()
	for ev := s.Next(); ev != nil; ev = s.Next() {
		if wanted(ev) {
			return ev
		}
	}
	s.t.Fatalf("troupe ended without %s; stderr:\n%s", what, s.Stderr.String())
	return nil
}

// End reads the rest and returns the exit code.
func (s *Stream) End() int {
	s.t.Helper()
	for s.Next() != nil {
	}
	_ = s.Wait() // the state says how it ended
	return s.ProcessState.ExitCode()
}

// Processes returns the ids of the processes that have the home as HOME, which servers
// inherit. It needs Linux.
func (p *Troupe) Processes() []int {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // empty for a zombie
		if err == nil && slices.Contains(strings.Split(string(environ), "\x00"), "HOME="+p.Home) {
			found = append(found, pid)
		}
	}
	return found
}

// Find returns the process of the home that has a part of its command line, other than troupe.
func (p *Troupe) Find(t testing.TB, part string) *os.Process {
	t.Helper()
	for _, pid := range p.Processes() {
		if line := commandLine(pid); strings.Contains(line, part) && !strings.HasPrefix(line, p.Program) {
			found, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
	}
	t.Fatalf("the home has no process %q", part)
	return nil
}

// CheckEnded fails the test for each process of the home that is left (ROB-7).
func (p *Troupe) CheckEnded(t testing.TB) {
	t.Helper()
	for _, pid := range p.Processes() {
		t.Errorf("a process is left: %d %s", pid, commandLine(pid))
	}
}

// commandLine returns the command line of a process, for failures.
func commandLine(pid int) string {
	data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return strings.ReplaceAll(strings.TrimRight(string(data), "\x00"), "\x00", " ")
}
