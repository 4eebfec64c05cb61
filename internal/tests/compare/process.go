package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/bench"
	"github.com/troupe-dev/troupe/internal/tests/compare/kit"
)

// errSkip is wrapped by the error of a scenario that this machine cannot run.
var errSkip = errors.New("skipped")

// server is a program to measure.
type server struct {
	name    string
	dir     string // of its package, below this one
	env     []string
	program string // the built one; what has it needs no building
}

// The first is what the others are compared with; troupe is compared with all.
func allServers() []*server {
	return []*server{
		{name: "floor", dir: "floor"},
		{name: "troupe", dir: "troupe"},
		{name: "mcpgo", dir: "mcpgo"},
		{name: "gosdk", dir: "gosdk"},
		{name: "mcpgo-v", dir: "mcpgo", env: []string{"MCPGO_VALIDATE=1"}},
		{name: "gosdk-json", dir: "gosdk", env: []string{"GOSDK_JSON=1"}},
	}
}

// programs is the path of the folder with the packages of the servers.
const programs = "github.com/troupe-dev/troupe/internal/tests/compare/"

// build compiles the server's program into folder.
func (s *server) build(ctx context.Context, folder string) error {
	if s.program != "" {
		return nil
	}
	s.program = filepath.Join(folder, s.dir)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", s.program, programs+s.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", s.name, err, out)
	}
	return nil
}

// process is a server at work.
type process struct {
	server *server
	cmd    *exec.Cmd
	in     io.WriteCloser // stdio mode
	out    io.Reader
	addr   string // of /mcp and of /debug/stats
	said   chan string

	profile string // file for a CPU profile of what is measured; "" is none
}

// startWait bounds the start of a server, and its end.
const startWait = 10 * time.Second

// start runs the server in a process of its own.
func (s *server) start(mode string, env ...string) (*process, error) {
	p := &process{server: s, cmd: exec.Command(s.program, "-mode", mode, "-debug"), said: make(chan string, 1)}
	p.cmd.Env = append(append(os.Environ(), s.env...), env...)
	var err error
	if mode == "stdio" {
		if p.in, err = p.cmd.StdinPipe(); err != nil {
			return nil, err
		}
		if p.out, err = p.cmd.StdoutPipe(); err != nil {
			return nil, err
		}
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.name, err)
	}
	addr := make(chan string, 1)
	go p.listen(stderr, addr)
	select {
	case p.addr = <-addr:
		return p, nil
	case said := <-p.said:
		err = fmt.Errorf("starting %s: it said %q", s.name, said)
	case <-time.After(startWait):
		err = fmt.Errorf("starting %s: it named no address in %v", s.name, startWait)
	}
	return nil, errors.Join(err, p.kill())
}

// listen finds the address in what the server says on standard error, and keeps
// the beginning of the rest.
func (p *process) listen(stderr io.Reader, addr chan<- string) {
	var rest strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if _, _, err := net.SplitHostPort(lines.Text()); err == nil && len(addr) == 0 {
			addr <- lines.Text()
		} else if rest.Len() < 2000 {
			rest.WriteString(lines.Text() + "\n")
		}
	}
	p.said <- rest.String()
}

// stop ends the server and reports what it said if it was unhappy.
func (p *process) stop() error {
	if p.in != nil {
		p.in.Close()
		io.Copy(io.Discard, p.out)
	} else if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	timer := time.AfterFunc(startWait, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	said := <-p.said
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", p.server.name, err, said)
	}
	return nil
}

func (p *process) kill() error {
	p.cmd.Process.Kill()
	<-p.said
	p.cmd.Wait()
	return nil
}

// usage is what a server has used for some work.
type usage struct {
	cpu           time.Duration
	mallocs       uint64
	bytes         uint64
	before, after kit.Stats
}

// measure says what the server uses while work runs. Asking it is not counted as CPU.
func (p *process) measure(work func() error) (usage, error) {
	var u usage
	var err error
	if u.before, err = p.stats(false); err != nil {
		return u, err
	}
	start, _, err := p.use()
	if err != nil {
		return u, err
	}
	profiled := p.startProfile()
	if err := work(); err != nil {
		return u, fmt.Errorf("%s: %w", p.server.name, err)
	}
	end, _, err := p.use()
	if err := errors.Join(err, <-profiled); err != nil {
		return u, err
	}
	u.after, err = p.stats(false)
	u.cpu, u.mallocs, u.bytes = end-start, u.after.Mallocs-u.before.Mallocs, u.after.TotalAlloc-u.before.TotalAlloc
	return u, err
}

// startProfile begins to profile the server, if that is wanted: its CPU for a
// second, and what it has allocated by then.
func (p *process) startProfile() <-chan error {
	done := make(chan error, 1)
	if p.profile == "" {
		done <- nil
		return done
	}
	go func() {
		done <- errors.Join(p.save("profile?seconds=1", p.profile+".cpu"), p.save("allocs", p.profile+".mem"))
	}()
	return done
}

// save writes a profile of the server to a file.
func (p *process) save(profile, file string) error {
	res, err := http.Get("http://" + p.addr + "/debug/pprof/" + profile)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o666)
}

var errSystem = errors.New("the CPU time and memory of another process are read on Linux only")

// use returns the CPU time that the server has used, and what of it is in memory.
func (p *process) use() (cpu time.Duration, resident int64, err error) {
	if cpu, resident = bench.ProcessUse(p.cmd.Process.Pid); resident == 0 {
		return 0, 0, errSystem
	}
	return cpu, resident, nil
}

func (p *process) resident() (float64, error) {
	_, resident, err := p.use()
	return float64(resident), err
}

// stats asks the debug endpoint, after a collection if gc says so.
func (p *process) stats(gc bool) (kit.Stats, error) {
	var s kit.Stats
	path := "/debug/stats"
	if gc {
		path += "?gc=1"
	}
	c, err := dial(p.addr)
	if err != nil {
		return s, err
	}
	defer c.close()
	res, err := c.do([]byte("GET " + path + " HTTP/1.1\r\nHost: " + p.addr + "\r\n\r\n"))
	if err != nil {
		return s, err
	}
	if res.status != 200 {
		return s, fmt.Errorf("%s: /debug/stats: %d", p.server.name, res.status)
	}
	return s, json.NewDecoder(bytes.NewReader(res.body)).Decode(&s)
}

// leftWait is how long a server may keep goroutines for its next work.
const leftWait = 12 * time.Second

// settled waits until the server's goroutines have not become fewer for a while, and
// returns its numbers after a collection.
func (p *process) settled() (kit.Stats, error) {
	least, err := p.stats(true)
	for quiet := 0; err == nil && quiet < 6; quiet++ {
		time.Sleep(25 * time.Millisecond)
		var next kit.Stats
		if next, err = p.stats(true); next.Goroutines < least.Goroutines {
			quiet = 0
		}
		least = next
	}
	return least, err
}

// left waits until the server has no more goroutines than before, for leftWait at
// most.
func (p *process) left(before kit.Stats) (kit.Stats, error) {
	s, err := p.settled()
	for end := time.Now().Add(leftWait); err == nil && s.Goroutines > before.Goroutines && time.Now().Before(end); {
		time.Sleep(250 * time.Millisecond)
		s, err = p.stats(true)
	}
	return s, err
}
