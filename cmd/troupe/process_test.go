package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// home is a user of the program: its processes, and what those start, are known by
// their HOME, which servers inherit.
type home struct {
	t   testing.TB
	dir string
	env []string // more variables
}

func newHome(t testing.TB) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir()}
	t.Cleanup(func() {
		for _, pid := range h.processes() { // of a test that failed
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	})
	return h
}

// path names a file of the home.
func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

// write makes a file in the home, and returns its name.
func (h *home) write(name string, data []byte) string {
	h.t.Helper()
	if err := os.WriteFile(h.path(name), data, 0o600); err != nil {
		h.t.Fatal(err)
	}
	return h.path(name)
}

// config writes a configuration file with servers and returns its name.
func (h *home) config(servers map[string]any) string {
	h.t.Helper()
	data, err := jsonx.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.write("servers.json", data)
}

// plays starts a model server with a script, in a dialect.
func (h *home) plays(dialect string, script *llmtest.Server) {
	srv := httptest.NewServer(script)
	h.t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	address := "OPENAI_BASE_URL="
	if dialect == "ollama" {
		address = "OLLAMA_HOST="
	}
	h.env = append(h.env, "TROUPE_MODEL="+dialect+"/scripted", address+srv.URL)
}

// longest bounds every troupe that a test starts: one that hangs says where, and ends.
const longest = time.Minute

// command is troupe with arguments.
func (h *home) command(args ...string) *exec.Cmd {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), longest)
	h.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "troupe", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir = h.dir
	cmd.Env = append([]string{
		"HOME=" + h.dir, "PATH=" + os.Getenv("PATH"), "XDG_STATE_HOME=" + h.path("state"), "OLLAMA_HOST=" + nowhere,
		"GORACE=atexit_sleep_ms=0",
	}, h.env...)
	return cmd
}

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
	memory         int64 // the most it had resident, in bytes; zero where that is not known
}

// run runs troupe to its end.
func (h *home) run(args ...string) outcome {
	h.t.Helper()
	cmd := h.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			h.t.Fatal(err)
		}
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), peakMemory(cmd.ProcessState)}
}

// must is run for a command that works; it returns stdout.
func (h *home) must(args ...string) string {
	h.t.Helper()
	out := h.run(args...)
	if out.code != 0 {
		h.t.Fatalf("troupe %q: exited with %d\n%s", args, out.code, out.stderr)
	}
	return out.stdout
}

// stream is a troupe whose stdout is read while it runs.
type stream struct {
	*exec.Cmd
	t      testing.TB
	lines  *bufio.Scanner
	stderr bytes.Buffer
	events []streamed
}

// streamed is a line of --output-format stream-json, as far as tests look at it.
type streamed struct {
	Type    string          `json:"type"`
	RunID   string          `json:"runId"`
	Seq     int64           `json:"seq"`
	Key     string          `json:"key"`
	Server  string          `json:"server"`
	Tool    string          `json:"tool"`
	Done    float64         `json:"done"`
	Total   float64         `json:"total"`
	Made    bool            `json:"made"`
	Unknown bool            `json:"unknown"`
	State   string          `json:"state"`
	Result  json.RawMessage `json:"result"`
	Absent  json.RawMessage `json:"absent"`
}

// start starts troupe.
func (h *home) start(args ...string) *stream {
	h.t.Helper()
	return h.follow(h.command(args...))
}

// follow is start of a command that is not started yet.
func (h *home) follow(cmd *exec.Cmd) *stream {
	h.t.Helper()
	s := &stream{Cmd: cmd, t: h.t}
	s.Stderr = &s.stderr
	out, err := s.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	s.lines = bufio.NewScanner(out)
	s.lines.Buffer(nil, 8<<20)
	if err := s.Start(); err != nil {
		h.t.Fatal(err)
	}
	return s
}

// next reads an event; nil at the end.
func (s *stream) next() *streamed {
	s.t.Helper()
	if !s.lines.Scan() {
		return nil
	}
	var ev streamed
	if err := json.Unmarshal(s.lines.Bytes(), &ev); err != nil {
		s.t.Fatalf("a line of stdout: %v: %.300q", err, s.lines.Text())
	}
	s.events = append(s.events, ev)
	return &ev
}

// until reads up to the first event that is wanted.
func (s *stream) until(what string, wanted func(*streamed) bool) *streamed {
	s.t.Helper()
	for ev := s.next(); ev != nil; ev = s.next() {
		if wanted(ev) {
			return ev
		}
	}
	s.t.Fatalf("it ended without %s; stderr:\n%s", what, s.stderr.String())
	return nil
}

// end reads the rest and returns the exit code.
func (s *stream) end() int {
	s.t.Helper()
	for s.next() != nil {
	}
	_ = s.Wait() // how it ended is in the state
	return s.ProcessState.ExitCode()
}

// processes are the ids of those that have the home's HOME.
func (h *home) processes() []int {
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
		if err == nil && slices.Contains(strings.Split(string(environ), "\x00"), "HOME="+h.dir) {
			found = append(found, pid)
		}
	}
	return found
}

// needProc skips a test where processes cannot be looked at.
func needProc(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("it looks for processes in /proc, which is Linux's")
	}
}

// commandLine says what a process is, for failures.
func commandLine(pid int) string {
	data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return strings.ReplaceAll(strings.TrimRight(string(data), "\x00"), "\x00", " ")
}

// noProcessLeft fails if processes of a home are still there after a time (ROB-7).
func (h *home) noProcessLeft(within time.Duration) {
	h.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); ; <-tick.C {
		left := h.processes()
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			for _, pid := range left {
				h.t.Errorf("a process is left: %d %s", pid, commandLine(pid))
			}
			return
		}
	}
}

// waitFor waits until something is so, for a bounded time.
func waitFor(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}
