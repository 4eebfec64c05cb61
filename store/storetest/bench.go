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
					for left.Add(-1) >= 0 {
						if _, err := s.Append(b.Context(), store.Append{Run: r.ID, Epoch: r.Epoch,
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
