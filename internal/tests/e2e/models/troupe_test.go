package models

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests"
	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// program builds troupe, once, into a folder that TestMain removes.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "troupe-")
	if err != nil {
		return "", err
	}
	atEnd(func() error { return os.RemoveAll(dir) })
	root, err := tests.Root(context.Background())
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "troupe")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/troupe")
	cmd.Dir = root // this module does not require what the program does
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return path, nil
})

// user runs the program with a model.
type user struct {
	t    *testing.T
	dir  string
	env  []string
	wait time.Duration // for a run to end; zero means patience
}

func newUser(t *testing.T, s service) *user {
	t.Helper()
	return &user{t: t, dir: t.TempDir(), env: s.env()}
}

// path names a file of the user's.
func (u *user) path(name string) string { return filepath.Join(u.dir, name) }

// servers writes a configuration with server-everything and server-filesystem, which sees
// the user's files, and returns its name.
func (u *user) servers() string {
	u.t.Helper()
	config := map[string]any{}
	for name, line := range map[string][]string{
		"everything": peers.Require(u.t, peers.Everything), "filesystem": peers.Require(u.t, peers.Filesystem, u.dir),
	} {
		config[name] = map[string]any{"command": line[0], "args": line[1:]}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": config})
	if err != nil {
		u.t.Fatal(err)
	}
	u.write("servers.json", string(data))
	return u.path("servers.json")
}

func (u *user) write(name, text string) {
	u.t.Helper()
	if err := os.WriteFile(u.path(name), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// event is a line of --output-format stream-json, as far as tests look at it.
type event struct {
	Type   string          `json:"type"`
	Delta  string          `json:"delta"`
	Turn   int             `json:"turn"`
	Tool   string          `json:"tool"`
	Made   bool            `json:"made"`
	State  string          `json:"state"`
	Result json.RawMessage `json:"result"`
	Usage  struct {
		Input     int  `json:"input"`
		Output    int  `json:"output"`
		Estimated bool `json:"estimated"`
	} `json:"usage"`
}

// process is a troupe that runs.
type process struct {
	*exec.Cmd
	t      *testing.T
	lines  *bufio.Scanner
	stderr bytes.Buffer
	events []event
}

// start runs "troupe run" with events on stdout.
func (u *user) start(args ...string) *process {
	u.t.Helper()
	troupe, err := program()
	if err != nil {
		u.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(u.t.Context(), cmp.Or(u.wait, patience))
	u.t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, troupe, append([]string{"run", "--output-format", "stream-json"}, args...)...), t: u.t}
	p.Dir, p.Stderr = u.dir, &p.stderr
	p.Env = append([]string{"HOME=" + u.dir, "PATH=" + os.Getenv("PATH"), "OLLAMA_HOST=127.0.0.1:1"}, u.env...)
	out, err := p.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, 8<<20)
	if err := p.Start(); err != nil {
		u.t.Fatal(err)
	}
	return p
}

// next reads an event, nil at the end.
func (p *process) next() *event {
	p.t.Helper()
	if !p.lines.Scan() {
		return nil
	}
	var ev event
	if err := json.Unmarshal(p.lines.Bytes(), &ev); err != nil {
		p.t.Fatalf("a line of stdout: %v: %.300q", err, p.lines.Text())
	}
	p.events = append(p.events, ev)
	return &ev
}

// pieces reads until so many pieces of text have come.
func (p *process) pieces(n int) {
	p.t.Helper()
	for n > 0 {
		ev := p.next()
		if ev == nil {
			p.t.Fatalf("it ended before it said enough; stderr:\n%s", p.stderr.String())
		}
		if ev.Type == "text" {
			n--
		}
	}
}

// end reads the rest and returns the exit code.
func (p *process) end() int {
	p.t.Helper()
	for p.next() != nil {
	}
	_ = p.Wait() // how it ended is in the state
	return p.ProcessState.ExitCode()
}

// run runs "troupe run" to its end.
func (u *user) run(args ...string) *process {
	u.t.Helper()
	p := u.start(args...)
	p.end()
	return p
}

// check holds a run to having ended so.
func (p *process) check(code int, state string) {
	p.t.Helper()
	if got := p.ProcessState.ExitCode(); got != code {
		p.t.Errorf("troupe %q: exited with %d, want %d:\n%s", p.Args[1:], got, code, p.stderr.String())
	}
	if last := p.last(); last.Type != "run_finished" || last.State != state {
		p.t.Errorf("troupe %q: the last event is %+v, want the end, %s", p.Args[1:], last, state)
	}
}

func (p *process) last() event {
	if len(p.events) == 0 {
		return event{}
	}
	return p.events[len(p.events)-1]
}

// joined is the text of all events of a type, and how many those are.
func (p *process) joined(kind string) (text string, pieces int) {
	var b strings.Builder
	for _, ev := range p.events {
		if ev.Type == kind {
			b.WriteString(ev.Delta)
			pieces++
		}
	}
	return b.String(), pieces
}

// interrupt is Ctrl-C.
func (p *process) interrupt() {
	p.t.Helper()
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
}
