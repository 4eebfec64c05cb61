//go:build linux

package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// Variables that make the test binary a worker, or a server on a pipe.
const (
	workerVariable = "TROUPE_CHAOS_WORKER"
	serverVariable = "TROUPE_CHAOS_SERVER"
)

func TestMain(m *testing.M) {
	switch text, file := os.Getenv(workerVariable), os.Getenv(serverVariable); {
	case file != "":
		s, err := newServer(ledger{file}, "legacy")
		if err == nil {
			err = roomy() // where its host has a full disk
		}
		if err == nil {
			err = s.ServeStdio(context.Background())
		}
		end(err)
	case text != "":
		var o orders
		err := json.Unmarshal([]byte(text), &o)
		if err == nil {
			err = o.work()
		}
		end(err)
	}
	mcptest.Run(m, 16)
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// roomy lets files grow that this process writes.
func roomy() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
}

// orders are what a process is told to do, by its environment.
type orders struct {
	DB, Ledger string // files
	Model, MCP string // URLs
	Name       string // of the worker; its leases begin with it
	Resume     string // a run with which the process, which is a person's then, goes on; empty for a worker
	Lease      time.Duration
	ParkAfter  time.Duration
	FirstByte  time.Duration // how long the model may hang
	MaxLosses  int           // zero is the default
	GiveUp     time.Duration // likewise
}

const week = 7 * 24 * time.Hour

// The times of a worker. They are short, but for the lease: a busy machine has to keep it.
const (
	lease     = 3 * time.Second
	parkAfter = 400 * time.Millisecond
	drain     = time.Second
	busy      = time.Second // how long a write waits for another process
)

// work is a worker, until it is told to end; or a person who goes on with a run.
func (o orders) work() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGXFSZ) // the limit of the size of files is an error, as a full disk is
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	s, err := sqlite.Open(o.DB, &sqlite.Options{BusyTimeout: busy, Synchronous: sqlite.Normal})
	if err != nil {
		return err
	}
	defer s.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	legacy := mcpclient.Command(self)
	legacy.Env, legacy.Protocol = map[string]*string{serverVariable: &o.Ledger}, "2025-11-25"
	legacy.Name, legacy.Trusted, legacy.Instances = "legacy", true, 6
	modern := mcpclient.Server{Name: "modern", URL: o.MCP, Protocol: mcpclient.ProtocolModern, Trusted: true}
	rt, err := agent.Open(ctx, &agent.Options{
		Model:     openai.New("scripted", &openai.Options{BaseURL: o.Model, APIKey: "none", FirstByteTimeout: o.FirstByte, IdleTimeout: time.Second}),
		Retry:     &llm.RetryOptions{MaxAttempts: 2, InitialWait: 100 * time.Millisecond, MaxWait: time.Second},
		Providers: map[string]agent.ProviderOptions{"": {Concurrency: 64, Circuit: agent.Circuit{Open: time.Second}}},
		Store:     s, Lease: o.Lease, Servers: []mcpclient.Server{legacy, modern}, Logger: log, Grace: time.Second,
		Host: &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{AskExpiry: week, ElicitationExpiry: week}}}})
	if err != nil {
		return err
	}
	defer rt.Close()
	agents, err := define(rt)
	if err != nil {
		return err
	}
	if o.Resume != "" {
		run, err := rt.Resume(ctx, o.Resume, nil)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		_, err = run.Wait(ctx)
		return err
	}
	w, err := worker.New(rt, &worker.Options{Agents: agents, Store: s, Concurrency: 16, ParkAfter: o.ParkAfter, Lease: o.Lease, Drain: drain, GiveUp: o.GiveUp,
		Retry: worker.Retry{Max: 2 * time.Second, MaxLosses: o.MaxLosses}, Poll: 200 * time.Millisecond, Name: o.Name, Logger: log,
		OnEvent: func(e worker.Event) {
			log.Info(string(e.Type), "job", e.Job.ID, "state", e.Job.State, "run", e.Job.Run, "error", e.Error)
		}})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	err = w.Run(ctx)
	if _, ok := errors.AsType[*worker.DrainError](err); ok { // the store was locked: others wait for the leases
		err = nil
	}
	return err
}

// define makes the agents of all kinds of jobs.
func define(rt *agent.Runtime) (all []*agent.Agent, err error) {
	for name, cfg := range map[string]agent.Config{
		"plain":   {Approve: agent.NeverAsk},
		"asker":   {Approve: agent.AskAlways},
		"limited": {Approve: agent.NeverAsk, Limits: agent.Limits{ModelCalls: limitedTo, OnLimit: agent.LimitAsk}},
		"bounded": {Approve: agent.NeverAsk, Limits: agent.Limits{ModelCalls: boundedTo}},
	} {
		cfg.AskExpiry = week
		a, err := rt.Agent(name, &cfg)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	below, err := rt.Agent("below", &agent.Config{Approve: agent.NeverAsk, AskExpiry: week})
	if err != nil {
		return nil, err
	}
	lead, err := rt.Agent("lead", &agent.Config{Approve: agent.NeverAsk, AskExpiry: week, Tools: []agent.Tool{below.AsTool("below", "Does the rest.")}})
	return append(all, lead), err
}

// process is one life of a worker.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	ready chan struct{} // closed when it works, or has ended
	err   error         // how it has ended; read after ended
	told  bool          // to end, or killed: its end is no surprise
	still bool          // it stands still
}

// fleet are the processes of a world.
type fleet struct {
	dir    string
	orders orders
	mu     sync.Mutex // guards what follows, and told and still of each process
	at     map[string]*process
	n      int
	odd    []string // processes that have ended by themselves
}

// start starts a worker under a name whose process before has ended.
func (f *fleet) start(name, resume string) (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := f.orders
	o.Name, o.Resume = name, resume
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	f.n++
	log, err := os.Create(filepath.Join(f.dir, fmt.Sprintf("%s-%d.log", name, f.n)))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(self), ended: make(chan struct{}), ready: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+string(raw))
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	f.at[name] = p
	go func() {
		defer close(p.ended)
		_, _ = bufio.NewReader(out).ReadString('\n')
		close(p.ready)
		err := p.cmd.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if p.err = err; !p.told && resume == "" {
			f.odd = append(f.odd, fmt.Sprintf("worker %s has ended by itself: %v", name, err))
		}
	}()
	return p, nil
}

// get returns the process of that name; nil for none.
func (f *fleet) get(name string) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[name]
}

// signal sends a signal to a process, which may have ended.
func (f *fleet) signal(p *process, sig syscall.Signal) error {
	f.mu.Lock()
	p.told = p.told || sig == syscall.SIGKILL || sig == syscall.SIGTERM
	if sig == syscall.SIGSTOP {
		p.still = true
	}
	f.mu.Unlock()
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if sig == syscall.SIGCONT {
		f.mu.Lock()
		p.still = false
		f.mu.Unlock()
	}
	return err
}

// kill ends a process as SIGKILL does, and waits for it.
func (f *fleet) kill(p *process) error {
	err := f.signal(p, syscall.SIGKILL)
	<-p.ended
	f.mu.Lock()
	defer f.mu.Unlock()
	p.still = false
	return err
}

// term has a worker drain, and waits for its end.
func (f *fleet) term(p *process) error {
	<-p.ready
	err := f.signal(p, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		return errors.Join(fmt.Errorf("worker %s does not end 30 seconds after SIGTERM", p.name), f.kill(p))
	}
	if p.err != nil && !strings.Contains(p.err.Error(), "signal: terminated") {
		return errors.Join(err, fmt.Errorf("worker %s, which was told to end: %w", p.name, p.err))
	}
	return err
}

// anyStill reports whether a process stands still: what it is about to send is not known.
func (f *fleet) anyStill() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.at {
		if p.still {
			return true
		}
	}
	return false
}

// stop kills all that are left.
func (f *fleet) stop() {
	f.mu.Lock()
	all := make([]*process, 0, len(f.at))
	for _, p := range f.at {
		all = append(all, p)
	}
	f.mu.Unlock()
	for _, p := range all {
		_ = f.kill(p)
	}
}

// full lets no file grow that a process writes, until the limit is lifted.
func full(p *process) (lift func() error, err error) {
	var before unix.Rlimit
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		return nil, err
	}
	small := before
	small.Cur = 1
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &small, nil); err != nil {
		return nil, err
	}
	return func() error {
		err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &before, nil)
		if errors.Is(err, unix.ESRCH) { // it has ended
			err = nil
		}
		return err
	}, nil
}
