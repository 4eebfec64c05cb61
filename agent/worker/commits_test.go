package worker_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// commits is a store that notes its writes. Each is a commit where one job at a time is
// worked on.
type commits struct {
	store.Store
	mu  sync.Mutex // guards all; tests count what several actors write
	all []string
}

func (s *commits) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, what)
}

func (s *commits) ClaimJobs(ctx context.Context, owner string, n int, ttl time.Duration, agents []string, except ...string) ([]store.Job, error) {
	jobs, err := s.Store.ClaimJobs(ctx, owner, n, ttl, agents, except...)
	if len(jobs) > 0 {
		s.note("claim")
	}
	return jobs, err
}

func (s *commits) UpdateJob(ctx context.Context, u store.JobUpdate) (store.Job, error) {
	s.note("job " + string(u.State))
	return s.Store.UpdateJob(ctx, u)
}

func (s *commits) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	s.note("run:" + types(first))
	return s.Store.Create(ctx, r, owner, ttl, first...)
}

func (s *commits) Append(ctx context.Context, a store.Append) (int64, error) {
	s.note("append:" + types(a.Events))
	return s.Store.Append(ctx, a)
}

func (s *commits) SettleAsk(ctx context.Context, id string, d store.Decision) (store.Ask, error) {
	s.note("settle")
	return s.Store.SettleAsk(ctx, id, d)
}

func (s *commits) OpenAsk(ctx context.Context, a store.Ask) error {
	s.note("ask")
	return s.Store.OpenAsk(ctx, a)
}

func (s *commits) Release(ctx context.Context, run, owner string, epoch int64) error {
	s.note("release")
	return s.Store.Release(ctx, run, owner, epoch)
}

func (s *commits) SetPin(ctx context.Context, p store.Pin) error {
	s.note("pin")
	return s.Store.SetPin(ctx, p)
}

func types(events []store.Event) (list string) {
	for _, e := range events {
		list += " " + e.Type
	}
	return list
}

// oneCall is a model that makes one call of a tool, and then answers.
func oneCall(tool string) llm.Model {
	return llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		if len(req.Messages) > 1 {
			return llmtest.Say("done")
		}
		return llmtest.Call(tool, nil)
	}))
}

// TestCommitsOfAJob holds the number of commits of a job with one tool call: the disk's latency times
// that is the shortest time that it takes.
func TestCommitsOfAJob(t *testing.T) {
	type none struct{}
	look := func(context.Context, none) (string, error) { return "ok", nil }
	for _, tool := range []string{"look", "files__look"} { // a function, and a tool of a server
		t.Run(tool, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, err := mcpserver.New(mcp.Implementation{Name: "files", Version: "1"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := server.Shutdown(context.Background()); err != nil {
						t.Error(err)
					}
				})
				if err := mcpserver.AddFunc(server, &mcp.Tool{Name: "look"}, look); err != nil {
					t.Fatal(err)
				}
				s := &commits{Store: memory()}
				openOn(t, s, &agent.Options{Model: oneCall(tool), Servers: []mcpclient.Server{mcpclient.InProcess("files", server)}},
					&agent.Config{Tools: []agent.Tool{agent.Func("look", "Looks.", look)}}, &worker.Options{Concurrency: 1}, func(*worker.Worker) {})
				for _, id := range []string{"first", "j"} { // the first one pins the server's tools
					s.mu.Lock()
					s.all = nil
					s.mu.Unlock()
					add(t, s, store.Job{ID: id})
					time.Sleep(time.Minute)
					want(t, s, id, store.JobDone)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if len(s.all) > 6 {
					t.Errorf("got %d commits, want 6 at the most:", len(s.all))
				}
				for i, w := range s.all {
					t.Log(i+1, w)
				}
			})
		})
	}
}

// BenchmarkOneCallJobs measures jobs of one tool call each, with their commits.
func BenchmarkOneCallJobs(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("concurrency=%d", n), func(b *testing.B) {
			file, err := sqlite.Open(filepath.Join(b.TempDir(), "troupe.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { file.Close() })
			s := &commits{Store: file}
			for range b.N {
				if _, err := s.AddJob(b.Context(), store.Job{Agent: "a", Prompt: "go"}); err != nil {
					b.Fatal(err)
				}
			}
			done := make(chan struct{}, b.N)
			b.ResetTimer()
			cpu := cpuTime()
			benchWorker(b, s, oneCall("look"), worker.Options{Concurrency: n, OnEvent: func(ev worker.Event) {
				if ev.Type == worker.JobEnded {
					done <- struct{}{}
				}
			}})
			for range b.N {
				<-done
			}
			b.StopTimer()
			s.mu.Lock()
			b.ReportMetric(float64(len(s.all))/float64(b.N), "writes/job")
			s.mu.Unlock()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/job")
		})
	}
}
