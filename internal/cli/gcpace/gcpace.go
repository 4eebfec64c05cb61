// Package gcpace sets how soon the garbage collector runs, by how much memory is live.
package gcpace

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// Start has garbage collected the sooner, the more is live, and memory that is
// free given back once nothing happens. By Go's own rule a process may grow to twice what
// is live before it is collected, and keeps what is free for when it grows again, which is
// good for a small one; with thousands of sessions that wait it is hundreds of megabytes
// that no session uses. A small busy process is collected for each few megabytes that it allocates: a worker with a
// backlog dozens of times a second, which takes a quarter of its time; it may grow further. The pacer leaves a process alone whose user sets GOGC or GOMEMLIMIT.
func Start() {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return
		}
	}
	newPacer().watch()
}

// Quiet is how long after a collection another must not have come for the process to count
// as one in which nothing happens.
const Quiet = 3 * time.Second

// pacer looks at the heap after each collection.
type pacer struct {
	percent int
	release *time.Timer // gives memory back
	own     atomic.Bool // the next collection is that of release
}

func newPacer() *pacer {
	p := &pacer{percent: 100}
	p.release = time.AfterFunc(Quiet, func() {
		p.own.Store(true)
		debug.FreeOSMemory()
	})
	p.release.Stop()
	return p
}

// watch has look called once what it makes here is collected.
func (p *pacer) watch() {
	runtime.AddCleanup(new(struct{ _ *byte }), func(p *pacer) { p.look(); p.watch() }, p)
}

func (p *pacer) look() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if percent := growth(sample[0].Value.Uint64()); percent != p.percent {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	if p.percent != 100 && !p.own.Swap(false) {
		p.release.Reset(Quiet)
	}
}

// growth is by how much what is live may grow before it is collected, in percent.
func growth(live uint64) int {
	switch mb := live >> 20; {
	case mb < 4: // to 16 MB
		return 300
	case mb < 8:
		return 150
	case mb < 32:
		return 100
	case mb < 64:
		return 50
	}
	return 20
}
