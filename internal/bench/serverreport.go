package bench

// FileSchema names the shape of a [File].
const FileSchema = "troupe.bench/1"

// File is what "troupe bench --json" writes, and "troupe bench compare" reads. Times are
// in µs and sizes in bytes unless a name says otherwise. Fields may be added to the
// shape; its number changes when one is taken away or comes to mean something else.
type File struct {
	Schema string    `json:"schema"` // [FileSchema]
	Runs   []*Report `json:"runs"`
}

// Report is what [Server] has measured.
type Report struct {
	Name     string  `json:"name"`
	Time     string  `json:"time"` // RFC 3339
	Machine  Machine `json:"machine"`
	Target   Target  `json:"target"`
	Load     Load    `json:"load"`
	Seconds  float64 `json:"seconds"`
	Calls    int64   `json:"calls"` // that were answered
	Rate     float64 `json:"callsPerSecond"`
	Failed   int64   `json:"failed"`
	Unsent   int64   `json:"unsent,omitzero"`   // of an open loop: due, and never begun
	Cut      bool    `json:"cutShort,omitzero"` // it was interrupted
	Latency  Latency `json:"latencyUs"`         // since a call was due
	Service  Latency `json:"serviceUs"`         // since it was begun
	Ping     Latency `json:"pingUs"`            // a sign of life, with nothing else going on
	Alone    Latency `json:"aloneUs"`           // a call, with nothing else going on
	Failures []Fail  `json:"failures"`
	// Windows are pieces of the run, in order.
	Windows  []Window  `json:"windows"`
	Server   *Process  `json:"server,omitzero"` // nil where the system does not show it
	Verdicts []Verdict `json:"verdicts"`
}

// Target is what was measured.
type Target struct {
	How      string `json:"how"` // command, url or in-process
	Server   string `json:"server,omitzero"`
	Era      string `json:"era"`
	Revision string `json:"revision"`
}

// Load is how.
type Load struct {
	Loop     string  `json:"loop"` // closed or open
	Sessions int     `json:"sessions"`
	InFlight int     `json:"inFlight"`
	Rate     float64 `json:"rate,omitzero"`
	Call     string  `json:"call"` // the tool, or "ping"
	Payload  int     `json:"payload"`
	Timeout  float64 `json:"timeoutMs"`
}

// Fail is a kind of failure.
type Fail struct {
	Kind  string `json:"kind"` // timeout, connection, protocol, tool, cancelled
	Count int64  `json:"count"`
	First string `json:"first"` // what the first of them said
}

// Window is a piece of a run.
type Window struct {
	Rate float64 `json:"callsPerSecond"`
	P50  float64 `json:"p50Us"`
	P99  float64 `json:"p99Us"`
}

// Process is what the server's processes have used.
type Process struct {
	PIDs      []int    `json:"pids"`
	CPUMicros float64  `json:"cpuUsPerCall"`
	Peak      int64    `json:"peakResident"`
	Samples   []Sample `json:"samples"`
	// What grows with the calls.
	Resident   Growth `json:"resident"`
	Files      Growth `json:"files"`
	Threads    Growth `json:"threads"`
	Goroutines Growth `json:"goroutines,omitzero"`
}

// Verdict is something that stands out.
type Verdict struct {
	Kind string `json:"kind"` // slow, queueing, leak, failing, overload
	Text string `json:"text"`
}
