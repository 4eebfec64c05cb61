package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// shop is a runtime with a worker on a store.
type shop struct {
	t      *testing.T
	store  store.Store
	rt     *agent.Runtime
	worker *worker.Worker
	stop   context.CancelFunc
	ended  chan struct{} // closed once Run has returned err
	err    error

	mu     sync.Mutex
	events []worker.Event
}

// open starts a worker; opts may be nil, as the configuration of its one agent "a".
func open(t *testing.T, s store.Store, model llm.Model, cfg *agent.Config, opts *worker.Options) *shop {
	t.Helper()
	return openWith(t, s, model, cfg, opts, func(*worker.Worker) {})
}

// openWith is open with a worker that is changed before it runs.
func openWith(t *testing.T, s store.Store, model llm.Model, cfg *agent.Config, opts *worker.Options, change func(*worker.Worker)) *shop {
	t.Helper()
	return openOn(t, s, &agent.Options{Model: model}, cfg, opts, change)
}

// openOn is openWith with further options of the runtime.
func openOn(t *testing.T, s store.Store, of *agent.Options, cfg *agent.Config, opts *worker.Options, change func(*worker.Worker)) *shop {
	t.Helper()
	return openTeam(t, s, of, cfg, opts, func(*agent.Runtime, *agent.Config) {}, change)
}

// openTeam is openOn with what first makes of the runtime and of the agent's configuration.
func openTeam(t *testing.T, s store.Store, of *agent.Options, cfg *agent.Config, opts *worker.Options, first func(*agent.Runtime, *agent.Config), change func(*worker.Worker)) *shop {
	t.Helper()
	of.Store, of.Approve, of.Retry, of.Grace = s, agent.NeverAsk, &llm.RetryOptions{MaxAttempts: 1}, time.Second
	rt, err := agent.Open(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	first(rt, cfg)
	a, err := rt.Agent("a", cfg)
	if err != nil {
		t.Fatal(err)
	}
	var o worker.Options
	if opts != nil {
		o = *opts
	}
	sh := &shop{t: t, store: s, rt: rt, ended: make(chan struct{})}
	o.Agents, o.Store, o.OnEvent, o.Name = []*agent.Agent{a}, s, sh.hear, "w"
	if sh.worker, err = worker.New(rt, &o); err != nil {
		t.Fatal(err)
	}
	change(sh.worker)
	ctx, stop := context.WithCancel(t.Context())
	sh.stop = stop
	go func() {
		defer close(sh.ended)
		sh.err = sh.worker.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-sh.ended
		if err := rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := rt.System().Census().Live(); n != 0 {
			t.Errorf("actors left: %+v", rt.System().Census().Actors)
		}
		time.Sleep(time.Second) // virtual: what is asleep in the bubble ends
	})
	return sh
}

func (sh *shop) hear(ev worker.Event) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.events = append(sh.events, ev)
}

// types are the events of a job so far.
func (sh *shop) types(job string) (list []worker.EventType) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, ev := range sh.events {
		if ev.Job.ID == job {
			list = append(list, ev.Type)
		}
	}
	return list
}

// drain ends the worker, and wants no error of it.
func (sh *shop) drain() {
	sh.t.Helper()
	sh.stop()
	if <-sh.ended; sh.err != nil {
		sh.t.Errorf("Run: %v", sh.err)
	}
}

func add(t *testing.T, s store.Store, j store.Job) store.Job {
	t.Helper()
	if j.Agent == "" {
		j.Agent = "a"
	}
	if j.Prompt == "" {
		j.Prompt = "go"
	}
	out, err := s.AddJob(t.Context(), j)
	if err != nil {
		t.Fatalf("AddJob: %v", err)
	}
	return out
}

// want waits a virtual while and looks at a job.
func want(t *testing.T, s store.Store, id string, state store.JobState) store.Job {
	t.Helper()
	j, err := s.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if j.State != state {
		t.Errorf("job %q: got %s (%s), want %s", id, j.State, j.Error, state)
	}
	return j
}

func memory() store.Store { return memstore.New(nil) }

// counted is a tool with an effect.
func counted(safe bool, n *atomic.Int64) agent.Tool {
	tool := agent.Func("count", "Counts.", func(context.Context, struct{}) (string, error) { return fmt.Sprint(n.Add(1)), nil })
	tool.Safe = safe
	return tool
}

func TestDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory()
		sh := open(t, s, llmtest.Loop(llmtest.Say("hello")), nil, nil)
		j := add(t, s, store.Job{})
		sh.worker.Wake()
		synctest.Wait()
		got := want(t, s, j.ID, store.JobDone)
		var res agent.Result
		if err := jsonx.Unmarshal(got.Result, &res); err != nil || res.Text != "hello" || res.RunID != j.ID+".1" || res.Usage.Output == 0 {
			t.Errorf("result: got %s, %v", got.Result, err)
		}
		if got.Owner != "" || got.Attempts != 1 || got.Failures != 0 {
			t.Errorf("job: got %+v", got)
		}
		if types := sh.types(j.ID); !slices.Equal(types, []worker.EventType{worker.JobStarted, worker.JobEnded}) {
			t.Errorf("events: got %v", types)
		}
		if st := sh.worker.Status(); st.Ended[store.JobDone] != 1 || st.Running != 0 || len(st.Jobs) != 0 {
			t.Errorf("Status: got %+v", st)
		}
		if err := sh.worker.Run(t.Context()); !errors.Is(err, worker.ErrRunning) {
			t.Errorf("Run again: got %v, want ErrRunning", err)
		}
	})
}
