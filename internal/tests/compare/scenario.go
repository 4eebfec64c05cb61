package main

import "time"

// times are how long and how often things are done.
type times struct {
	repetitions int
	warm, load  time.Duration
	sessions    int // idle
	cancels     int
	teardown    int // sessions of a round
	asks        int // calls of ask, ten questions each
}

var (
	// briefly shows that everything works, and measures nothing worth reading.
	briefly = times{repetitions: 1, warm: 20 * time.Millisecond, load: 30 * time.Millisecond, sessions: 20, cancels: 10, teardown: 10, asks: 3}
	usual   = times{repetitions: 3, warm: 200 * time.Millisecond, load: 500 * time.Millisecond, sessions: 10_000, cancels: 1000, teardown: 1000, asks: 300}
	full    = times{repetitions: 5, warm: 300 * time.Millisecond, load: 1200 * time.Millisecond, sessions: 10_000, cancels: 10_000, teardown: 1000, asks: 1000}
)

// scenario is something to measure of every server.
type scenario struct {
	name    string
	mode    string // of the server
	columns []string
	main    string // the column that is compared with the floor
	slow    bool   // one repetition will do, its figures are stable
	run     func(p *process, t times) (sample, error)
	env     func() (env []string, done func(), err error) // nil: none
}

func loadScenario(name, mode string, l load) *scenario {
	s := &scenario{name: name, mode: mode, columns: loadColumns, main: colCPU, run: l.runHTTP}
	if mode == "stdio" {
		s.run = l.runStdio
	}
	return s
}

// scenarios returns all, in the order of the report.
func scenarios() []*scenario {
	return []*scenario{
		loadScenario("stdio-1", "stdio", load{small, 0, 1}),
		loadScenario("stdio-64", "stdio", load{small, 0, 64}),
		loadScenario("stdio-64k-1", "stdio", load{large, 0, 1}),
		loadScenario("stdio-64k-16", "stdio", load{large, 0, 16}),
		loadScenario("http-s1-c1", "http", load{small, 1, 1}),
		loadScenario("http-s100-c64", "http", load{small, 100, 64}),
		loadScenario("http-64k-s16-c16", "http", load{large, 16, 16}),
		loadScenario("modern-c1", "modern", load{small, 0, 1}),
		loadScenario("modern-c64", "modern", load{small, 0, 64}),
		loadScenario("modern-64k-c16", "modern", load{large, 0, 16}),
		{name: "nested-stdio", mode: "stdio", columns: nestedColumns, main: colCPU, run: nestedStdio},
		{name: "nested-http", mode: "http", columns: nestedColumns, main: colCPU, run: nestedHTTP},
		cancelScenario("cancel-stdio", "stdio", cancelStdio),
		cancelScenario("cancel-http", "http", cancelHTTP),
		cancelScenario("cancel-modern", "modern", cancelModern),
		{name: "teardown-1k", mode: "http", columns: teardownColumns, main: colDeleteCPU, run: teardown},
		{name: "idle-10k", mode: "http", columns: idleColumns, main: colIdle, slow: true, run: idle},
		{name: "idle-10k-sse", mode: "http", columns: idleColumns, main: colIdle, slow: true, run: idleStreams},
	}
}
