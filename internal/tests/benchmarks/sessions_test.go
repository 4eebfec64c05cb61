package benchmarks

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/internal/bench"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// BenchmarkAgentSessions is sessions that come and go, with a journal on disk, and what
// one costs that waits: half of them for the model, half for a tool. It is "troupe bench
// agents" in small; see there for ten thousand.
func BenchmarkAgentSessions(b *testing.B) {
	for _, live := range []int{1, 500} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			s, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				rep, err := bench.Agents(b.Context(), &bench.AgentsOptions{Sessions: live, Duration: -1, Store: s})
				if err != nil || rep.Passed.Failed > 0 {
					b.Fatalf("Agents: got %+v, %v", rep, err)
				}
				b.ReportMetric(rep.Live.PerSession/1000, "resident-KB/session")
				b.ReportMetric(rep.Passed.Rate, "sessions/s")
				b.ReportMetric(rep.Passed.Overhead.P50, "p50-µs/turn")
				b.ReportMetric(rep.Passed.Overhead.P99, "p99-µs/turn")
			}
		})
	}
}
