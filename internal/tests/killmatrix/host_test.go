//go:build linux

package killmatrix

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// job is what a host process is told to do, by its environment.
type job struct {
	DB, Orders string // files
	URL        string // of the server; empty starts one on a pipe
	Kind       string // of run
	At         int    // the commit at which there is a fault; zero for none
	After      bool   // it comes after that commit
	Fault      string // of that commit: kill, stop, or meet
	Lease      time.Duration
	Busy       time.Duration // how long a write waits for another process; zero for the default
}

// report is what a host prints at the end.
type report struct {
	Text    string
	Err     string
	Tokens  int // spent
	Commits int
}

func do(n int) llmtest.Turn { return llmtest.Call("server__do", fmt.Sprintf(`{"n":%d}`, n)) }

// kind is a kind of run.
type kind struct {
	cfg   agent.Config
	turns []llmtest.Turn
	below []llmtest.Turn // of its sub-agent
}

// kinds are the runs of the matrix. Each makes calls of the numbers 1 to 3.
var kinds = map[string]kind{
	"plain":    {agent.Config{Approve: agent.NeverAsk}, []llmtest.Turn{llmtest.Calls(do(1), do(2)), do(3), llmtest.Say("done")}, nil},
	"approval": {agent.Config{Approve: agent.AskAlways}, []llmtest.Turn{llmtest.Calls(do(1), do(2)), do(3), llmtest.Say("done")}, nil},
	"limit": {agent.Config{Approve: agent.NeverAsk, Limits: agent.Limits{Steps: 1, OnLimit: agent.LimitAsk}},
		[]llmtest.Turn{llmtest.Calls(do(1), do(2)), do(3), llmtest.Say("done")}, nil},
	"sub-agent": {agent.Config{Approve: agent.NeverAsk}, []llmtest.Turn{llmtest.Calls(do(1), llmtest.Call("below", `{"prompt":"go"}`)), llmtest.Say("done")},
		[]llmtest.Turn{do(2), do(3), llmtest.Say("below done")}},
	"form": {agent.Config{Approve: agent.NeverAsk}, []llmtest.Turn{llmtest.Call("server__asks", `{"n":1}`), do(2), do(3), llmtest.Say("done")}, nil},
	"page": {agent.Config{Approve: agent.NeverAsk}, []llmtest.Turn{llmtest.Call("server__visits", `{"n":1}`), do(2), do(3), llmtest.Say("done")}, nil},
	"task": {agent.Config{Approve: agent.NeverAsk}, []llmtest.Turn{llmtest.Call("server__long", `{"n":1}`), do(2), do(3), llmtest.Say("done")}, nil},
	"team": {agent.Config{Approve: agent.NeverAsk}, []llmtest.Turn{llmtest.Calls(do(1), llmtest.Call("below", `{"prompt":"go"}`)),
		llmtest.Call("transfer_to_other", `{}`), llmtest.Call("server__long", `{"n":3}`), llmtest.Say("done")}, []llmtest.Turn{do(2), llmtest.Say("below done")}},
	"sampling": {agent.Config{Approve: agent.NeverAsk}, []llmtest.Turn{llmtest.Call("server__samples", `{"n":1}`), do(2), do(3), llmtest.Say("done")}, nil},
}

// crowdCalls is how many calls a run of crowd makes.
const crowdCalls = 12

// crowd is a run of three agents that takes some seconds, with tasks in two of them.
func crowd() kind {
	slow := func(turns ...llmtest.Turn) llmtest.Turn {
		return llmtest.Join(append([]llmtest.Turn{llmtest.Slow(150 * time.Millisecond)}, turns...)...)
	}
	long := func(n int) llmtest.Turn { return llmtest.Call("server__long", fmt.Sprintf(`{"n":%d}`, n)) }
	return kind{agent.Config{Approve: agent.NeverAsk},
		[]llmtest.Turn{slow(do(1)), slow(do(2), llmtest.Call("below", `{"prompt":"go"}`)), slow(long(6)), slow(llmtest.Call("transfer_to_other", `{}`)),
			slow(long(7)), slow(do(8)), slow(long(9)), slow(do(10)), slow(long(11)), slow(do(crowdCalls)), slow(llmtest.Say("done"))},
		[]llmtest.Turn{slow(do(3)), slow(long(4)), slow(do(5)), slow(llmtest.Say("below done"))}}
}

// askExpiry is longer than a clock jumps: no question expires by the jump.
const askExpiry = 2 * time.Hour

// host does the job.
func host(j job) error {
	signal.Ignore(syscall.SIGXFSZ) // the limit of the size of files is an error, as a full disk is
	s, err := sqlite.Open(j.DB, &sqlite.Options{BusyTimeout: j.Busy, Now: clockOf(j.Orders)})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := os.WriteFile(j.Orders+".pid", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	faulty := &faulty{Store: s, job: j}
	kind, ok := kinds[j.Kind]
	if !ok {
		kind = crowd()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := mcpclient.Command(self)
	server.Env, server.Protocol = map[string]*string{serverVariable: &j.Orders}, string(legacy)
	if j.URL != "" {
		server = mcpclient.Server{URL: j.URL, Protocol: mcpclient.ProtocolModern}
	}
	server.Name, server.Required = "server", true
	ctx := context.Background()
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.ByHistory(kind.turns...), Store: faulty, Lease: j.Lease, Host: &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{AskExpiry: askExpiry, ElicitationExpiry: askExpiry}}}, Servers: []mcpclient.Server{server}, Logger: slog.New(slog.DiscardHandler),
		Sampling: &agent.Sampling{Model: llmtest.ByHistory(llmtest.Say("sampled")), Default: agent.SamplingPolicy{Mode: mcpclient.SamplingAllow}}})
	if err != nil {
		return err
	}
	defer rt.Close()
	cfg := kind.cfg
	cfg.AskExpiry = askExpiry
	if kind.below != nil {
		below, err := rt.Agent("below", &agent.Config{Model: llmtest.ByHistory(kind.below...), Approve: agent.NeverAsk, AskExpiry: askExpiry})
		if err != nil {
			return err
		}
		cfg.Tools = append(cfg.Tools, below.AsTool("below", "Does the rest."))
	}
	other, err := rt.Agent("other", &agent.Config{Approve: agent.NeverAsk, AskExpiry: askExpiry})
	if err != nil {
		return err
	}
	cfg.Tools = append(cfg.Tools, agent.HandOff(other)...)
	a, err := rt.Agent("tested", &cfg)
	if err != nil {
		return err
	}
	run, err := a.Start(ctx, "go", &agent.RunOptions{ID: runID})
	if err != nil {
		return err
	}
	res, err := run.Wait(ctx)
	out := report{Commits: int(faulty.n.Load())}
	if err != nil {
		out.Err = err.Error()
	}
	if res != nil {
		out.Text, out.Tokens = res.Text, res.Spent.Tokens
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// runID is that of the run.
const runID = "killed"

// faulty is a store with a fault just before or just after one of its commits.
type faulty struct {
	store.Store
	job job
	n   atomic.Int64
	mu  sync.Mutex // held by each write of a run: none is under way while the process dies or stands still
}

func (f *faulty) commit(write func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	here := f.n.Add(1) == int64(f.job.At)
	if here && !f.job.After {
		f.fault()
	}
	err := write()
	if here && f.job.After {
		f.fault()
	}
	return err
}

func (f *faulty) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (out store.Run, err error) {
	err = f.commit(func() error { out, err = f.Store.Create(ctx, r, owner, ttl, first...); return err })
	return out, err
}

func (f *faulty) Append(ctx context.Context, a store.Append) (last int64, err error) {
	err = f.commit(func() error { last, err = f.Store.Append(ctx, a); return err })
	return last, err
}

func (f *faulty) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Store.Renew(ctx, run, owner, epoch, ttl)
}

// fault is what happens at the commit.
func (f *faulty) fault() {
	switch f.job.Fault {
	case "stop":
		time.Sleep(settled)
		stand()
	case "meet":
		meet(f.job.Orders)
	default:
		die()
	}
}

// die ends the process as SIGKILL does.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
