package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// paceCollector has garbage collected the sooner, the more is live. By Go's own rule a
// process may grow to twice what is live before it is collected, which is good for a
// small one; with thousands of sessions that wait it is hundreds of megabytes that nobody
// uses. Users who set GOGC or GOMEMLIMIT know better, and are left alone.
func paceCollector() {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return
		}
	}
	(&pacer{percent: 100}).watch()
}

// pacer looks at the heap after each collection.
type pacer struct{ percent int }

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
}

// growth is by how much what is live may grow before it is collected, in percent.
func growth(live uint64) int {
	switch mb := live >> 20; {
	case mb < 32:
		return 100
	case mb < 64:
		return 50
	}
	return 20
}
