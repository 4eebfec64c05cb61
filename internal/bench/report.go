package bench

import (
	"runtime"
	"time"
)

// Machine is where something was measured.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"` // that the process may use
	Go   string `json:"go"`
}

func thisMachine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version()}
}

// Latency is a distribution of durations in µs, to three digits.
type Latency struct {
	Count int64   `json:"count"`
	Min   float64 `json:"min"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// Progress is how far a measurement is.
type Progress struct {
	Phase   string
	Elapsed time.Duration
	Of      time.Duration // how long the phase lasts; 0 if it is by count
	Done    int64         // calls or sessions
	Total   int64         // 0 if it is by time
	Failed  int64
}

const progressTime = 250 * time.Millisecond

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Usage is what processes use.
type Usage struct {
	Processes int   `json:"processes"`
	Resident  int64 `json:"resident"` // bytes
	Files     int   `json:"files"`    // open descriptors
	Threads   int   `json:"threads"`

	cpu time.Duration
}
