package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Benchmark measures appends of one 512-byte event by 1, 16 and 64 writers that
// have a run each and wait for durability: events per second, and CPU time of
// the whole process per event.
func Benchmark(b *testing.B, open func(b *testing.B) store.Store) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := open(b)
			runs := make([]store.Run, writers)
			for i := range runs {
				var err error
				if runs[i], err = s.Create(b.Context(), store.Run{ID: fmt.Sprint("r", i)}, "w", ttl); err != nil {
					b.Fatal(err)
				}
			}
			body := json.RawMessage(`{"text":"` + strings.Repeat("x", 512-11) + `"}`)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			start, cpu := time.Now(), cpuTime()
			var wg sync.WaitGroup
			for _, r := range runs {
				wg.Go(func() {
					var last int64
					for left.Add(-1) >= 0 {
						var err error
						if last, err = s.Append(b.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: last,
							Events: []store.Event{{Type: store.ToolResult, Key: "k", Body: body}}}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "events/s")
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/event")
		})
	}
}

// BenchmarkJobs measures claims out of a queue of 100,000 jobs, one and eight at a time,
// each of which is then done: jobs per second.
func BenchmarkJobs(b *testing.B, open func(b *testing.B) store.Store) {
	const queue = 100_000
	s := open(b)
	var added atomic.Int64
	fill := func(n int64) {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for added.Add(1) <= n {
					if _, err := s.AddJob(b.Context(), store.Job{Agent: "a", Prompt: "Summarise the file."}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	fill(queue)
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("queued=%d/claim=%d", queue, n), func(b *testing.B) {
			b.ReportAllocs()
			jobs, start, cpu := 0, time.Now(), cpuTime()
			for b.Loop() {
				list, err := s.ClaimJobs(b.Context(), "w", n, ttl, []string{"a"})
				if err != nil || len(list) != n {
					b.Fatalf("ClaimJobs: got %d, %v, want %d", len(list), err, n)
				}
				jobs += n
				var wg sync.WaitGroup
				for _, j := range list {
					wg.Go(func() {
						u := store.JobUpdate{JobLease: store.JobLease{ID: j.ID, Epoch: j.Epoch}, Owner: "w", State: store.JobQueued}
						if _, err := s.UpdateJob(b.Context(), u); err != nil { // to the queue, which so stays as long
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(jobs)/time.Since(start).Seconds(), "jobs/s")
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(jobs), "cpu-µs/job")
		})
	}
	b.Run(fmt.Sprintf("queued=%d/counts", queue), func(b *testing.B) {
		for b.Loop() {
			if _, err := s.JobCounts(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(fmt.Sprintf("queued=%d/nothing-due", queue), func(b *testing.B) {
		for b.Loop() {
			if _, err := s.ClaimJobs(b.Context(), "w", 8, ttl, []string{"other"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
