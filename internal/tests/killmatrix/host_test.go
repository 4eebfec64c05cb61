//go:build linux

package killmatrix

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

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
	Kill       int    // the commit at which it dies; zero for none
	After      bool   // it dies after that commit
}

// report is what a host prints at the end.
type report struct {
	Text    string
	Err     string
	Tokens  int // spent
	Commits int
}

func do(n int) llmtest.Turn { return llmtest.Call("server__do", fmt.Sprintf(`{"n":%d}`, n)) }

// kinds are the runs. Each makes calls of the numbers 1 to 3.
var kinds = map[string]struct {
	cfg   agent.Config
	turns []llmtest.Turn
	below []llmtest.Turn // of its sub-agent
}{
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

// host does the job.
func host(j job) error {
	s, err := sqlite.Open(j.DB, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := os.WriteFile(j.Orders+".pid", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	dying := &dying{Store: s, at: int64(j.Kill), after: j.After}
	kind := kinds[j.Kind]
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
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.ByHistory(kind.turns...), Store: dying, Servers: []mcpclient.Server{server}, Logger: slog.New(slog.DiscardHandler),
		Sampling: &agent.Sampling{Model: llmtest.ByHistory(llmtest.Say("sampled")), Default: agent.SamplingPolicy{Mode: mcpclient.SamplingAllow}}})
	if err != nil {
		return err
	}
	defer rt.Close()
	cfg := kind.cfg
	if kind.below != nil {
		below, err := rt.Agent("below", &agent.Config{Model: llmtest.ByHistory(kind.below...), Approve: agent.NeverAsk})
		if err != nil {
			return err
		}
		cfg.Tools = append(cfg.Tools, below.AsTool("below", "Does the rest."))
	}
	other, err := rt.Agent("other", &agent.Config{Approve: agent.NeverAsk})
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
	out := report{Commits: int(dying.n.Load())}
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

// dying is a store whose process ends just before or just after one of its commits.
type dying struct {
	store.Store
	n     atomic.Int64
	at    int64
	after bool
	mu    sync.Mutex // held by the commit that is the last one: nothing comes after it
}

func (d *dying) commit(write func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.n.Add(1)
	if n == d.at && !d.after {
		die()
	}
	err := write()
	if n == d.at && d.after {
		die()
	}
	return err
}

func (d *dying) Create(ctx context.Context, r store.Run, owner string, ttl leaseTime, first ...store.Event) (out store.Run, err error) {
	err = d.commit(func() error { out, err = d.Store.Create(ctx, r, owner, ttl, first...); return err })
	return out, err
}

func (d *dying) Append(ctx context.Context, a store.Append) (last int64, err error) {
	err = d.commit(func() error { last, err = d.Store.Append(ctx, a); return err })
	return last, err
}

// die ends the process as SIGKILL does.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
