package worker_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// This file needs nothing of its package, so that it also measures older commits.

// load is a backlog of jobs, each a run whose model asks for so many calls one after the other, and then answers. Texts
// are what calls return and the model answers.
type load struct {
	name   string
	atOnce int
	sync   sqlite.Synchronous
	memory bool // the store is one in memory
	calls  int
	text   string
	thinks time.Duration // the model's time for an answer
}

// BenchmarkJobs64 measures jobs, 64 at once, in a file that survives power loss. A job is one turn, or a turn with a
// call and the answer.
func BenchmarkJobs64(b *testing.B) {
	for _, l := range []load{
		{name: "turn", atOnce: 64, sync: sqlite.Full, text: "done"},
		{name: "call", atOnce: 64, sync: sqlite.Full, text: "done", calls: 1},
	} {
		b.Run(l.name, l.run)
	}
}

// BenchmarkJobs measures other loads, each with one thing that is not as in Jobs64/turn.
func BenchmarkJobs(b *testing.B) {
	for _, l := range []load{
		{name: "1-at-once", atOnce: 1, sync: sqlite.Full, text: "done"},
		{name: "8-at-once", atOnce: 8, sync: sqlite.Full, text: "done"},
		{name: "256-at-once", atOnce: 256, sync: sqlite.Full, text: "done"},
		{name: "normal", atOnce: 64, sync: sqlite.Normal, text: "done"},
		{name: "memory", atOnce: 64, memory: true, text: "done"},
		{name: "3-calls-of-4-KB", atOnce: 64, sync: sqlite.Full, text: strings.Repeat("done ", 800), calls: 3},
		{name: "model-of-5-ms", atOnce: 64, sync: sqlite.Full, text: "done", thinks: 5 * time.Millisecond},
	} {
		b.Run(l.name, l.run)
	}
}

// turn is the model's.
func (l *load) turn(ctx context.Context, req *llm.Request) llmtest.Turn {
	results := 0
	for _, m := range req.Messages {
		for _, c := range m.Content {
			if _, ok := c.(*mcp.ToolResultContent); ok {
				results++
			}
		}
	}
	if l.thinks > 0 {
		select {
		case <-time.After(l.thinks):
		case <-ctx.Done():
		}
	}
	if results < l.calls {
		return llmtest.Call("look", nil)
	}
	return llmtest.Say(l.text)
}

// open returns an empty store.
func (l *load) open(b *testing.B) store.Store {
	if l.memory {
		return memstore.New(nil)
	}
	s, err := sqlite.Open(filepath.Join(b.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: l.sync})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (l *load) run(b *testing.B) {
	s := l.open(b)
	defer s.Close()
	var adding sync.WaitGroup
	for i := range 100 { // they share commits
		adding.Go(func() {
			for n := i; n < b.N; n += 100 {
				if _, err := s.AddJob(b.Context(), store.Job{Agent: "a", Prompt: "go"}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	adding.Wait()
	rt, err := agent.Open(b.Context(), &agent.Options{Model: llmtest.Loop(llmtest.Func(l.turn)), Store: s, Approve: agent.NeverAsk,
		Providers: map[string]agent.ProviderOptions{"": {Concurrency: 2 * l.atOnce, Queue: 2 * l.atOnce}},
		Tools:     []agent.Tool{agent.Func("look", "Looks.", func(context.Context, struct{}) (string, error) { return l.text, nil })}})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close()
	a, err := rt.Agent("a", nil)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan store.JobState, b.N)
	w, err := worker.New(rt, &worker.Options{Agents: []*agent.Agent{a}, Store: s, Concurrency: l.atOnce, OnEvent: func(ev worker.Event) {
		if ev.Type == worker.JobEnded {
			done <- ev.Job.State
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ended <- w.Run(ctx) }()
	for range b.N {
		if state := <-done; state != store.JobDone {
			b.Errorf("a job is %s", state)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
