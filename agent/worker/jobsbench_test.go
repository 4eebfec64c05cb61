package worker_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// BenchmarkJobs64 measures a backlog of jobs, 64 at once, in a file that survives power loss. A job is one turn, or a
// turn with a call and the answer. The file needs nothing of its package, so that it also measures older commits.
func BenchmarkJobs64(b *testing.B) {
	answer := llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		if len(req.Messages) > 1 {
			return llmtest.Say("done")
		}
		return llmtest.Call("look", nil)
	})
	for name, turn := range map[string]llmtest.Turn{"turn": llmtest.Say("done"), "call": answer} {
		b.Run(name, func(b *testing.B) {
			s, err := sqlite.Open(filepath.Join(b.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: sqlite.Full})
			if err != nil {
				b.Fatal(err)
			}
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
			rt, err := agent.Open(b.Context(), &agent.Options{Model: llmtest.Loop(turn), Store: s, Approve: agent.NeverAsk,
				Tools: []agent.Tool{agent.Func("look", "Looks.", func(context.Context, struct{}) (string, error) { return "ok", nil })}})
			if err != nil {
				b.Fatal(err)
			}
			defer rt.Close()
			a, err := rt.Agent("a", nil)
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan store.JobState, b.N)
			w, err := worker.New(rt, &worker.Options{Agents: []*agent.Agent{a}, Store: s, Concurrency: 64, OnEvent: func(ev worker.Event) {
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
		})
	}
}
