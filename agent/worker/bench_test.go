package worker_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

func benchWorker(b *testing.B, s store.Store, model llm.Model, o worker.Options) {
	b.Helper()
	rt, err := agent.Open(b.Context(), &agent.Options{Model: model, Store: s, Approve: agent.NeverAsk,
		Tools: []agent.Tool{agent.NeedsApproval(agent.Func("ask", "Asks.", func(context.Context, struct{}) (string, error) { return "ok", nil })),
			agent.Func("look", "Looks.", func(context.Context, struct{}) (string, error) { return "ok", nil })}})
	if err != nil {
		b.Fatal(err)
	}
	a, err := rt.Agent("a", &agent.Config{AskExpiry: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	o.Agents, o.Store = []*agent.Agent{a}, s
	w, err := worker.New(rt, &o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Errorf("Run: %v", err)
		}
		if err := rt.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
	})
}

// BenchmarkWorker measures jobs from the queue to their result: one turn of a scripted
// model each, with journal, in a file.
func BenchmarkWorker(b *testing.B) {
	for mode, name := range []string{sqlite.Full: "full", sqlite.Normal: "normal"} {
		for _, n := range []int{8, 64} {
			b.Run(fmt.Sprintf("sync=%s/concurrency=%d", name, n), func(b *testing.B) {
				s, err := sqlite.Open(filepath.Join(b.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: sqlite.Synchronous(mode)})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { s.Close() })
				for range b.N {
					if _, err := s.AddJob(b.Context(), store.Job{Agent: "a", Prompt: "go"}); err != nil {
						b.Fatal(err)
					}
				}
				done := make(chan struct{}, b.N)
				b.ResetTimer()
				cpu := cpuTime()
				benchWorker(b, s, llmtest.Loop(llmtest.Say("ok")), worker.Options{Concurrency: n, OnEvent: func(ev worker.Event) {
					if ev.Type == worker.JobEnded {
						done <- struct{}{}
					}
				}})
				for range b.N {
					<-done
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
				b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/job")
			})
		}
	}
}

// BenchmarkParked measures a thousand jobs that wait for a human: the memory of each, and
// the CPU time a second that it takes to wait for their answers.
func BenchmarkParked(b *testing.B) {
	const jobs = 1000
	s, err := sqlite.Open(filepath.Join(b.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	waits := make(chan struct{}, jobs)
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	before := heap()
	for range jobs {
		if _, err := s.AddJob(b.Context(), store.Job{Agent: "a", Prompt: "go"}); err != nil {
			b.Fatal(err)
		}
	}
	model := llmtest.Loop(llmtest.Func(func(context.Context, *llm.Request) llmtest.Turn { return llmtest.Call("ask", nil) }))
	benchWorker(b, s, model, worker.Options{MaxParked: 2 * jobs, ParkAfter: -1, OnEvent: func(ev worker.Event) {
		if ev.Type == worker.JobWaiting {
			waits <- struct{}{}
		}
	}})
	for range jobs {
		<-waits
	}
	each, goroutines := (heap()-before)/jobs, runtime.NumGoroutine()
	cpu, start := cpuTime(), time.Now()
	for b.Loop() {
		time.Sleep(3 * time.Second)
	}
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/1000/time.Since(start).Seconds(), "cpu-ms/s")
	b.ReportMetric(each, "B/job")
	b.ReportMetric(float64(goroutines), "goroutines")
}
