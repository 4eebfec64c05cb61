package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcpclient"
)

// serverWatch looks at the server's processes from time to time.
type serverWatch struct {
	load  *load
	rec   *recorder
	roots []int
	begun time.Time
	first time.Duration // CPU time at the begin
	seen  *Process
	stop  func()
}

const (
	sampleTime = 100 * time.Millisecond
	maxSamples = 2000 // then every second one is dropped
)

// all are the processes with what they have started since.
func (w *serverWatch) all() []int {
	var all []int
	for _, root := range w.roots {
		for _, pid := range family(root) {
			if !slices.Contains(all, pid) {
				all = append(all, pid)
			}
		}
	}
	return all
}

// look takes a sample.
func (w *serverWatch) look() {
	s := Sample{Usage: usageOf(w.all()), Goroutines: w.goroutines()}
	s.At = time.Since(w.begun).Seconds()
	s.CPUSeconds = max(s.cpu-w.first, 0).Seconds()
	done, failed := w.rec.counts()
	s.Calls = done + failed
	w.seen.Peak = max(w.seen.Peak, s.Resident)
	if len(w.seen.Samples) == maxSamples {
		w.seen.Samples = thinned(w.seen.Samples)
	}
	if s.Processes > 0 {
		w.seen.Samples = append(w.seen.Samples, s)
	}
}

func thinned(all []Sample) []Sample {
	for i := range len(all) / 2 {
		all[i] = all[2*i]
	}
	return all[:len(all)/2]
}

// goroutines asks net/http/pprof how many there are; 0 where the server has none.
func (w *serverWatch) goroutines() int {
	if w.load.opts.Goroutines == "" {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.load.opts.Goroutines, nil)
	if err != nil {
		return 0
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	line, _ := bufio.NewReaderSize(res.Body, 256).ReadString('\n') // without the line there is no number either
	var n int
	if _, err := fmt.Sscanf(strings.TrimSpace(line), "goroutine profile: total %d", &n); err != nil {
		return 0
	}
	return n
}

// end returns what was seen.
func (w *serverWatch) end() *Process {
	w.stop()
	if w.seen == nil {
		return nil
	}
	w.look()
	p := w.seen
	p.Resident = memoryGrowth(p.Samples)
	p.Files = growthOf(p.Samples, func(s *Sample) float64 { return float64(s.Files) })
	p.Threads = growthOf(p.Samples, func(s *Sample) float64 { return float64(s.Threads) })
	p.Goroutines = growthOf(p.Samples, func(s *Sample) float64 { return float64(s.Goroutines) })
	return p
}

// load is one measurement.
type load struct {
	opts    *Options
	sys     *actors.System
	server  mcpclient.Server
	clients []*mcpclient.Client
	before  []int // what had been started before
	do      *operation
}
