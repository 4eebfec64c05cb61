package bench

import (
	"time"

	"github.com/troupe-dev/troupe/mcpclient"
)

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

// Sample is one look at the processes.
type Sample struct {
	At    float64 `json:"at"` // seconds since the begin
	Calls int64   `json:"calls"`
	Usage
	CPUSeconds float64 `json:"cpuSeconds"` // since the begin
	Goroutines int     `json:"goroutines,omitzero"`
}

func newReport(l *load) *Report {
	o := l.opts
	rep := &Report{Name: o.Name, Time: time.Now().UTC().Format(time.RFC3339), Machine: thisMachine(),
		Load: Load{Loop: "closed", Sessions: o.Sessions, InFlight: o.InFlight, Rate: o.Rate, Call: l.do.tool, Payload: len(l.do.args), Timeout: millis(o.Timeout)}}
	if o.Rate > 0 {
		rep.Load.Loop = "open"
	}
	if rep.Load.Call == "" {
		rep.Load.Call = "ping"
	}
	rep.Target = targetOf(&l.server, l.clients[0])
	if rep.Name == "" {
		rep.Name = l.server.Name
	}
	return rep
}

func targetOf(s *mcpclient.Server, c *mcpclient.Client) Target {
	t := Target{How: "in-process"}
	switch {
	case s.Command != "":
		t.How = "command"
	case s.URL != "":
		t.How = "url"
	}
	if info := c.Status().Info; info != nil {
		t.Era, t.Revision = info.Era.String(), string(info.Version)
		if info.Server != nil {
			t.Server = info.Server.Name
		}
	}
	return t
}

// fill takes over what was recorded.
func (rep *Report) fill(rec *recorder, took time.Duration, unsent int64) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rep.Seconds, rep.Calls, rep.Unsent = took.Seconds(), rec.done, unsent
	if took > 0 {
		rep.Rate = float64(rec.done) / took.Seconds()
	}
	rep.Latency, rep.Service, rep.Windows = latencyOf(rec.whole), latencyOf(rec.service), append([]Window{}, rec.windows...)
	rep.Failures = []Fail{}
	for _, kind := range []string{FailTimeout, FailConnection, FailProtocol, FailTool, FailCancelled} {
		if n := rec.failed[kind]; n > 0 {
			rep.Failed += n
			rep.Failures = append(rep.Failures, Fail{kind, n, rec.first[kind]})
		}
	}
	if p := rep.Server; p != nil && rep.Calls > 0 && len(p.Samples) > 0 {
		p.CPUMicros = p.Samples[len(p.Samples)-1].CPUSeconds * 1e6 / float64(rep.Calls+rep.Failed)
	}
}
