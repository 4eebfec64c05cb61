package mcpclient

import (
	"context"
	"runtime"
	"testing"
)

// P16: what a connection to a server costs while nothing goes on, with what its
// fake process keeps of the handshake.
func BenchmarkConnection(b *testing.B) {
	const n = 200
	sys := realSystem(b)
	processes := make([]*fakeProcess, n)
	next := 0
	for i := range processes {
		processes[i] = start(good)
	}
	fakes, fakeGoroutines := inUse()
	clients := make([]*Client, n)
	for i := range clients {
		c, err := Dial(b.Context(), Command("x"), &Options{System: sys, start: func(*Server) (process, error) {
			next++
			return processes[next-1], nil
		}})
		if err != nil {
			b.Fatal(err)
		}
		clients[i] = c
	}
	after, all := inUse()
	b.ReportMetric(float64(after-fakes)/n, "B/conn")
	b.ReportMetric(float64(all-fakeGoroutines)/n, "goroutines/conn")
	for _, c := range clients {
		if err := c.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	}
}

func inUse() (bytes float64, goroutines int) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), runtime.NumGoroutine()
}
