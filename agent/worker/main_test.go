package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// childEnv makes the test binary a worker: the agents it serves, with commas.
const childEnv = "TROUPE_WORKER_TEST_CHILD"

func TestMain(m *testing.M) {
	if agents := os.Getenv(childEnv); agents != "" {
		if err := child(os.Args[1], strings.Split(agents, ",")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childLease is the lease of jobs and runs of workers that are processes, and childLosses
// how many of these a job may lose.
const (
	childLease  = 2 * time.Second
	childLosses = 4
)

// line is what a child says: an event, or that a call holds.
type line struct {
	Type  worker.EventType `json:"type"`
	Job   string           `json:"job"`
	State string           `json:"state"`
}

// child works off the store at path until SIGTERM. Its model does what the prompt says:
// "KIND ID". Effects are lines in a file beside the store.
func child(path string, agents []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := sqlite.Open(path, &sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		return err
	}
	defer s.Close()
	out := &lines{enc: json.NewEncoder(os.Stdout)}
	out.say(line{Type: "ready"})
	rt, err := agent.Open(ctx, &agent.Options{Model: llmtest.Loop(llmtest.Func(does)), Store: s, Approve: agent.NeverAsk,
		Lease: childLease, Tools: childTools(path+".effects", out)})
	if ctx.Err() != nil && err != nil {
		return nil // SIGTERM came before it had begun
	}
	if err != nil {
		return err
	}
	defer rt.Close()
	o := &worker.Options{Store: s, Lease: childLease, Poll: 100 * time.Millisecond, Retry: worker.Retry{MaxLosses: childLosses}, OnEvent: func(ev worker.Event) {
		out.say(line{ev.Type, ev.Job.ID, string(ev.Job.State)})
	}}
	for _, name := range agents {
		a, err := rt.Agent(name, nil)
		if err != nil {
			return err
		}
		o.Agents = append(o.Agents, a)
	}
	w, err := worker.New(rt, o)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// does is the scripted model.
func does(_ context.Context, req *llm.Request) llmtest.Turn {
	kind, id, _ := strings.Cut(req.Messages[0].Content.Text(), " ")
	switch {
	case kind == "slow":
		return llmtest.Slow(time.Hour)
	case kind == "long":
		return llmtest.Join(llmtest.Slow(200*time.Millisecond), llmtest.Say("done "+id))
	case kind == "plain" || len(req.Messages) > 1:
		return llmtest.Say("done " + id)
	}
	return llmtest.Call(kind, map[string]string{"id": id})
}

// lines writes to stdout.
type lines struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func (l *lines) say(v line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.enc.Encode(v) // a parent that has gone kills the child
}

// childTools are tools with an effect. The one that holds waits, in a process that has
// something on its stdin, until that ends.
func childTools(effects string, out *lines) []agent.Tool {
	type in struct {
		ID string `json:"id"`
	}
	tool := func(name string, safe, holds bool) agent.Tool {
		t := agent.Func(name, "Has an effect.", func(_ context.Context, in in) (string, error) {
			f, err := os.OpenFile(effects, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return "", err
			}
			defer f.Close()
			if _, err := fmt.Fprintln(f, in.ID); err != nil {
				return "", err
			}
			if holds {
				out.say(line{Type: "holds", Job: in.ID})
				_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
			}
			return "ok", nil
		})
		t.Safe = safe
		return t
	}
	die := agent.Func("die", "Kills the process.", func(context.Context, in) (string, error) {
		out.say(line{Type: "dies"})
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return "", err
		}
		return "", self.Kill()
	})
	die.Safe = true
	return []agent.Tool{tool("safe", true, false), tool("unsafe", false, false), agent.NeedsApproval(tool("ask", false, false)), tool("hold", false, true), die}
}
